"""What servers share through a database: their keys, and what they answered."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from jiyi.clock import to_micros
from jiyi.storage.database import Database, retried

__all__ = ["Answered", "Ledger"]

_KEY = "api_key:"  # what the names of keys begin with among the figures of the whole database
_KEPT = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer that was given once and is given again to the same request."""

    asked: str  # tells whether it is the same request
    status: int  # of HTTP
    body: str


class Ledger:
    """Keeps texts about keys, and answers by idempotency key for a day.

    Answers take part in the transaction of the store on the same database. All verbs raise
    `StorageError` where the database cannot do what is asked.
    """

    def __init__(self, database: Database) -> None:
        self._db = database

    @retried()
    def keys(self) -> Mapping[str, str]:
        """Return what is kept about all keys, by their names."""
        with self._db.read() as db:
            found = dict(db.rows("all_meta", {}))
        return {name.removeprefix(_KEY): text for name, text in found.items() if name.startswith(_KEY)}

    @retried()
    def key(self, name: str) -> str | None:
        """Return what is kept about a key, None where there is none of this name."""
        with self._db.read() as db:
            row = db.first("get_meta", {"name": _KEY + name})
        return None if row is None else str(row[0])

    @retried()
    def put_key(self, name: str, text: str) -> None:
        """Keep a text about a key, in place of the one before."""
        with self._db.write() as db:
            db.run("set_meta", {"name": _KEY + name, "value": text})

    @retried()
    def answered(self, user_id: str, key: str, now: datetime) -> Answered | None:
        """Return what was answered to a user's request of this idempotency key within a day.

        Inside a transaction nobody else answers this user until it ends.
        """
        with self._db.write(user_id) as db:
            values = {"user_id": user_id, "key": key, "since": to_micros(now - _KEPT)}
            row = db.first("find_answer", values)
        return None if row is None else Answered(asked=row[0], status=row[1], body=row[2])

    @retried()
    def keep_answer(self, user_id: str, key: str, answer: Answered, now: datetime) -> None:
        """Keep what is answered; the user's answers from before the last day go."""
        with self._db.write(user_id) as db:
            db.run("drop_answers", {"user_id": user_id, "before": to_micros(now - _KEPT)})
            values = {"user_id": user_id, "key": key, "made_at": to_micros(now)}
            told = {"asked": answer.asked, "status": answer.status, "body": answer.body}
            db.run("put_answer", {**values, **told})

    @retried()
    def users(self, prefix: str) -> list[str]:
        """Return the ids of all users that begin so, without that beginning."""
        return [name.removeprefix(prefix) for name in self._db.users() if name.startswith(prefix)]
