"""Named statements on one connection to PostgreSQL, several in one round trip."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from jiyi.errors import StorageError
from jiyi.records import Kind
from jiyi.storage.damage import DamageLog
from jiyi.storage.database import Answer, Call, Connection, Values
from jiyi.storage.postgres.pool import PooledConnection
from jiyi.storage.postgres.statements import GENERIC_PLAN, POSTGRES, Statement, get_statement, set_local
from jiyi.storage.rows import Row

_MAX_WAITING = 4_000  # statements that are queued before they are sent
_MESSAGE_ONLY = dict.fromkeys(("importance", "tokens", "tokens_by"))

_Settings = Sequence[tuple[str, str]]  # of the server
_SetTenant = Callable[..., list[Statement]]  # see `set_tenant`


@dataclass
class ReadChannel:
    """Statements that only read: each call is one transaction and one round trip.

    Statements before one `Sync` of the protocol are one transaction, so that settings apply
    to the statements after them without BEGIN and COMMIT.
    """

    _borrow: Callable[[], contextlib.AbstractContextManager[PooledConnection]]  # for a round trip
    _set_tenant: _SetTenant
    _explicit: bool  # send BEGIN and COMMIT nevertheless, because other machines take part
    in_transaction = False

    def execute(
        self,
        user_id: str | None,
        statements: Sequence[Statement],
        *,
        settings: _Settings = (),
        generic_plan: bool = False,
    ) -> list[Answer]:
        """Run statements on a user's rows, or those of all, under settings of the server; return the results.

        ``generic_plan``: all are in `GENERIC_PLAN`.
        """
        before: list[Statement] = [("BEGIN READ ONLY", None)] if self._explicit else []
        before += self._set_tenant(user_id, generic_plan=generic_plan)
        before += set_local(settings, single_node=not self._explicit)
        after: list[Statement] = [("COMMIT", None)] if self._explicit else []
        with self._borrow() as raw:
            answers = raw.send_all([*before, *statements, *after])
        return answers[len(before) : len(before) + len(statements)]


@dataclass(slots=True)
class _State:
    """The state that a rollback to a savepoint restores."""

    tenant: str | None = None  # the user whose rows are visible
    next_doc: dict[str, int] = field(default_factory=dict)  # by user with a locked row in owners


class WriteTransaction:
    """One transaction. Writing to a user takes the lock on this user's row in ``owners`` first.

    Statements without a result are queued and sent with the next one that has a result, or with
    the COMMIT, in their order; their errors are raised there.
    """

    in_transaction = True

    def __init__(self, raw: PooledConnection, set_tenant: _SetTenant) -> None:
        self.committing = False
        self.raw = raw
        self._set_tenant = set_tenant
        self._begun = False
        self._waiting: list[Statement] = []
        self._unsaved = False  # the queue holds more than savepoints
        self._state = _State()
        self._taken: dict[str, int] = {}  # first number reserved, by user whose next_doc is to be written
        self._depth = 0
        self._sends = 0

    def execute(self, user_id: str | None, statements: Sequence[Statement], **_: object) -> list[Answer]:
        """See `ReadChannel.execute`; settings are for statements outside of transactions."""
        return [self._execute(user_id, statement) for statement in statements]

    def _execute(self, user_id: str | None, statement: Statement) -> Answer:
        if user_id is not None:
            if not (self._begun or self._unsaved or user_id in self._state.next_doc):
                return self._begin_with(user_id, statement)
            self._lock(user_id)
        return self._send([*self._switch_tenant(user_id), statement])[-1]

    def execute_later(self, user_id: str | None, statement: Statement) -> None:
        """Queue a statement without a result; it is sent when the block ends or before."""
        if user_id is not None:
            self._lock(user_id)
        self._waiting += [*self._switch_tenant(user_id), statement]
        self._unsaved = True
        if len(self._waiting) >= _MAX_WAITING:
            self._send([])

    def take_numbers(self, user_id: str, count: int) -> int:
        """Reserve numbers of a user and return the first."""
        self._lock(user_id)
        first = self._state.next_doc[user_id]
        self._state.next_doc[user_id] = first + count
        self._taken.setdefault(user_id, first)
        return first

    @property
    def numbers(self) -> dict[str, tuple[int, int]]:
        """The first reserved number of each user, and the one after the last."""
        given = self._state.next_doc
        return {user: (first, given[user]) for user, first in self._taken.items() if user in given}

    def commit(self) -> None:
        """Send the queue and commit; nothing is sent if there was no statement."""
        if not self._begun and not self._unsaved:
            return
        for user_id, (_, following) in sorted(self.numbers.items()):
            values = {"user_id": user_id, "next_doc": following}
            self._waiting += [*self._switch_tenant(user_id), (get_statement("set_next_doc"), values)]
        if self.raw.info.transaction_status == TransactionStatus.INERROR:
            raise StorageError("an earlier error undid this transaction; begin it again")
        self.committing = True
        self._send([("COMMIT", None)])
        self.committing = False

    def rollback(self) -> None:
        """Roll back, unless the connection is broken."""
        self._waiting.clear()
        status = self.raw.info.transaction_status
        if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            with contextlib.suppress(psycopg.Error):
                self.raw.execute("ROLLBACK")
        elif status == TransactionStatus.ACTIVE:  # interrupted while receiving a result
            self.raw.close()

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        """Return a context whose exception, caught outside, undoes only this block."""
        if not self._begun and not self._waiting:
            with self._undo_all_on_error():
                yield
            return
        if self._unsaved:
            self._send([])  # so that its errors are not raised in this block
        before = _State(self._state.tenant, dict(self._state.next_doc))
        sends, place = self._sends, len(self._waiting)
        self._depth += 1
        name = f"inner_{self._depth}"
        self._waiting.append((f"SAVEPOINT {name}", None))
        try:
            yield
            if self._unsaved:
                self._send([])
        except BaseException:
            del self._waiting[place if sends == self._sends else 0 :]
            self._unsaved, self._state = False, before
            if sends != self._sends:
                with contextlib.suppress(psycopg.Error):  # the exception being raised says more
                    self._send([(f"ROLLBACK TO {name}", None), (f"RELEASE {name}", None)])
            raise
        finally:
            self._depth -= 1
        if sends == self._sends:
            del self._waiting[place:]  # the block had no statement
        else:
            self._waiting.append((f"RELEASE {name}", None))

    @contextlib.contextmanager
    def _undo_all_on_error(self) -> Iterator[None]:
        """Return a context for the first block of a transaction: it needs no savepoint to be undone."""
        try:
            yield
        except BaseException:
            self.rollback()
            self._begun = self._unsaved = False
            self._state = _State()
            self._taken.clear()
            raise

    def _begin_with(self, user_id: str, statement: Statement) -> Answer:
        """Send the first statement together with the lock; if the user is new, start again."""
        waiting, lock = list(self._waiting), (get_statement("lock_owner"), {"user_id": user_id})
        *_, locked, answer = self._send([*self._switch_tenant(user_id), lock, statement])
        if not locked.rows:
            self.raw.execute("ROLLBACK")
            self._begun, self._waiting, self._state.tenant = False, waiting, None
            self._lock(user_id)
            return self._send([statement])[-1]
        self._state.next_doc[user_id] = locked.rows[0][0]
        return answer

    def _lock(self, user_id: str) -> None:
        if user_id in self._state.next_doc:
            return
        lock = (get_statement("lock_owner"), {"user_id": user_id})
        rows = self._send([*self._switch_tenant(user_id), lock])[-1].rows
        rows = rows or self._send([(get_statement("add_owner"), {"user_id": user_id}), lock])[-1].rows
        self._state.next_doc[user_id] = rows[0][0]

    def _switch_tenant(self, user_id: str | None) -> list[Statement]:
        """Return what makes a user's rows visible; None for statements that need only the time limits."""
        if self._state.tenant is not None and user_id in (None, self._state.tenant):
            return []
        self._state.tenant = user_id or ""
        return self._set_tenant(self._state.tenant)

    def _send(self, statements: Sequence[Statement]) -> list[Answer]:
        """Send the queue and these statements in one round trip."""
        everything = [*self._waiting, *statements]
        if not self._begun:
            everything.insert(0, ("BEGIN ISOLATION LEVEL READ COMMITTED", None))
        self._waiting, self._unsaved, self._begun = [], False, True
        self._sends += 1
        return self.raw.send_all(everything) if everything else []


@dataclass
class PostgresConnection(Connection):
    """`jiyi.storage.database.Connection` for one user, or for the data of all."""

    _channel: ReadChannel | WriteTransaction
    _user_id: str | None
    damage: DamageLog
    _lock_first: bool = False  # lock the data of all users before the first statement
    dialect = POSTGRES

    @property
    def in_transaction(self) -> bool:
        return self._channel.in_transaction

    def rows_with(
        self, settings: _Settings, name: str, values: Values, **parts: str
    ) -> list[tuple[Any, ...]]:
        """Run a statement under settings of the server and return its rows."""
        statement = self._statement(name, values, **parts)
        return self._channel.execute(self._user_id, [statement], settings=settings)[0].rows

    def fetch_all(self, calls: Sequence[Call]) -> list[Answer]:
        statements = [self._statement(call.name, call.values, **call.parts) for call in calls]
        generic_plan = all(call.name in GENERIC_PLAN for call in calls)
        return self._channel.execute(self._user_id, statements, generic_plan=generic_plan)

    def run(self, name: str, values: Values, **parts: str) -> None:
        """See `Connection.run`; in a transaction it is sent with the next statement that has a result."""
        self._transaction.execute_later(self._user_id, self._statement(name, values, **parts))

    def take_numbers(self, user_id: str, count: int) -> int:
        return self._transaction.take_numbers(user_id, count)

    def add_documents(self, kind: Kind, rows: Sequence[Row]) -> None:
        full = rows if kind == "message" else [_MESSAGE_ONLY | row for row in rows]
        self.run_many("add_document", full)
        self.run_many("add_pending", [row for row in rows if row["vector_state"] == "pending"])
        if kind != "message":
            self.run_many(f"put_{kind}", rows)

    @property
    def _transaction(self) -> WriteTransaction:
        assert isinstance(self._channel, WriteTransaction), "rows are written in a transaction"
        return self._channel

    def _statement(self, name: str, values: Values, **parts: str) -> Statement:
        if self._lock_first:
            self._lock_first = False
            self._channel.execute(self._user_id, [(get_statement("lock_meta"), {})])
        return get_statement(name, **parts), dict(values)
