"""The protocol of compressors (texts in, fewer tokens of the same out), and what they share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from jiyi.errors import InputError
from jiyi.records import Message, check_tokens
from jiyi.text import TokenCounter

__all__ = ["Compressed", "Compressible", "Compressor", "Given", "Limit", "as_messages", "check_rate"]

Given = str | Message | Mapping[str, Any] | Sequence[str | Message | Mapping[str, Any]]
"""What can be compressed: a text, a message (a value or an OpenAI dict), or a list of these."""

Limit = int | None
"""The most tokens of a result; None: as many as the compressor is made for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compressed:
    """A compressed text, and what that saved."""

    text: str  # the smaller text
    sources: tuple[str, ...]  # ids of the messages that remain in part, in order
    tokens_before: int  # of the texts as given
    tokens: int  # of ``text``; never more than before
    method: str  # how it was made, such as "extractive" or "llm"
    notes: tuple[str, ...] = ()  # warnings, such as a model that failed


@runtime_checkable
class Compressor(Protocol):
    """Makes texts smaller.

    Guarantees: the result never takes more tokens than the input, nor more than ``max_tokens`` if that is
    given; it is in the language of the input; it names the messages that remain in part; an input that is
    small enough is returned unchanged, messages in order, one below the other.
    """

    def __call__(self, given: Given, *, max_tokens: Limit = None, query: str | None = None) -> Compressed:
        """Return the texts in fewer tokens, for the purpose ``query`` where the compressor uses one.

        InputError: ``given`` is no text or messages, or ``max_tokens`` is below 1.
        """


def as_messages(given: Given) -> tuple[Message, ...]:
    """Return the input as messages, a text as a user message; InputError, BadMessage: it is neither."""
    if isinstance(given, str):
        return (Message(role="user", content=given),)
    if isinstance(given, Message):
        return (given,)
    if isinstance(given, Mapping):
        return (Message.from_openai(given),)
    if isinstance(given, Sequence) and not isinstance(given, bytes | bytearray):
        return tuple(message for item in given for message in as_messages(item))
    raise InputError(f"compress a text, a message or a list of messages, not {type(given).__name__}")


class Compressible:
    """The texts to compress, with their tokens and the method that results name; raises as `Compressor`."""

    def __init__(self, given: Given, counter: TokenCounter, method: str, max_tokens: Limit = None) -> None:
        if max_tokens is not None:
            check_tokens("max_tokens", max_tokens)
        self.counter, self.method = counter, method
        self.messages = as_messages(given)
        self.texts = [message.search_text for message in self.messages]
        self.whole = "\n".join(self.texts)
        self.tokens = self.counter.count_text(self.whole)

    def unchanged(self, *notes: str) -> Compressed:
        """Return the texts unchanged."""
        ids = [message.id for message, text in zip(self.messages, self.texts, strict=True) if text.strip()]
        return self.result(self.whole, ids, *notes)

    def result(self, text: str, sources: Sequence[str], *notes: str, method: str = "") -> Compressed:
        """Return the result."""
        ids, tokens = tuple(sources), {"tokens_before": self.tokens, "tokens": self.counter.count_text(text)}
        return Compressed(text=text, sources=ids, method=method or self.method, notes=notes, **tokens)


def check_rate(rate: object, force_tokens: Sequence[str]) -> None:
    """Raise `InputError` for a rate that is not above 0 and at most 1, or words that are no list of texts."""
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= 1:
        raise InputError(f"rate={rate!r} must be a share of the tokens: above 0, at most 1")
    if isinstance(force_tokens, str) or not all(isinstance(word, str) for word in force_tokens):
        raise InputError(f'force_tokens takes a list of texts, such as ["重要", "key"], not {force_tokens!r}')
