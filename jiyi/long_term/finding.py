"""Reads records by their ids."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from jiyi.errors import NotFound
from jiyi.records import FORGETTABLE, Kind, Query, Scope, Searchable, Task
from jiyi.storage import Store

__all__ = ["batched", "find_by_ids", "find_record"]

_BATCH = 1_000  # records read at once

_T = TypeVar("_T")


def batched(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Yield a sequence in batches of at most 1,000."""
    for start in range(0, len(items), _BATCH):
        yield items[start : start + _BATCH]


def find_by_ids(store: Store, scope: Scope, kind: Kind, ids: Iterable[str], **narrowed: Any) -> Iterator[Any]:
    """Yield the records of one kind and these ids in a scope; ``narrowed`` are other parts of the query."""
    query = Query(scope=scope, kinds=(kind,), limit=_BATCH, **narrowed)
    for batch in batched(tuple(dict.fromkeys(ids))):
        yield from store.find(replace(query, ids=tuple(batch)))


def find_record(store: Store, scope: Scope, record_id: str) -> Searchable | Task:
    """Return the message, episode, knowledge, fact, item or task with this id, or raise `NotFound`."""
    found = store.find(Query(scope=scope, kinds=FORGETTABLE, ids=(record_id,), limit=1))
    if not found:
        raise NotFound(f"user {scope.user_id!r} has nothing with the id {record_id!r}")
    return cast("Searchable | Task", found[0])
