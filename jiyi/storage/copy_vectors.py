"""Taking vectors over from memory to memory: nothing is embedded anew."""

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from jiyi.records import SEARCHABLE, Query, Scope, Searchable
from jiyi.storage.backend import Backend
from jiyi.storage.copy_parts import PIECE
from jiyi.storage.vectors import VectorRow

__all__ = ["bind", "copy_vectors"]


def bind(source: Backend, target: Backend) -> str | None:
    """Bind a fresh target to the source's embedder; return its name if both have the same one."""
    ours, theirs = source.vectors.claim(), target.vectors.claim()
    if ours.name is None:
        return None
    if theirs.name is None:
        theirs = target.vectors.claim(ours.name, ours.dims)
    return ours.name if (ours.name, ours.dims) == (theirs.name, theirs.dims) else None


def copy_vectors(
    source: Backend, target: Backend, scope: Scope, name: str, told: Callable[[int], None]
) -> int:
    """Give a user's records in the target the vectors they have in the source; return how many got some.

    Records that have vectors already keep them; those without any in the source stay pending.

    Args:
        source, target: bound to the same embedder.
        scope: the user.
        name: the embedder.
        told: called with the number of records of each piece that was looked at.
    """
    added = 0
    for kind in SEARCHABLE:
        query, after = Query(scope=scope, kinds=(kind,), limit=PIECE), None
        while True:
            page = target.upkeep.scan(query, after)
            records = cast("Sequence[Searchable]", page.records)
            added += target.vectors.add(_rows(source, query, records, page.numbers), name=name)
            told(len(records))
            after = page.next
            if after is None:
                break
    return added


def _rows(
    source: Backend, query: Query, records: Sequence[Searchable], numbers: Sequence[int]
) -> list[VectorRow]:
    """Return the source's vectors of records of the target, under the target's numbers."""
    if not records:
        return []
    kind, user_id = query.kinds[0], query.scope.user_id
    wanted = Query(scope=query.scope, kinds=(kind,), ids=tuple(r.id for r in records), limit=len(records))
    texts = {r.id: r.search_text for r in cast("Sequence[Searchable]", source.store.find(wanted))}
    same = [
        (record.id, number)
        for record, number in zip(records, numbers, strict=True)
        if texts.get(record.id) == record.search_text  # else they are vectors of other words
    ]
    parts = source.vectors.read(query.scope, [(kind, id_) for id_, _ in same], exact=True)
    if not len(parts.rows):
        return []
    order = np.argsort(parts.rows, kind="stable")
    owners, starts = np.unique(parts.rows[order], return_index=True)
    pieces = np.split(parts.vectors[order], starts[1:])
    return [
        VectorRow(key=(user_id, same[owner][1]), vectors=vectors)
        for owner, vectors in zip(owners.tolist(), pieces, strict=True)
    ]
