"""Shortening: large tool results of earlier turns, when the history is too long."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from jiyi.records import Message
from jiyi.records.atoms import atoms
from jiyi.short_term import turns
from jiyi.text import TokenCounter

__all__ = ["Shorten", "Shortened", "shorten_outputs"]

Shorten = Callable[[Message, int], Message | None]
"""``shorten(message, max_tokens)``: the tool result in fewer tokens, or None to leave it as it is."""

_LARGE = 4  # a result is large that takes more than this part of the history's allotment
_LEAST = 64  # tokens below which nothing is large


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortened:
    """A history in which some tool results are shorter."""

    messages: tuple[Message, ...]  # all of them, in their order
    changed: Mapping[str, tuple[int, int]]  # id of a result -> its tokens before and now


def shorten_outputs(
    history: Sequence[Message],
    allotment: int,
    shorten: Shorten,
    *,
    counter: TokenCounter,
    newest_is_apart: bool = True,
) -> Shortened:
    """Shorten the tool results that take more than a quarter of ``allotment``, to that quarter.

    Guarantees: pinned results, those that belong to a pinned call, and the newest turn stay as
    they are; only a result's content changes, its ids stay; a result that would not get
    smaller stays.

    Args:
        history: messages, oldest first.
        allotment: tokens of the history.
        shorten: makes one result smaller.
        counter: counts tokens.
        newest_is_apart: the newest turn is not in ``history``; where it is, its results stay whole.
    """
    limit = max(allotment // _LARGE, _LEAST)
    held = {i for a in atoms(history) if any(history[i].pinned for i in a.indices) for i in a.indices}
    if not newest_is_apart:
        held |= set(turns(history)[-1] if history else ())
    out = list(history)
    changed: dict[str, tuple[int, int]] = {}
    for place, message in enumerate(history):
        before = counter.count(message)
        if message.role != "tool" or place in held or before <= limit:
            continue
        made = shorten(message, limit)
        if made is None:
            continue
        smaller = counter.counted(replace(message, content=made.content, tokens=None, tokens_by=None))
        now = counter.count(smaller)
        if now < before:
            out[place] = smaller
            changed[message.id] = (before, now)
    return Shortened(messages=tuple(out), changed=changed)
