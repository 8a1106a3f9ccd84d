"""Splits a session's messages into the parts of the window, and shortens large tool results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from jiyi.records import Message, ReportItem
from jiyi.records.atoms import atoms, turns
from jiyi.text import TokenCounter

__all__ = ["ConversationParts", "Shorten", "arrange", "shorten_tool_results"]

Shorten = Callable[[Message, int], Message | None]
"""``shorten(message, max_tokens)``: the tool result in fewer tokens, or None to leave it as it is."""

_LARGE_FRACTION = 4  # a result is large if it takes more than 1/4 of the history's allotment
_MIN_LARGE_TOKENS = 64  # tokens below which nothing is large


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationParts:
    """A session's messages by their part in the window."""

    system: tuple[Message, ...]
    history: tuple[Message, ...]  # before the current message
    current: Message | None  # the newest user message, or the question asked
    tail: tuple[Message, ...]  # after the current message
    repeated: tuple[ReportItem, ...]  # system messages that say what an earlier one says


def arrange(
    messages: Sequence[Message], question: str | None, scratch: Sequence[Message] = ()
) -> ConversationParts:
    """Split ``messages`` (oldest first) around the newest user message.

    A ``question`` that repeats the newest user message is that message; any other becomes a new
    user message at the end. Without a question the newest user message is the current one.
    ``scratch``, the steps of a run that the conversation does not keep, comes last.
    """
    system: list[Message] = []
    repeated: list[ReportItem] = []
    for message in messages:
        if message.role != "system":
            continue
        if any(message.content == earlier.content for earlier in system):
            repeated.append(_repeated_system_item(message))
        else:
            system.append(message)
    talk = [message for message in messages if message.role != "system"]
    place = max((i for i, message in enumerate(talk) if message.role == "user"), default=None)
    if question and (place is None or talk[place].text.strip() != question.strip()):
        talk, place = [*talk, Message(role="user", content=question)], len(talk)
    before = talk if place is None else talk[:place]
    return ConversationParts(
        system=tuple(system),
        history=tuple(before),
        current=None if place is None else talk[place],
        tail=tuple(scratch) if place is None else (*talk[place + 1 :], *scratch),
        repeated=tuple(repeated),
    )


def _repeated_system_item(message: Message) -> ReportItem:
    return ReportItem(
        section="system",
        kind="message",
        id=message.id,
        tokens=message.tokens or 0,
        reason="says the same as an earlier system message",
        title=message.text[:60],
        created_at=message.created_at,
    )


def shorten_tool_results(
    history: Sequence[Message],
    allotment: int,
    shorten: Shorten,
    *,
    counter: TokenCounter,
    newest_is_apart: bool = True,
) -> tuple[list[Message], dict[str, tuple[int, int]]]:
    """Shorten the tool results that take more than a quarter of ``allotment``, to that quarter.

    Returns the history, and the tokens of each shortened result before and after, by message id.
    Pinned results, those of a pinned call, and the newest turn stay unchanged; ``newest_is_apart``
    means that ``history`` does not contain the newest turn. Only the content of a result changes.
    """
    limit = max(allotment // _LARGE_FRACTION, _MIN_LARGE_TOKENS)
    protected = {i for a in atoms(history) if any(history[i].pinned for i in a.indices) for i in a.indices}
    if not newest_is_apart:
        protected |= set(turns(history)[-1] if history else ())
    result = list(history)
    changed: dict[str, tuple[int, int]] = {}
    for place, message in enumerate(history):
        before = counter.count(message)
        if message.role != "tool" or place in protected or before <= limit:
            continue
        shortened = shorten(message, limit)
        if shortened is None:
            continue
        smaller = counter.counted(replace(message, content=shortened.content, tokens=None, tokens_by=None))
        after = counter.count(smaller)
        if after < before:
            result[place] = smaller
            changed[message.id] = (before, after)
    return result, changed
