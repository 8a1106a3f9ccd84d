"""The store of a memory whose vectors are in Chroma."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from jiyi.records import Kind, Query
from jiyi.storage.chroma.vectors import ChromaVectors
from jiyi.storage.database import Database
from jiyi.storage.store import Store

__all__ = ["ChromaStore"]

_T = TypeVar("_T")


class ChromaStore(Store):
    """A store that takes the vectors of what it removes out of Chroma, and is closed together with it.

    Where Chroma is away the vectors are taken out later.
    """

    def __init__(self, database: Database, vectors: ChromaVectors) -> None:
        super().__init__(database)
        self._vectors = vectors

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """See `Store.transaction`; what it removes is taken out of Chroma after it."""
        with super().transaction():
            yield
        self._vectors.drain_if_possible()

    def together(self, verb: Callable[[], _T], *, repeatable: bool = False) -> _T:
        """See `Store.together`; what it removes is taken out of Chroma after it."""
        done = super().together(verb, repeatable=repeatable)
        self._vectors.drain_if_possible()
        return done

    def delete(self, query: Query) -> Mapping[Kind, int]:
        """See `Store.delete`."""
        counts = super().delete(query)
        self._vectors.drain_if_possible()
        return counts

    def close(self) -> None:
        """See `Store.close`."""
        super().close()
        self._vectors.close()
