"""Arranging a session's messages: what is system, what is asked now, what came before and after."""

from collections.abc import Sequence
from dataclasses import dataclass

from jiyi.records import Message, ReportItem

__all__ = ["Arranged", "arrange"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arranged:
    """A session's messages by their part in the window; together they are the input."""

    system: tuple[Message, ...]
    history: tuple[Message, ...]  # before the current message
    current: Message | None  # the newest user message, or the question asked
    tail: tuple[Message, ...]  # behind the current message
    repeated: tuple[ReportItem, ...]  # system messages that say what an earlier one says


def arrange(messages: Sequence[Message], question: str | None, scratch: Sequence[Message] = ()) -> Arranged:
    """Split ``messages`` (oldest first) around the newest user message.

    A ``question`` that the newest user message already asks is that message; another
    question becomes a new user message behind all others. Without a question the newest
    user message is the current one. ``scratch``, the steps of a run that the conversation
    does not keep, comes behind everything.
    """
    system: list[Message] = []
    repeated: list[ReportItem] = []
    for message in messages:
        if message.role != "system":
            continue
        if any(message.content == earlier.content for earlier in system):
            repeated.append(_repeated(message))
        else:
            system.append(message)
    talk = [message for message in messages if message.role != "system"]
    place = max((i for i, message in enumerate(talk) if message.role == "user"), default=None)
    if question and (place is None or talk[place].text.strip() != question.strip()):
        talk, place = [*talk, Message(role="user", content=question)], len(talk)
    before = talk if place is None else talk[:place]
    return Arranged(
        system=tuple(system),
        history=tuple(before),
        current=None if place is None else talk[place],
        tail=tuple(scratch) if place is None else (*talk[place + 1 :], *scratch),
        repeated=tuple(repeated),
    )


def _repeated(message: Message) -> ReportItem:
    return ReportItem(
        section="system",
        kind="message",
        id=message.id,
        tokens=message.tokens or 0,
        reason="says the same as an earlier system message",
        title=message.text[:60],
        created_at=message.created_at,
    )
