"""Passages: a hit with what was said just before and after it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from jiyi.records import Hit, Message, Query, Scope
from jiyi.storage import Store

__all__ = ["with_surroundings"]

_AT_ONCE = 16  # stretches in one question
_MOST = 10_000  # messages in one answer

_Stretch = tuple[str, int, int]  # session, first and last place
_Said = dict[str, dict[int, Message]]  # by session and place


def with_surroundings(store: Store, scope: Scope, hits: Sequence[Hit], steps: int) -> list[Hit]:
    """Return the hits, each message with up to ``steps`` messages of its session on either side.

    ``Hit.around`` holds them in the order they were said, without the hit's own. Where the
    surroundings of hits overlap, the better hit has the shared messages, and a message that
    is a hit itself is nobody's neighbour. Neighbours lie within ``scope``.
    """
    shown = {hit.id for hit in hits if isinstance(hit.record, Message)}
    stretches = [_stretch(hit, steps) for hit in hits]
    said = _read(store, scope, [stretch for stretch in stretches if stretch], 2 * steps + 1)
    found = []
    for hit, stretch in zip(hits, stretches, strict=True):
        if stretch is None:
            found.append(hit)
            continue
        session, first, last = stretch
        there = said.get(session, {})
        places = range(first, last + 1) if last - first < len(there) else sorted(there)
        around = [there[place] for place in places if first <= place <= last and place in there]
        around = [message for message in around if message.id not in shown]
        shown.update([message.id for message in around])
        found.append(replace(hit, around=tuple(around)))
    return found


def _stretch(hit: Hit, steps: int) -> _Stretch | None:
    """Return the session of a message, and the first and last place that count as its surroundings."""
    message = hit.record
    if not isinstance(message, Message) or message.scope is None or message.seq is None:
        return None
    return cast("str", message.scope.session_id), message.seq - steps, message.seq + steps


def _read(store: Store, scope: Scope, stretches: Sequence[_Stretch], long: int) -> _Said:
    """Return the messages of all stretches, each so ``long``; few questions for many stretches."""
    said: _Said = {}
    different, count = tuple(dict.fromkeys(stretches)), max(1, min(_AT_ONCE, _MOST // long))
    for at in range(0, len(different), count):
        piece = different[at : at + count]
        query = Query(scope=scope, kinds=("message",), stretches=piece, limit=len(piece) * long)
        for message in cast("list[Message]", store.find(query)):
            session = cast("str", cast("Scope", message.scope).session_id)
            said.setdefault(session, {})[cast("int", message.seq)] = message
    return said
