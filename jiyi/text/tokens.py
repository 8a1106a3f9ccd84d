"""Token counts: exact with a known vocabulary, else an upper estimate.

What messages and tool definitions take beyond their plain text follows rules that OpenAI publishes; else
numbers come from measured requests; without any the larger number is taken.

Sources: [1] OpenAI Cookbook, "How to count tokens with tiktoken", sections 6 and 7. [2] OpenAI
guide "Images and vision", cost of tile-based models. [3] Requests with their ``prompt_tokens``
in community.openai.com/t/538914 and github.com/forestwanglin/openai-java/issues/5. [4] OpenAI guide
"Managing costs" (Realtime).
"""

import json
import math
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from jiyi.errors import InputError
from jiyi.records import ContentPart, Message
from jiyi.records.message import SENT_EXTRAS

__all__ = ["ENCODINGS", "TokenCounter", "counter_for"]

ENCODINGS = ("o200k_base", "cl100k_base", "o200k_harmony", "qwen3.5")
"""The vocabularies with exact counts."""

_MODELS = (  # the first pattern that matches the start of the name of a model
    (r"gpt-oss", "o200k_harmony", None),
    (r"gpt-4o|gpt-4\.[15]|gpt-5|chatgpt-|o[134](?![a-z0-9])", "o200k_base", None),
    (r"gpt-4|gpt-3\.?5|text-embedding-(?:3|ada-002)", "cl100k_base", None),
    (r"qwen3\.5", "qwen3.5", None),
    (r".*(?:claude|llama-?2|mistral-7b|mixtral|vicuna)", "cl100k_base", 1.35),
    (r"", "o200k_base", 1.25),
)
_MAX_CACHED_CHARS = 500  # of a text whose count is cached
_SURROGATE = re.compile("[\ud800-\udfff]")
_MANY_MARKS = re.compile(r"[^\w\s\x00-\x7f]{1000}")
_Count = Callable[[str], int]

_PRIMING = 3  # every reply is primed with the start of an assistant message [1]
_NAME = 1  # besides the tokens of a name [1]
_ONE_CALL = 3  # a single tool call, besides name and arguments [3]
_PARALLEL, _EACH_CALL = 19, 8  # several calls are wrapped into one call of "multi_tool_use" [3]
_MEDIA = 85 + 170 * 8  # a picture of at most 2 x 4 tiles of 512 [2]; as much as 72 to 144 s of sound [4]
_FILE_BYTES = 16  # bytes of a file per token: a 30 kB page of a PDF gives 1,900, text and picture
_TEMPLATE_TOOLS = 200  # sentences of chat templates around tool definitions, which they show as JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCounter:
    """Counts the tokens of texts, messages and tool definitions for one vocabulary.

    * Cheap to create, and safe to share between threads; the first count loads the vocabulary.
    * Counts any text: "" is 0, NUL is a character, lone surrogates count as U+FFFD, and names of special
      tokens such as "<|endoftext|>" count as ordinary text.
    * ``factor=None`` counts exactly; with a number the count of the vocabulary times it, rounded up.

    InputError: unknown encoding, or a factor that is not a positive number.
    """

    encoding: str = "o200k_base"  # one of ENCODINGS
    factor: float | None = None  # estimated count / count by the encoding; None if exact

    def __post_init__(self) -> None:
        if self.encoding not in ENCODINGS:
            raise InputError(f"no encoding {self.encoding!r}; there are {', '.join(ENCODINGS)}")
        if self.factor is not None and not (self.factor > 0 and math.isfinite(self.factor)):
            raise InputError(f"factor={self.factor!r} must be a positive number")

    @property
    def name(self) -> str:
        """The value of ``Message.tokens_by``, from which `counter_for` makes the same counter."""
        return self.encoding if self.factor is None else f"estimate:{self.encoding}*{self.factor!r}"

    @property
    def exact(self) -> bool:
        """Whether texts are counted by the vocabulary of the model."""
        return self.factor is None

    def count_text(self, text: str) -> int:
        """Return the tokens of ``text`` alone; 5 MB take about 0.1 s."""
        found = (_count if len(text) <= _MAX_CACHED_CHARS else _count.__wrapped__)(self.encoding, text)
        return found if self.factor is None else _scale(found, self.factor)

    def count(self, message: Message) -> int:
        """Return the tokens of a message in a request, or the count in the message if this counter made it.

        They are those of its text and 3 more (4 with vocabularies other than OpenAI's, whose chat templates
        have another line break), and those of names, tool calls and content parts by the rules above:
        1,445 for a picture or sound, the upper bound of the rule for pictures; for a file a sixteenth of
        its bytes, but not less; for any other part its JSON. Models with other prices for pictures
        (gpt-4o-mini; the patches of gpt-4.1-mini and -nano) and more than a minute of sound can take more.
        """
        if message.tokens is not None and message.tokens_by == self.name:
            return message.tokens
        count, calls, extra = self.count_text, message.tool_calls, message.extra
        total = 3 if self._is_openai else 4
        total += count(str(extra.get("role") or message.role))
        said = message.content
        total += count(said) if isinstance(said, str) else sum(_part_tokens(p, count) for p in said or ())
        if message.name is not None:
            total += _NAME + count(message.name)
        elif message.tool_call_id is not None:  # a tool result without a name; never shorter than that
            total += count(message.tool_call_id)
        if calls:
            total += sum(count(call.name) + count(call.arguments) for call in calls)
            total += _ONE_CALL if len(calls) == 1 else _PARALLEL + _EACH_CALL * len(calls)
        return total + sum(_value_tokens(extra.get(key), count) for key in SENT_EXTRAS)

    def counted(self, message: Message) -> Message:
        """Return ``message`` with its token count."""
        known = message.tokens is not None and message.tokens_by == self.name
        return message if known else replace(message, tokens=self.count(message), tokens_by=self.name)

    def count_all(self, messages: Iterable[Message]) -> int:
        """Return the tokens of a whole request: every message, and 3 for the start of the reply."""
        return _PRIMING + sum(self.count(message) for message in messages)

    def count_tools(self, tools: Sequence[Mapping[str, Any]]) -> int:
        """Return the tokens of tool definitions of OpenAI's form in a request; see docs/text.md."""
        if not tools:
            return 0
        if not self._is_openai:
            return _TEMPLATE_TOOLS + sum(self.count_text(_json(tool)) + 1 for tool in tools)
        each = 10 if self.encoding == "cl100k_base" else 7
        return 12 + sum(each + _function_tokens(tool, self.count_text) for tool in tools)

    def truncate(self, text: str, max_tokens: int) -> str:
        """Return the longest prefix of ``text`` with at most ``max_tokens``, "" for zero or less."""
        limit = max_tokens
        if self.factor is not None:
            limit = int(max_tokens / self.factor) + 1
            while limit > 0 and _scale(limit, self.factor) > max_tokens:
                limit -= 1
        prefix = _truncate(self.encoding, text, limit) if limit > 0 else ""
        while prefix and self.count_text(prefix) > max_tokens:  # it may be split into other tokens
            prefix = prefix[:-1]
        return prefix

    def spread(self, texts: Sequence[str], total: int) -> list[int]:
        """Return the tokens of several texts that take ``total`` together.

        Each is counted alone; since adjacent texts may share tokens, the largest counts are adjusted by the
        difference. None is negative, and they sum to ``total`` if that is at least 0.
        """
        counts = [self.count_text(text) for text in texts]
        order = sorted(range(len(counts)), key=counts.__getitem__, reverse=True)
        excess = sum(counts) - max(total, 0)
        while excess and order:
            order = [index for index in order if excess < 0 or counts[index]]
            share = max(abs(excess) // len(order), 1)
            for index in order[: abs(excess)]:
                change = min(share, counts[index]) if excess > 0 else -share
                counts[index] -= change
                excess -= change
        return counts

    @property
    def _is_openai(self) -> bool:
        return self.factor is None and self.encoding != "qwen3.5"


@lru_cache(maxsize=256)
def counter_for(model: str = "gpt-4o") -> TokenCounter:
    """Return the counter for the name of a model or encoding.

    It understands provider prefixes ("openai/gpt-4o"), fine-tuned names ("ft:gpt-4o:..."), tags ("llama3:8b")
    and the names of counters. Exact are models of OpenAI and qwen3.5. Every other model gets an estimate
    meant to err upwards: o200k_base x 1.25, or cl100k_base x 1.35 for claude, llama-2, mixtral, mistral-7b
    and vicuna. How it was checked: docs/text.md. ``TokenCounter(encoding=..., factor=...)`` takes a ratio of
    your own.

    InputError: ``model`` is empty.
    """
    name = model.strip().lower()
    if not name:
        raise InputError('model is empty; pass a name such as "gpt-4o" or "deepseek-chat"')
    if name in ENCODINGS:
        return TokenCounter(encoding=name)
    if found := re.fullmatch(r"estimate:([\w.]+)\*([\d.e+-]+)", name):
        return TokenCounter(encoding=found[1], factor=float(found[2]))
    name = name.rpartition("/")[2].removeprefix("ft:").partition(":")[0]
    encoding, factor = next((known, by) for pattern, known, by in _MODELS if re.match(pattern, name))
    return TokenCounter(encoding=encoding, factor=factor)


def _scale(tokens: int, factor: float) -> int:
    return math.ceil(tokens * factor - 1e-9)


@lru_cache(maxsize=len(ENCODINGS))
def _vocabulary(encoding: str) -> tuple[Callable[[str], int], Callable[[str, int], str]]:
    """Return the functions that count and truncate; only this function knows the tokenizer package."""
    import toktok

    # One text through the public batch call takes 22 us, through the loaded encoding 0.4 us;
    # the latter is private, so a later version of the package may not have it.
    load = getattr(toktok, "_encoding", None)
    if load is None:
        return (
            lambda text: int(toktok.batch_count([text], encoding, threads=1)[0]),
            lambda text, limit: str(toktok.truncate(text, limit, encoding)[0]),
        )
    loaded = load(encoding)
    return loaded.count, lambda text, limit: str(loaded.truncate(text, limit)[0])


@lru_cache(maxsize=4096)
def _count(encoding: str, text: str) -> int:
    count, _ = _vocabulary(encoding)
    try:
        return count(_prepare(encoding, text))
    except UnicodeEncodeError:
        return count(_prepare(encoding, _SURROGATE.sub("\ufffd", text)))


def _truncate(encoding: str, text: str, limit: int) -> str:
    _, truncate = _vocabulary(encoding)
    clean = _SURROGATE.sub("\ufffd", text)  # of the same length, so that the cut is at the same place
    if _prepare(encoding, clean) is clean:
        return text[: len(truncate(clean, limit))]
    # The vocabulary reads another form of the text: find the place by counting prefixes.
    count = _count.__wrapped__
    if count(encoding, text) <= limit:  # "nginx" can take fewer than "ngin"
        return text
    return text[: bisect_right(range(1, len(text) + 1), limit, key=lambda n: count(encoding, text[:n]))]


def _prepare(encoding: str, text: str) -> str:
    """Return the form that the vocabulary reads: NFC for Qwen, the text itself for others."""
    # Ordering the marks of a letter is quadratic in their number; no normal text has a thousand.
    as_it_is = encoding != "qwen3.5" or text.isascii() or _MANY_MARKS.search(text)
    return text if as_it_is or unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


def _part_tokens(part: ContentPart, count: _Count) -> int:
    kind = part.get("type")
    for key in ("text", "refusal"):
        if isinstance(part.get(key), str):
            return count(part[key])
    body = part.get(str(kind))
    if kind in ("image_url", "input_image", "input_audio"):
        return _MEDIA
    if kind == "file" and isinstance(body, Mapping):
        # The pages of an uploaded file are unknown: it has at least one.
        return max(_MEDIA, len(str(body.get("file_data") or "")) * 3 // 4 // _FILE_BYTES)
    return count(_json(part))


def _function_tokens(tool: Mapping[str, Any], count: _Count) -> int:
    """Return the tokens of a definition by the rule of [1], without those that each of them takes.

    3 for having properties, 3 each property, -3 and 3 each item for an enum, and the tokens of
    ``name:description`` and ``name:type:description``. Parts of a schema without a rule (items, nested
    objects, anyOf) count as JSON.
    """
    body = tool.get(str(tool.get("type") or "function"), tool)
    if not isinstance(body, Mapping):
        return count(_json(tool))
    total = count(f"{body.get('name') or ''}:{_description(body)}")
    schema = body.get("parameters")
    if not isinstance(schema, Mapping):
        return total + _rest_tokens(body, count, "name", "description", "strict", "type")
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and properties:
        total += 3 + sum(3 + _property_tokens(str(name), p, count) for name, p in properties.items())
    return total + _rest_tokens(schema, count, "type", "properties", "required", "additionalProperties")


def _property_tokens(name: str, schema: object, count: _Count) -> int:
    if not isinstance(schema, Mapping):
        return count(f"{name}:{_json(schema)}")
    total = count(f"{name}:{schema.get('type') or ''}:{_description(schema)}")
    items = schema.get("enum")
    if isinstance(items, Sequence) and not isinstance(items, str):
        total += -3 + sum(3 + count(item if isinstance(item, str) else _json(item)) for item in items)
    return total + _rest_tokens(schema, count, "type", "description", "enum")


def _rest_tokens(schema: Mapping[str, Any], count: _Count, *known: str) -> int:
    return _value_tokens({name: value for name, value in schema.items() if name not in known}, count)


def _description(body: Mapping[str, Any]) -> str:
    return str(body.get("description") or "").removesuffix(".")


def _value_tokens(value: object, count: _Count) -> int:
    if value is None or value in ({}, [], ()):
        return 0
    return count(value if isinstance(value, str) else _json(value))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
