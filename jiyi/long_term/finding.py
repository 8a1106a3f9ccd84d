"""Reads records, what was said around them, and their vectors."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from jiyi.errors import NotFound
from jiyi.records import FORGETTABLE, Hit, Kind, Message, Query, Scope, Searchable, Task
from jiyi.storage import Key, Snapshot, Store, VectorIndex, batched
from jiyi.storage.search.user_terms import UserTerms

_BATCH = 1_000  # records read at once


def find_by_ids(store: Store, scope: Scope, kind: Kind, ids: Iterable[str], **narrowed: Any) -> Iterator[Any]:
    """Yield the records of one kind and these ids in a scope; ``narrowed`` are other parts of the query."""
    query = Query(scope=scope, kinds=(kind,), limit=_BATCH, **narrowed)
    for batch in batched(tuple(dict.fromkeys(ids)), _BATCH):
        yield from store.find(replace(query, ids=tuple(batch)))


def find_record(store: Store, scope: Scope, record_id: str) -> Searchable | Task:
    """Return the message, episode, knowledge, fact, item or task with this id, or raise `NotFound`."""
    found = store.find(Query(scope=scope, kinds=FORGETTABLE, ids=(record_id,), limit=1))
    if not found:
        raise NotFound(f"user {scope.user_id!r} has nothing with the id {record_id!r}")
    return cast("Searchable | Task", found[0])


def newest_messages(store: Store, scope: Scope, limit: int, **narrowed: Any) -> list[Message]:
    """Return the newest messages of a scope, oldest first; ``narrowed`` are other parts of the query."""
    query = Query(scope=scope, kinds=("message",), newest_first=True, limit=limit, **narrowed)
    return cast("list[Message]", store.find(query))[::-1]


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


def first_vectors(
    vectors: VectorIndex, user_id: str, keys: Sequence[Key | None], snapshot: Snapshot | None = None
) -> NDArray[np.float32]:
    """Return the vectors of the first parts of records (keys, dims); zeros for None and where none is yet."""
    asked = list(dict.fromkeys(key for key in keys if key))
    parts = vectors.read(Scope(user_id=user_id), asked, snapshot=snapshot)
    rows, first = np.unique(parts.rows, return_index=True)
    places = {asked[row]: place for row, place in zip(rows, first, strict=True)}
    out = np.zeros((len(keys), parts.vectors.shape[1]), np.float32)
    for row, key in enumerate(keys):
        if key in places:
            out[row] = parts.vectors[places[key]]
    return out


def center(vectors: NDArray[Any], middle: NDArray[Any]) -> NDArray[Any]:
    """Return vectors less ``middle`` with length 1 again; zeros stay."""
    if not vectors.any():
        return np.zeros((len(vectors), len(middle)))
    out = (vectors - middle) * vectors.any(axis=1, keepdims=True)
    return np.asarray(out / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-9))
