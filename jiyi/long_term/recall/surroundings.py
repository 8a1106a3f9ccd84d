"""Adds to hits the messages said just before and after them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from jiyi.records import Hit, Message, Scope
from jiyi.storage import Key, Snapshot, Store
from jiyi.storage.search.user_terms import UserTerms

__all__ = ["add_surroundings"]


def add_surroundings(
    store: Store, scope: Scope, hits: Sequence[Hit], steps: int, snapshot: Snapshot
) -> list[Hit]:
    """Return the hits, each message with up to ``steps`` messages of its session on either side.

    ``Hit.around`` has them in the order they were said, without the hit itself. Where the
    surroundings of hits overlap, the better hit gets the shared messages; a message that is a
    hit itself is in no ``around``. All are within ``scope`` and ``snapshot``.
    """
    rows = snapshot.terms.rows_of([(hit.kind, hit.id) for hit in hits]).tolist()
    near = [_surrounding_keys(snapshot.terms, row, steps) if row >= 0 else [] for row in rows]
    found = store.find_by_keys(scope.user_id, list({key: None for keys in near for key in keys}), snapshot)
    messages = cast("dict[Key, Message]", found)
    if scope.agent_id is not None:
        messages = {k: m for k, m in messages.items() if m.scope and m.scope.agent_id == scope.agent_id}
    shown, extended = {("message", hit.id) for hit in hits if hit.kind == "message"}, list[Hit]()
    for hit, keys in zip(hits, near, strict=True):
        fresh = [key for key in keys if key in messages and key not in shown]
        shown.update(fresh)
        extended.append(replace(hit, around=tuple(messages[key] for key in fresh)))
    return extended


def _surrounding_keys(terms: UserTerms, row: int, steps: int) -> list[Key]:
    """Return the keys of the messages up to ``steps`` before and after a row in its session, in order."""
    seqs, sides = terms.columns["seq"], list[list[Key]]()
    for direction in ("previous", "following"):
        at, side, links = row, list[Key](), terms.columns[direction]
        while 0 <= (at := int(links[at])) < terms.size and abs(seqs[at] - seqs[row]) <= steps:
            side.append(("message", terms.ids[at]))
        sides.append(side)
    return [*reversed(sides[0]), *sides[1]]
