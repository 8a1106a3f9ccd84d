"""The trash of a memory whose vectors are in Chroma."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from jiyi.records import Kind, Query, Record, Scope
from jiyi.storage.candidates import Key
from jiyi.storage.chroma.vectors import ChromaVectors
from jiyi.storage.trash import Discarded, Trash, TrashPage

__all__ = ["ChromaTrash"]


class ChromaTrash:
    """`jiyi.storage.trash.Trash` around that of the database: what goes there goes in Chroma too."""

    def __init__(self, trash: Trash, vectors: ChromaVectors) -> None:
        self._trash = trash
        self._vectors = vectors

    def discard(self, scope: Scope, keys: Sequence[Key], *, reason: str, at: datetime) -> Mapping[Kind, int]:
        """See `Trash.discard`; where Chroma is away their vectors are taken out later."""
        counts = self._trash.discard(scope, keys, reason=reason, at=at)
        self._vectors.drain_if_possible()
        return counts

    def discarded(self, query: Query) -> list[Discarded]:
        """See `Trash.discarded`."""
        return self._trash.discarded(query)

    def walk(self, query: Query, after: int = 0) -> TrashPage:
        """See `Trash.walk`."""
        return self._trash.walk(query, after)

    def restore(self, scope: Scope, keys: Sequence[Key]) -> list[Record]:
        """See `Trash.restore`."""
        return self._trash.restore(scope, keys)

    def erase(
        self,
        scope: Scope | None,
        *,
        keys: Sequence[Key] | None = None,
        before: datetime | None = None,
        limit: int = 10_000,
    ) -> int:
        """See `Trash.erase`."""
        return self._trash.erase(scope, keys=keys, before=before, limit=limit)

    def check_alone(self) -> None:
        """See `Trash.check_alone`."""
        self._trash.check_alone()
        self._vectors.check_alone()

    def scrub(self) -> None:
        """See `Trash.scrub`: in Chroma's files first, for the database knows what is to go there."""
        self._vectors.scrub()
        self._trash.scrub()
