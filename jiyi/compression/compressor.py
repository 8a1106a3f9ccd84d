"""The protocol every compressor follows: texts in, fewer tokens of the same out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from jiyi.errors import InputError
from jiyi.records import Message

__all__ = ["Compressed", "Compressor", "Given", "as_messages"]

Given = str | Message | Mapping[str, Any] | Sequence[str | Message | Mapping[str, Any]]
"""What can be compressed: a text, a message (a value or an OpenAI dict), or a list of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compressed:
    """What was made of the texts, and what that saved."""

    text: str  # the smaller text
    sources: tuple[str, ...]  # ids of the messages that something of is left, in their order
    tokens_before: int  # of the texts as given
    tokens: int  # of ``text``; never more than before
    method: str  # how it was made, such as "extractive" or "llm"
    notes: tuple[str, ...] = ()  # what was not as it should be, such as a model that failed


@runtime_checkable
class Compressor(Protocol):
    """Makes texts smaller.

    Guarantees: the result never takes more tokens than the input, nor than ``max_tokens``
    where that is given; it is in the language of the input; it names the messages it
    holds something of; an input that is small enough comes back as it is, messages in
    order, one below the other.
    """

    def __call__(
        self, given: Given, *, max_tokens: int | None = None, query: str | None = None
    ) -> Compressed:
        """Return the texts in fewer tokens.

        Args:
            given: a text, a message or messages.
            max_tokens: most tokens of the result; the compressor's own measure where it is
                left out.
            query: what it will be read for, where the compressor looks at that.

        Raises:
            InputError: ``given`` is none of these, or ``max_tokens`` is below 1.
        """
        ...


def as_messages(given: Given) -> tuple[Message, ...]:
    """Return what is to be compressed as messages; a text becomes a user message.

    Raises:
        InputError: it is neither text nor messages.
        BadMessage: a dict is no Chat Completions message.
    """
    if isinstance(given, str):
        return (Message(role="user", content=given),)
    if isinstance(given, Message):
        return (given,)
    if isinstance(given, Mapping):
        return (Message.from_openai(given),)
    if isinstance(given, Sequence) and not isinstance(given, bytes | bytearray):
        return tuple(message for one in given for message in as_messages(one))
    raise InputError(f"compress a text, a message or a list of messages, not {type(given).__name__}")
