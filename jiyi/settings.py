"""Settings: keyword arguments, then ``JIYI_*`` environment variables, then a TOML file."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from datetime import UTC, tzinfo
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, TomlConfigSettingsSource
from pydantic_settings import SettingsError as SourceError

from jiyi.errors import InputError, SettingsError
from jiyi.prompts import check_prompt
from jiyi.records import Allocation, ForgetWeights
from jiyi.records.budget import ASSUMED, model_size
from jiyi.telling import mask

_PREFIX = "JIYI_"
_Origin = Annotated[str, Field(pattern=r"^(\*|https?://[^/\s]+)$")]  # of web pages
_MAX_THREADS = 4  # of the bundled model, unless more are set: the rest of the program needs cores, too
_OTHERS = ("API_KEY", "CONFIG", "DB", "PASSWORD")  # of `connect`, the file, --db, the role of deploy/postgres
_FOREIGN_VARIABLES = re.compile(  # of test runs; of Kubernetes and Docker for a service named jiyi
    r"\A(?:TEST_\w+|(\w+_)?(PORT|SERVICE_HOST|SERVICE_PORT\w*)|(\w+_)?PORT_\d+_\w+)"
)


class ModelLimits(BaseModel):
    """The token limits of one model; a limit left out is the one set for all."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_input_tokens: int | None = Field(default=None, ge=1)
    max_output_tokens: int | None = Field(default=None, ge=0)


class Settings(BaseSettings):
    """Everything that can be set, with its default. Each name is also ``JIYI_<NAME>``."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, frozen=True, extra="forbid", hide_input_in_errors=True
    )

    user_id: str | None = None  # whose memory, unless a call says otherwise
    agent_id: str | None = None  # which agent, unless a call says otherwise
    model: str = "gpt-4o"  # the model the window is for: how tokens are counted, how many there may be
    max_input_tokens: Annotated[int, Field(ge=1)] | Literal["model"] = 8_000  # of a window; "model": all
    max_output_tokens: int = Field(2_000, ge=0)  # tokens kept free for the reply
    max_turns: int = Field(20, ge=1)  # turns a session keeps in its window
    session_ttl_minutes: float = Field(30, ge=0.001, le=1e9)  # an idle session leaves memory after these
    recall_floor: float = Field(0.5, ge=0, le=1)  # relevance from which on a window shows it; 0 or "off": all
    profile_share: float = Field(0.1, ge=0, le=1)  # most of a window that the lines of the profile take
    learn_facts: bool = True  # read facts from messages as they are saved
    forget_messages_days: float | None = Field(None, gt=0, le=1e5)  # older ones leave by the forget gate
    forget_threshold: float = Field(0.25, ge=0, le=1)  # episodes worth less may leave by it
    forget_min_age_days: float = Field(7, ge=0, le=1e5)  # younger ones stay unless there are too many
    forget_max_episodes: int = Field(10_000, ge=0)  # most episodes that stay
    forget_weights: ForgetWeights = ForgetWeights()  # what episodes are worth; the rest is as by default
    forget_grace_days: float = Field(30, ge=0, le=1e5)  # what left can be brought back for so long
    consolidation_min_episodes: int = Field(3, ge=2)  # so many about one thing become knowledge
    consolidation_target_key: str = ""  # the note of a task that says its target, where none was given
    models: dict[str, ModelLimits] = Field({})  # limits by name of `model`
    task_types: dict[str, Allocation] = Field({})  # how kinds of task share a window, next to `PRESETS`
    max_episodes: int = Field(5, ge=0, le=100)  # most episodes in a window
    max_knowledge: int = Field(3, ge=0, le=100)  # most pieces of knowledge in a window
    summary_prompt: str = ""  # asks the language model for summaries, in place of jiyi's own
    summaries: Literal["auto", "off"] = "auto"  # fold older messages into a running summary
    summary_wait: bool = False  # windows wait for the language model; else it writes in the background
    summary_tokens: int = Field(500, ge=20)  # most tokens of a summary
    summary_at: float = Field(0.8, gt=0, le=1)  # fold when messages fill so much of the window
    summary_after: int = Field(50, ge=1)  # or when they are more than so many
    summary_keep_turns: int = Field(3, ge=1)  # newest turns that stay whole
    summary_place: Literal["system", "message"] = "system"  # in the system section, or after it
    skills: list[Path] = Field([])  # folders of skills
    monitor: bool = True  # watch windows and replies; see MemoryManager.monitor
    language: Literal["auto", "zh", "en"] = "auto"  # of headings; auto: as the question
    timezone: str = "UTC"  # for dates shown, and for imported dates without a zone
    database_url: SecretStr | None = None  # where the memory is, unless open() is told
    migrate_on_open: bool = True  # make and upgrade a server's tables; else `jiyi migrate` must have
    lock_timeout: float = Field(5, ge=0, le=1e6)  # seconds to wait for another process's write
    statement_seconds: float = Field(30, gt=0, le=1e6)  # most a statement on a server may take
    pool_min: int = Field(1, ge=0, le=1_000)  # connections to a server that are kept open
    pool_max: int = Field(10, ge=1, le=1_000)  # most connections to a server
    pool_seconds: float = Field(10, gt=0, le=1e6)  # seconds to wait for a free one
    reconnect_seconds: float = Field(30, ge=0, le=1e6)  # a lost server is tried again for so long
    vector_index: Literal["own", "faiss", "chroma"] = "own"  # the database's own, with FAISS, or Chroma
    chroma_url: str | None = None  # a Chroma server, such as http://localhost:8000
    chroma_path: Path | None = None  # else a folder; next to a file it is <file>.chroma by default
    # what names of Chroma's collections begin with
    chroma_collection: str = Field("jiyi", pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,99}$")
    embedder: Literal["e5", "openai"] = "e5"  # the bundled model, or an endpoint
    embedding_engine: Literal["auto", "onnxruntime", "numpy"] = "auto"  # what computes the bundled model
    embedding_threads: int | None = Field(None, ge=1)  # of the bundled model; None: the cores, at most 4
    model_file: Path | None = None  # the bundled model's data file, where it is in no usual place
    embedding_model: str = ""  # the endpoint's model
    embedding_base_url: str | None = None  # the endpoint, such as http://localhost:8000/v1
    embedding_api_key: SecretStr | None = None
    embedding_query_model: str | None = None  # a second model name for questions, where there are two
    embedding_query_prefix: str = ""  # put before questions
    embedding_passage_prefix: str = ""  # put before stored texts
    embedding_max_chars: int = Field(8_000, ge=1)  # longest text sent; the rest is not embedded
    embedding_batch_size: int = Field(64, ge=1)  # most texts of a request
    embedding_seconds: float = Field(3.0, gt=0, le=3_600)  # most the endpoint may take for a question
    embedding_dimensions: int | None = Field(None, ge=1)  # asks for shorter vectors, where the model can
    reranker: Literal["none", "endpoint", "cross-encoder", "llm"] = "none"  # what looks at hits again
    reranker_model: str = ""  # the endpoint's model; of a cross-encoder the name or folder
    reranker_base_url: str | None = None  # the endpoint, such as https://api.siliconflow.cn/v1
    reranker_api_key: SecretStr | None = None
    reranker_seconds: float = Field(3.0, gt=0, le=3_600)  # after these the order from before holds
    llm_model: str = ""  # the endpoint's model; empty: no step uses a language model
    llm_base_url: str | None = None  # the endpoint, such as http://localhost:11434/v1
    llm_api_key: SecretStr | None = None
    llm_seconds: float = Field(60.0, gt=0, le=3_600)  # most a call may take, all tries included
    maintain_hours: float | None = Field(None, gt=0, le=1e6)  # between runs of `maintain`; None: on call only
    reader: Literal["auto", "off"] = "auto"  # let the language model read talk for facts in the background
    reader_messages: int = Field(20, ge=1, le=1_000)  # read at once: a session with so many is due
    reader_tokens: int = Field(4_000, ge=1)  # most of them that are read at once
    reader_pause_minutes: float = Field(10, ge=0, le=1e6)  # a session is read to its end after that
    reader_calls_per_hour: int = Field(60, ge=0)  # most of the reader, of all processes together
    reader_tokens_per_day: int = Field(500_000, ge=0)  # asked and answered, of all processes together
    server_requests_per_minute: int = Field(6_000, ge=0)  # of one key; 0: any number
    server_body_mb: float = Field(10, gt=0, le=1_000)  # largest body of a request
    server_import_mb: float = Field(1_000, gt=0, le=1e6)  # largest file to import
    server_seconds: float = Field(60, gt=0, le=3_600)  # most a request may take
    server_stop_seconds: float = Field(30, ge=0, le=3_600)  # requests in hand get so long to end
    server_origins: list[_Origin] = []  # whose pages may ask the server
    oauth_issuer: str | None = None  # whose access tokens /mcp takes; the next two are set with it
    oauth_keys_url: str | None = None  # where the issuer's JSON Web Key Set is
    oauth_resource: str | None = None  # the address of /mcp as clients know it; tokens are for it
    oauth_tenant: str = ""  # whose users the subjects of tokens are
    proxy_upstream: str | None = None  # /openai/v1 asks it, such as https://api.openai.com/v1
    proxy_upstream_key: SecretStr | None = None  # sent there; None: what the client sends
    proxy_tokens: int = Field(1_500, ge=50)  # most that is recalled for a request
    proxy_seconds: float = Field(3, gt=0, le=600)  # the memory may take; then a request goes on without it

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Return what `repr` shows: addresses without passwords and keys."""
        for name, value in super().__repr_args__():
            yield name, mask(value) if isinstance(value, str) else value

    @field_validator("recall_floor", mode="before")
    @classmethod
    def _read_floor(cls, floor: object) -> object:
        return 0.0 if floor == "off" else floor

    @field_validator("task_types", "forget_weights", mode="before")
    @classmethod
    def _read_records(cls, value: object, info: ValidationInfo) -> object:
        if not isinstance(value, Mapping):
            return value
        expected = "an allocation has system, knowledge, history, output"
        try:
            if info.field_name == "task_types":
                return {n: Allocation(**a) if isinstance(a, Mapping) else a for n, a in value.items()}
            expected = "the weights are " + ", ".join(field.name for field in fields(ForgetWeights))
            return ForgetWeights(**value)
        except (TypeError, InputError) as error:
            raise ValueError(f"{expected}: {error}") from error

    @field_validator("summary_prompt")
    @classmethod
    def _check_summary_prompt(cls, text: str) -> str:
        if text:
            check_prompt(text, needed=("dialogue",), others=("summary", "limit"))
        return text

    @field_validator("timezone")
    @classmethod
    def _check_zone(cls, name: str) -> str:
        if name != "UTC":
            try:
                ZoneInfo(name)
            except (ZoneInfoNotFoundError, ValueError, OSError) as error:
                raise ValueError(f"unknown time zone {name!r}; use a name such as Asia/Shanghai") from error
        return name

    @property
    def zone(self) -> tzinfo:
        """The time zone itself."""
        return UTC if self.timezone == "UTC" else ZoneInfo(self.timezone)

    @property
    def threads(self) -> int:
        """How many texts the bundled model embeds side by side."""
        return self.embedding_threads or min(os.cpu_count() or 1, _MAX_THREADS)

    @property
    def limits(self) -> tuple[int, int]:
        """Most tokens of a window and of the reply.

        Those of the model where ``models`` has any; else as set, and not more than a model that
        is known takes. See `jiyi.records.budget`.
        """
        own, known = self.models.get(self.model, ModelLimits()), model_size(self.model)
        reply = self.max_output_tokens if own.max_output_tokens is None else own.max_output_tokens
        if own.max_input_tokens is not None:
            return own.max_input_tokens, reply
        if self.max_input_tokens == "model" or known is not None:
            size = known or ASSUMED
            reply = min(reply, size.reserve) if own.max_output_tokens is None else reply
            room = max(size.context_window - reply, 1)
            return room if self.max_input_tokens == "model" else min(self.max_input_tokens, room), reply
        return self.max_input_tokens, reply

    @property
    def assumed(self) -> str:
        """What `limits` assumed about the model, or changed for it, in words; "" if nothing."""
        if self.models.get(self.model, ModelLimits()).max_input_tokens is not None:
            return ""
        window, reply = self.limits
        sizes = f"{window:,} tokens of input and {reply:,} for the reply"
        if model_size(self.model) is None:
            if self.max_input_tokens != "model" and "max_input_tokens" in self.model_fields_set:
                return ""
            how = "set max_input_tokens, or its limits in models"
            return f"the limits of the model {self.model!r} are not known; {sizes} assumed: {how}"
        if self.max_input_tokens != "model" and window < self.max_input_tokens:
            return f"the model {self.model!r} takes less than is set: {sizes}"
        return ""

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: Any, env_settings: Any, *_: Any, **__: Any
    ) -> tuple[Any, ...]:
        """Order the sources; called by pydantic-settings."""
        _check_names(os.environ, settings_cls.model_fields)
        config = os.environ.get("JIYI_CONFIG")
        file = Path(config or "jiyi.toml")
        if config and not file.is_file():
            raise ValueError(f"JIYI_CONFIG names {config}, which is no file")
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=file)


def _check_names(environment: Iterable[str], fields: Iterable[str]) -> None:
    """Refuse names that look like settings but are not, so that typos are noticed."""
    names = [*_OTHERS, *(name.upper() for name in fields)]
    for variable in environment:
        name = variable.upper().removeprefix(_PREFIX)
        if name == variable.upper() or name in names or _FOREIGN_VARIABLES.fullmatch(name):
            continue
        near = _PREFIX + get_close_matches(name, names, n=1, cutoff=0)[0]
        unknown = f"the environment variable {variable} is no setting; the nearest is {near}"
        raise SettingsError(f"{unknown}: correct its name or unset it")


def load_settings(**values: Any) -> Settings:
    """Return the settings; ``values`` that are not None win over environment and file.

    The file is ``jiyi.toml`` in the working folder, or what ``JIYI_CONFIG`` names. Raises `SettingsError`.
    """
    try:
        return Settings(**{name: value for name, value in values.items() if value is not None})
    except ValidationError as error:
        reasons = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        reasons = reasons.replace("Extra inputs are not permitted", "there is no such setting")
        unknown = [name for name in values if name not in Settings.model_fields]
        near = [known for name in unknown for known in get_close_matches(name, Settings.model_fields, n=1)]
        hint = f"; did you mean {' and '.join(near)}" if near else ""
        raise SettingsError(f"unusable settings: {reasons}{hint}") from error
    except SourceError as error:
        raise SettingsError(f"unusable settings: {error}: {error.__cause__}") from error
    except (ValueError, OSError) as error:
        raise SettingsError(f"the settings file cannot be read: {error}") from error
