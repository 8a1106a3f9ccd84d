"""State that processes share through a database: reading cursors, figures, API keys, stored answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from jiyi.clock import to_micros
from jiyi.records import Scope
from jiyi.records.checks import new_id
from jiyi.storage.database import Connection, Database, retried
from jiyi.storage.rows import Row

__all__ = ["Claim", "Due", "Ledger", "StoredAnswer"]

_CANDIDATES = 10  # sessions to try to claim one of; other processes may claim some meanwhile
_FIGURE_PREFIX = "reader_"  # of names in the table meta
_KEY_PREFIX = "api_key:"  # of names in the table meta
_ANSWER_LIFETIME = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """Which sessions are due to be read: those with many unread messages, or without a recent message."""

    now: datetime
    messages: int  # unread messages from which on a session is due
    pause: timedelta  # time since its newest message after which a session is due


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A session leased to one reader."""

    scope: Scope  # user and session
    next_seq: int  # place of the first unread message
    upto: int  # place after the last message
    failures: int  # consecutive failed tries
    holder: str  # unique name of the reader


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """An HTTP answer that is stored to be sent again when the same request is repeated."""

    asked: str  # fingerprint of the request
    status: int  # of HTTP
    body: str


class Ledger:
    """Cursors with leases, one per session; figures; texts about API keys; answers, kept for a day.

    Every method runs in a transaction of its own or joins the one it is called in, and raises
    `StorageError` if the database fails.
    """

    def __init__(self, database: Database) -> None:
        self._db = database

    @retried()
    def claim(self, due: Due, *, until: datetime, user_id: str | None = None) -> Claim | None:
        """Lease a session that is due, preferably one without failures; return None if none is due.

        The lease ends at ``until``, unless `end` is called before. ``user_id`` limits it to this
        user's sessions.
        """
        with self._db.read(user_id) as db:
            candidates = _find_due(db, due, _CANDIDATES, user_id)
        for user, session, _ in candidates:
            with self._db.write(user) as db:
                still_due = _find_due(db, due, 1, user, session)
                if not still_due:  # others have read it meanwhile
                    continue
                values = {"user_id": user, "session_id": session, "holder": new_id()}
                row = db.first("claim_reading", values | {"until": to_micros(until)})
            assert row is not None
            scope, holder = Scope(user_id=user, session_id=session), values["holder"]
            return Claim(scope=scope, next_seq=row[0], upto=still_due[0][2], failures=row[1], holder=holder)
        return None

    @retried()
    def end(self, claim: Claim, next_seq: int, *, until: datetime | None = None, failures: int = 0) -> bool:
        """End a lease with the session read up to a place; return False if another reader has it by now.

        ``next_seq`` is the place of the first unread message, ``failures`` counts consecutive failed
        tries. Others may claim the session after ``until``, or at once.
        """
        scope = claim.scope
        values: Row = {"user_id": scope.user_id, "session_id": scope.session_id, "holder": claim.holder}
        values |= {"next_seq": next_seq, "until": to_micros(until) if until else 0, "failures": failures}
        with self._db.write(scope.user_id) as db:
            return db.first("end_reading", values) is not None

    @retried()
    def unread(self, user_id: str | None = None) -> int:
        """Return the number of unread places in sessions, of one user or of all."""
        with self._db.read(user_id) as db:
            where = "1 = 1" if user_id is None else db.dialect.fragments["session_user"]
            return db.number("count_unread", {"user_id": user_id}, where=where)

    @retried()
    def figures(self) -> Mapping[str, str]:
        """Return the figures of the whole database by name."""
        return self._with_prefix(_FIGURE_PREFIX)

    @retried()
    def add(self, name: str, by: int) -> int:
        """Add to a figure and return it; a new figure such as "calls:17" replaces "calls:16" and older ones.

        Names are compared as text, so their numbers must have the same number of digits.
        """
        kind, separator, _ = name.partition(":")
        with self._db.write() as db:
            row = db.first("add_to_meta", {"name": _FIGURE_PREFIX + name, "by": by})
            assert row is not None
            if separator and row[0] == by:
                older = {"prefix": f"{_FIGURE_PREFIX}{kind}:", "name": _FIGURE_PREFIX + name}
                db.run("drop_older_meta", older)
        return int(row[0])

    @retried()
    def note(self, /, **figures: str | int) -> None:
        """Set figures."""
        with self._db.write() as db:
            for name, value in figures.items():
                db.run("set_meta", {"name": _FIGURE_PREFIX + name, "value": str(value)})

    @retried()
    def check_reachable(self) -> None:
        """See `Database.check_reachable`."""
        self._db.check_reachable()

    @retried()
    def keys(self) -> Mapping[str, str]:
        """Return the texts about all keys by name."""
        return self._with_prefix(_KEY_PREFIX)

    @retried()
    def key(self, name: str) -> str | None:
        """Return the text about a key, None if there is none with this name."""
        rows = self._db.fetch("get_meta", {"name": _KEY_PREFIX + name})
        return str(rows[0][0]) if rows else None

    @retried()
    def put_key(self, name: str, text: str) -> None:
        """Set the text about a key."""
        self._db.execute("set_meta", {"name": _KEY_PREFIX + name, "value": text})

    @retried()
    def find_answer(self, user_id: str, key: str, now: datetime) -> StoredAnswer | None:
        """Return the answer to a user's request with this idempotency key, if it was given within a day.

        It locks the user: inside a transaction nobody else stores an answer until the transaction ends.
        """
        with self._db.write(user_id) as db:
            values = {"user_id": user_id, "key": key, "since": to_micros(now - _ANSWER_LIFETIME)}
            row = db.first("find_answer", values)
        return None if row is None else StoredAnswer(asked=row[0], status=row[1], body=row[2])

    @retried()
    def put_answer(self, user_id: str, key: str, answer: StoredAnswer, now: datetime) -> None:
        """Store an answer and drop the user's answers that are older than a day."""
        with self._db.write(user_id) as db:
            db.run("drop_answers", {"user_id": user_id, "before": to_micros(now - _ANSWER_LIFETIME)})
            values: Row = {"user_id": user_id, "key": key, "made_at": to_micros(now)}
            values |= {"asked": answer.asked, "status": answer.status, "body": answer.body}
            db.run("put_answer", values)

    @retried()
    def users(self, prefix: str) -> list[str]:
        """Return the ids of all users that begin with a prefix, without it."""
        return [name.removeprefix(prefix) for name in self._db.users() if name.startswith(prefix)]

    def _with_prefix(self, prefix: str) -> dict[str, str]:
        found = self._db.fetch("all_meta")
        return {name.removeprefix(prefix): value for name, value in found if name.startswith(prefix)}


def _find_due(
    db: Connection, due: Due, limit: int, user_id: str | None, session_id: str | None = None
) -> list[tuple[str, str, int]]:
    """Return user, session and the place after the last message of due sessions."""
    of_user = "" if user_id is None else f"AND {db.dialect.fragments['session_user']}"
    of_session = "" if session_id is None else "AND s.session_id = :session_id"
    now, pause = to_micros(due.now), round(due.pause.total_seconds() * 1e6)
    values: Row = {"user_id": user_id, "session_id": session_id, "limit": limit}
    values |= {"now": now, "rested": now - pause, "messages": due.messages}
    rows = db.rows("due_readings", values, and_where=f"{of_user} {of_session}")
    return cast("list[tuple[str, str, int]]", rows)
