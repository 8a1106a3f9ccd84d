"""What processes share through a database: how far models have read, keys, and what was answered."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from jiyi.clock import to_micros
from jiyi.records import Scope
from jiyi.records.checks import new_id
from jiyi.storage.database import Connection, Database, retried

__all__ = ["Answered", "Claim", "Due", "Ledger"]

_LOOKED_AT = 10  # sessions of which one is claimed; others may be claimed by other processes meanwhile
_PREFIX = "reader_"  # of the names of figures
_KEY = "api_key:"  # what the names of keys begin with among the figures of the whole database
_KEPT = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """Which sessions are due: with so many unread messages, or without a recent one."""

    now: datetime
    messages: int  # a session with so many is due
    pause: timedelta  # a session is at rest after that


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A session that one reader has for now."""

    scope: Scope  # user and session
    next_seq: int  # place of the first message that was not read
    upto: int  # place after the last message there was
    failures: int  # tries in a row that failed
    holder: str  # who claimed it, unique


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer that was given once and is given again to the same request."""

    asked: str  # tells whether it is the same request
    status: int  # of HTTP
    body: str


class Ledger:
    """Cursors with leases, one for each session; figures and texts about keys; answers, kept for a day.

    Every verb is a transaction of its own or joins the one it is called in, and raises
    `StorageError` where the database cannot do what is asked.
    """

    def __init__(self, database: Database) -> None:
        self._db = database

    @retried()
    def claim(self, due: Due, *, until: datetime, user_id: str | None = None) -> Claim | None:
        """Take a session that is due until then, those that failed last; None where none is.

        Args:
            due: which are.
            until: when it is free again, unless `end` says otherwise.
            user_id: only this user's.
        """
        with self._db.read(user_id) as db:
            found = _due(db, due, _LOOKED_AT, user_id)
        for user, session, _ in found:
            with self._db.write(user) as db:
                still = _due(db, due, 1, user, session)
                if not still:  # others have read it since it was seen to be due
                    continue
                values = {"user_id": user, "session_id": session, "holder": new_id()}
                row = db.first("claim_reading", values | {"until": to_micros(until)})
            assert row is not None
            scope, holder = Scope(user_id=user, session_id=session), values["holder"]
            return Claim(scope=scope, next_seq=row[0], upto=still[0][2], failures=row[1], holder=holder)
        return None

    @retried()
    def end(self, claim: Claim, next_seq: int, *, until: datetime | None = None, failures: int = 0) -> bool:
        """Give a session back, read up to that place; return False where somebody else has it by now.

        Args:
            claim: what `claim` gave.
            next_seq: place of the first message that was not read.
            until: when others may take it; None: at once.
            failures: tries in a row that failed.
        """
        values = {
            "user_id": claim.scope.user_id,
            "session_id": claim.scope.session_id,
            "holder": claim.holder,
            "next_seq": next_seq,
            "until": to_micros(until) if until else 0,
            "failures": failures,
        }
        with self._db.write(claim.scope.user_id) as db:
            return db.first("end_reading", values) is not None

    @retried()
    def unread(self, user_id: str | None = None) -> int:
        """Return how many places of sessions are not read yet, of one user or of all."""
        with self._db.read(user_id) as db:
            where = "1 = 1" if user_id is None else db.dialect.words["session_user"]
            return db.number("count_unread", {"user_id": user_id}, where=where)

    @retried()
    def figures(self) -> Mapping[str, str]:
        """Return the figures of the whole database by name."""
        return self._named(_PREFIX)

    @retried()
    def add(self, name: str, by: int) -> int:
        """Add to a figure and return it; of "calls:17" the older ones, "calls:16", go.

        Names are compared as text to tell which are older: their numbers have as many digits each.
        """
        kind, parted, _ = name.partition(":")
        with self._db.write() as db:
            row = db.first("add_to_meta", {"name": _PREFIX + name, "by": by})
            assert row is not None
            if parted and row[0] == by:
                db.run("drop_older_meta", {"prefix": f"{_PREFIX}{kind}:", "name": _PREFIX + name})
        return int(row[0])

    @retried()
    def note(self, /, **figures: str | int) -> None:
        """Write figures."""
        with self._db.write() as db:
            for name, value in figures.items():
                db.run("set_meta", {"name": _PREFIX + name, "value": str(value)})

    @retried()
    def keys(self) -> Mapping[str, str]:
        """Return what is kept about all keys, by their names."""
        return self._named(_KEY)

    @retried()
    def key(self, name: str) -> str | None:
        """Return what is kept about a key, None where there is none of this name."""
        rows = self._db.ask("get_meta", {"name": _KEY + name})
        return str(rows[0][0]) if rows else None

    @retried()
    def put_key(self, name: str, text: str) -> None:
        """Keep a text about a key, in place of the one before."""
        self._db.tell("set_meta", {"name": _KEY + name, "value": text})

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

    def _named(self, prefix: str) -> dict[str, str]:
        found = self._db.ask("all_meta")
        return {name.removeprefix(prefix): value for name, value in found if name.startswith(prefix)}


def _due(
    db: Connection, due: Due, limit: int, user_id: str | None, session_id: str | None = None
) -> list[tuple[str, str, int]]:
    """Return user, session and the place after the last message of sessions that are due."""
    of_user = "" if user_id is None else f"AND {db.dialect.words['session_user']}"
    of_session = "" if session_id is None else "AND s.session_id = :session_id"
    values = {
        "now": to_micros(due.now),
        "messages": due.messages,
        "rested": to_micros(due.now) - round(due.pause.total_seconds() * 1e6),
        "user_id": user_id,
        "session_id": session_id,
        "limit": limit,
    }
    rows = db.rows("due_readings", values, and_where=f"{of_user} {of_session}")
    return cast("list[tuple[str, str, int]]", rows)
