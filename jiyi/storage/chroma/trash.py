"""The trash of a memory whose vectors are in Chroma."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from jiyi.records import Kind, Scope
from jiyi.storage.candidates import Key
from jiyi.storage.chroma.vectors import ChromaVectors
from jiyi.storage.database import Database
from jiyi.storage.trash import Trash

__all__ = ["ChromaTrash"]


class ChromaTrash(Trash):
    """A trash that takes the vectors of what goes there out of Chroma, and scrubs Chroma's files too."""

    def __init__(self, database: Database, vectors: ChromaVectors) -> None:
        super().__init__(database)
        self._vectors = vectors

    def discard(self, scope: Scope, keys: Sequence[Key], *, reason: str, at: datetime) -> Mapping[Kind, int]:
        """See `Trash.discard`; where Chroma is away their vectors are taken out later."""
        counts = super().discard(scope, keys, reason=reason, at=at)
        self._vectors.drain_if_possible()
        return counts

    def check_alone(self) -> None:
        """See `Trash.check_alone`."""
        super().check_alone()
        self._vectors.check_alone()

    def scrub(self) -> bool:
        """See `Trash.scrub`: in Chroma's files first, for the database knows what is to go there."""
        gone = self._vectors.scrub()
        return super().scrub() and gone
