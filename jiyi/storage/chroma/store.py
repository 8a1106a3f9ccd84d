"""The store of a memory whose vectors are in Chroma."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

from jiyi.records import Kind, Query, Record
from jiyi.storage.candidates import Candidates, Key
from jiyi.storage.chroma.vectors import ChromaVectors
from jiyi.storage.store import Store

__all__ = ["ChromaStore"]

_T = TypeVar("_T")


class ChromaStore:
    """`jiyi.storage.store.Store` around that of the database: it is closed together with Chroma."""

    def __init__(self, store: Store, vectors: ChromaVectors) -> None:
        self._store = store
        self._vectors = vectors

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """See `Store.transaction`; what it removes is taken out of Chroma after it."""
        with self._store.transaction():
            yield
        self._vectors.drain_if_possible()

    def together(self, verb: Callable[[], _T], *, repeatable: bool = False) -> _T:
        """See `Store.together`; what it removes is taken out of Chroma after it."""
        done = self._store.together(verb, repeatable=repeatable)
        self._vectors.drain_if_possible()
        return done

    def snapshot(self, user_id: str) -> AbstractContextManager[None]:
        """See `Store.snapshot`."""
        return self._store.snapshot(user_id)

    def put(self, records: Sequence[Record]) -> list[Record]:
        """See `Store.put`; Chroma is not asked."""
        return self._store.put(records)

    def find(self, query: Query) -> list[Record]:
        """See `Store.find`."""
        return self._store.find(query)

    def match(self, query: Query, near: Sequence[Key] = ()) -> Candidates:
        """See `Store.match`."""
        return self._store.match(query, near)

    def delete(self, query: Query) -> Mapping[Kind, int]:
        """See `Store.delete`; where Chroma is away the vectors are taken out later."""
        counts = self._store.delete(query)
        self._vectors.drain_if_possible()
        return counts

    def count(self, query: Query) -> Mapping[str, int]:
        """See `Store.count`."""
        return self._store.count(query)

    def close(self) -> None:
        """See `Store.close`."""
        self._store.close()
        self._vectors.close()
