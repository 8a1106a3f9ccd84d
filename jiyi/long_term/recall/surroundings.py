"""Passages: a hit with what was said just before and after it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from jiyi.records import Hit, Message, Scope
from jiyi.storage import Key, Snapshot, Store
from jiyi.storage.user_terms import UserTerms

__all__ = ["with_surroundings"]


def with_surroundings(
    store: Store, scope: Scope, hits: Sequence[Hit], steps: int, seen: Snapshot | None = None
) -> list[Hit]:
    """Return the hits, each message with up to ``steps`` messages of its session on either side.

    ``Hit.around`` holds them in the order they were said, without the hit's own. Where the
    surroundings of hits overlap, the better hit has the shared messages, and a message that
    is a hit itself is nobody's neighbour. Neighbours lie within ``scope``, as ``seen`` has it.
    """
    seen = seen or store.snapshot(scope.user_id)
    rows = seen.terms.rows_of([(hit.kind, hit.id) for hit in hits]).tolist()
    near = [_around(seen.terms, row, steps) if row >= 0 else [] for row in rows]
    said = store.find_by_keys(scope.user_id, list({key: None for keys in near for key in keys}), seen)
    shown = {("message", hit.id) for hit in hits if hit.kind == "message"}
    found = []
    for hit, keys in zip(hits, near, strict=True):
        fresh = [key for key in keys if key in said and key not in shown]
        around = [message for key in fresh if _lies_in(scope, message := cast("Message", said[key]))]
        shown.update(fresh)
        found.append(replace(hit, around=tuple(around)) if hit.kind == "message" else hit)
    return found


def _around(terms: UserTerms, row: int, steps: int) -> list[Key]:
    """Return the messages up to so many places before and after one in its session, in their order."""
    places, sides = terms.columns["seq"], list[list[Key]]()
    for link in ("previous", "following"):
        at, side, links = row, list[Key](), terms.columns[link]
        while 0 <= (at := int(links[at])) < terms.size and abs(places[at] - places[row]) <= steps:
            side.append(("message", terms.ids[at]))
        sides.append(side)
    return [*reversed(sides[0]), *sides[1]]


def _lies_in(scope: Scope, message: Message) -> bool:
    own = cast("Scope", message.scope)
    return scope.covers(own.user_id, own.agent_id, own.session_id)
