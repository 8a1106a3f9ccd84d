"""The candidates for a window: a session's messages by their part in it, and large tool results shortened."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from jiyi.records import Block, Message, ReportItem, ReportStep
from jiyi.records.atoms import atoms, turns
from jiyi.short_term import Dropped
from jiyi.text import TokenCounter

__all__ = ["Materials", "Shorten", "arrange", "shorten_tool_results"]

Shorten = Callable[[Message, int], Message | None]
"""``shorten(message, max_tokens)``: the tool result in fewer tokens, or None to leave it as it is."""

_LARGE_FRACTION = 4  # a result is large if it takes more than 1/4 of the history's allotment
_MIN_LARGE_TOKENS = 64  # tokens below which nothing is large


@dataclass(frozen=True, slots=True, kw_only=True)
class Materials:
    """All candidates for the window."""

    system: Sequence[Message] = ()  # always in, first
    skills: Sequence[Block] = ()  # trusted, shown as they are; cards are ``required``, opened bodies not
    profile: Sequence[Block] = ()  # facts about the user, in every window; shown quoted, oldest first
    summary: Block | None = None  # of the conversation so far; shown quoted
    history: Sequence[Message] = ()  # what the session keeps, up to the current message
    current: Message | None = None  # the newest user message, always in
    tail: Sequence[Message] = ()  # what followed it, such as tool calls in progress
    tools: Sequence[Mapping[str, Any]] = ()  # tool definitions sent with the messages
    repeated: Sequence[Message] = ()  # system messages that say the same as an earlier one, already removed
    broken: Sequence[Dropped] = ()  # tool calls without results, already removed
    blocks: Sequence[Block] = ()  # task, knowledge, episodes, recalled
    below_threshold: Sequence[ReportItem] = ()  # found, but not relevant enough
    asked_at: datetime | None = None  # shown above the blocks
    nothing_relevant: float | None = None  # probability that the memory holds no answer
    shorten: Shorten | None = None  # makes a large tool result smaller when the history is too long
    notes: Sequence[str] = ()  # problems, for the report
    steps: Sequence[ReportStep] = ()  # steps already taken to make it fit, such as summarising
    saved: Mapping[str, int] = field(default_factory=dict)  # tokens already saved, by what saved them


def arrange(messages: Sequence[Message], question: str | None, scratch: Sequence[Message] = ()) -> Materials:
    """Split ``messages`` (oldest first) around the newest user message; system messages come once each.

    A ``question`` that repeats the newest user message is that message; any other becomes a new
    user message at the end. Without a question the newest user message is the current one.
    ``scratch``, the steps of a run that the conversation does not keep, comes last.
    """
    system, repeated, talk = list[Message](), list[Message](), list[Message]()
    for message in messages:
        if message.role != "system":
            talk.append(message)
        elif message.content in [earlier.content for earlier in system]:
            repeated.append(message)
        else:
            system.append(message)
    place = max((i for i, message in enumerate(talk) if message.role == "user"), default=None)
    if question and (place is None or talk[place].text.strip() != question.strip()):
        talk, place = [*talk, Message(role="user", content=question)], len(talk)
    before = talk if place is None else talk[:place]
    return Materials(
        system=tuple(system),
        history=tuple(before),
        current=None if place is None else talk[place],
        tail=tuple(scratch) if place is None else (*talk[place + 1 :], *scratch),
        repeated=tuple(repeated),
    )


def shorten_tool_results(
    history: Sequence[Message],
    allotment: int,
    shorten: Shorten,
    *,
    counter: TokenCounter,
    newest_is_apart: bool = True,
    parts: int = 1,
) -> tuple[list[Message], dict[str, tuple[int, int]]]:
    """Shorten tool results over a quarter of ``allotment``, or over one of more ``parts``, to that size.

    Returns the history, and the tokens of each shortened result before and after, by message id.
    Pinned results, those of a pinned call, and the newest turn stay unchanged; ``newest_is_apart``
    means that ``history`` does not contain the newest turn. Only the content of a result changes.
    """
    limit = max(allotment // max(parts, _LARGE_FRACTION), _MIN_LARGE_TOKENS)
    protected = {i for a in atoms(history) if any(history[i].pinned for i in a.indices) for i in a.indices}
    if not newest_is_apart:
        protected |= set(turns(history)[-1] if history else ())
    result = list(history)
    changed: dict[str, tuple[int, int]] = {}
    for place, message in enumerate(history):
        before = counter.count(message)
        if message.role != "tool" or place in protected or before <= limit:
            continue
        if (shortened := shorten(message, limit)) is None:
            continue
        smaller = counter.counted(replace(message, content=shortened.content, tokens=None, tokens_by=None))
        after = counter.count(smaller)
        if after < before:
            result[place] = smaller
            changed[message.id] = (before, after)
    return result, changed
