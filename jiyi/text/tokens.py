"""Token counts: exact with a known vocabulary, else an upper estimate."""

import math
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from jiyi.errors import InputError
from jiyi.records import Message
from jiyi.text.overhead import PRIMING, message_tokens, openai_tools, template_tools

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
        have another line break), and those of names, tool calls and content parts by `jiyi.text.overhead`:
        1,445 for a picture or sound, the upper bound of the rule for pictures; for a file a sixteenth of
        its bytes, but not less; for any other part its JSON. Models with other prices for pictures
        (gpt-4o-mini; the patches of gpt-4.1-mini and -nano) and more than a minute of sound can take more.
        """
        if message.tokens is not None and message.tokens_by == self.name:
            return message.tokens
        return message_tokens(message, self.count_text, 3 if self._is_openai else 4)

    def counted(self, message: Message) -> Message:
        """Return ``message`` with its token count."""
        known = message.tokens is not None and message.tokens_by == self.name
        return message if known else replace(message, tokens=self.count(message), tokens_by=self.name)

    def count_all(self, messages: Iterable[Message]) -> int:
        """Return the tokens of a whole request: every message, and 3 for the start of the reply."""
        return PRIMING + sum(self.count(message) for message in messages)

    def count_tools(self, tools: Sequence[Mapping[str, Any]]) -> int:
        """Return the tokens of tool definitions of OpenAI's form in a request; see `jiyi.text.overhead`."""
        if not self._is_openai:
            return template_tools(tools, self.count_text)
        return openai_tools(tools, self.count_text, 10 if self.encoding == "cl100k_base" else 7)

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
