"""The vectors of a SQLite file, with an index of FAISS for users who have many."""

from jiyi.storage.database import Connection
from jiyi.storage.faiss.codes import UserCodes
from jiyi.storage.sqlite.user_vectors import UserVectors
from jiyi.storage.sqlite.vectors import Among, SqliteVectors

__all__ = ["FaissVectors"]


class FaissVectors(SqliteVectors):
    """`SqliteVectors` that asks `UserCodes` which vectors to compare. The file is the same one.

    The index is in memory only, beside the vectors it is made of and within the same limit.
    """

    def _among(self, db: Connection, user_id: str, mine: UserVectors) -> Among | None:
        if db.in_transaction:  # what is not committed may be undone: nothing of it is kept
            return None
        codes = self._db.cache.use(user_id, UserCodes, mine.generation, lambda held: held.follow(mine))
        return codes.nearest
