"""Conversations as they are given: messages, or the dicts a chat endpoint takes."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from jiyi.records import Message
from jiyi.short_term.policy import Dropped, Kept

__all__ = ["Given", "as_given", "as_messages", "put_back"]

Given = Message | Mapping[str, Any]
"""A message, or the same as an OpenAI Chat Completions dict."""

_S = TypeVar("_S")
_P = ParamSpec("_P")


def as_messages(given: Sequence[Given]) -> list[Message]:
    """Return a conversation as messages.

    Raises:
        BadMessage: a dict breaks the Chat Completions form, or something is neither.
    """
    return [one if isinstance(one, Message) else Message.from_openai(one) for one in given]


def put_back(kept: Kept, given: Sequence[Given], messages: Sequence[Message]) -> Kept:
    """Return a decision about ``messages`` with the very things they were made of, ``given``."""
    original = {id(message): one for message, one in zip(messages, given, strict=True)}
    return Kept(
        kept=tuple(original[id(message)] for message in kept.kept),
        dropped=tuple(Dropped(message=original[id(one.message)], reason=one.reason) for one in kept.dropped),
    )


def as_given(
    decide: Callable[Concatenate[_S, Sequence[Message], _P], Kept],
) -> Callable[Concatenate[_S, Sequence[Given], _P], Kept]:
    """Make a policy that takes messages take dicts too, and give back what it was given."""

    @wraps(decide)
    def call(policy: _S, messages: Sequence[Given], /, *args: _P.args, **kwargs: _P.kwargs) -> Kept:
        if all(isinstance(one, Message) for one in messages):
            return decide(policy, cast("Sequence[Message]", messages), *args, **kwargs)
        made = as_messages(messages)
        return put_back(decide(policy, made, *args, **kwargs), messages, made)

    return call
