"""Named statements on one connection to PostgreSQL: several in one round trip, in a transaction or not."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import psycopg
from psycopg.pq import TransactionStatus

from jiyi.errors import StorageError
from jiyi.records import Kind
from jiyi.storage.damage import DamageLog
from jiyi.storage.database import Answer, Call, Connection, Values
from jiyi.storage.postgres.statements import POSTGRES, STEADY, Statement, named, set_local
from jiyi.storage.rows import Row

__all__ = ["Ask", "PostgresConnection", "Reading", "Writing"]

_MOST_WAITING = 1_000  # statements: beyond that they go
_BULK = 100  # rows from which on they go in together
_MESSAGE_ONLY = dict.fromkeys(("importance", "tokens", "tokens_by"))

_Cursor = psycopg.Cursor[Any]
_Raw = psycopg.Connection[Any]
_Rows = list[tuple[Any, ...]]
_Settings = Sequence[tuple[str, str]]  # of the server


class _SetTenant(Protocol):
    def __call__(self, user_id: str | None, /, *, steady: bool = False) -> list[Statement]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A statement for one user's rows."""

    user_id: str | None  # None: of all users
    statement: str
    values: dict[str, Any]
    settings: _Settings = ()  # for this statement where it only looks


@dataclass
class Reading:
    """Statements that only look: what is asked at once is a transaction and costs one round trip.

    What is sent before one `Sync` of the protocol is one transaction, so that the settings
    reach the statement after them without BEGIN and COMMIT.
    """

    _borrow: Callable[[], contextlib.AbstractContextManager[_Raw]]  # a connection, for a round trip
    _set_tenant: _SetTenant
    _explicit: bool  # write BEGIN and COMMIT all the same, where other machines take part
    in_transaction = False

    def ask(self, ask: Ask) -> _Cursor:
        """Run a statement and return its result."""
        return self.ask_all([ask])[0]

    def ask_all(self, asks: Sequence[Ask], *, steady: bool = False) -> list[_Cursor]:
        """Run statements for the same user and return their results; settings hold for those after it too.

        ``steady`` where all are `STEADY`.
        """
        cursors = []
        with self._borrow() as raw, raw.pipeline():
            if self._explicit:
                raw.execute("BEGIN READ ONLY")
            for words, values in self._set_tenant(asks[0].user_id, steady=steady):
                raw.execute(words, values)
            for ask in asks:
                for words, values in set_local(ask.settings, plain=not self._explicit):
                    raw.execute(words, values)
                cursors.append(raw.execute(ask.statement, ask.values, binary=True))
            if self._explicit:
                raw.execute("COMMIT")
        return cursors

    tell = ask  # see `Writing.tell`


@dataclass(slots=True)
class _State:
    """What a savepoint takes back."""

    tenant: str | None = None  # whose rows are seen
    next_doc: dict[str, int] = field(default_factory=dict)  # by user whose row in owners is locked


class Writing:
    """One transaction. Whoever writes to a user first holds the lock on this user's row in ``owners``.

    Statements without a result wait and go with the next one that has one, or with the
    COMMIT: the server gets them in their order, and their errors come up there.
    """

    in_transaction = True

    def __init__(self, raw: _Raw, set_tenant: _SetTenant) -> None:
        self.committing = False
        self.raw = raw
        self._set_tenant = set_tenant
        self._begun = False
        self._waiting: list[Statement] = []
        self._unsaved = False  # something other than savepoints waits
        self._state = _State()
        self._taken: dict[str, int] = {}  # first number given to users whose next_doc is to be written
        self._depth = 0
        self._sends = 0

    def ask(self, ask: Ask) -> _Cursor:
        """Run a statement and return its result."""
        statement = (ask.statement, ask.values)
        if ask.user_id is None:
            return self._send([*self._turn_to_nobody(), statement])[-1]
        if not (self._begun or self._unsaved or ask.user_id in self._state.next_doc):
            return self._begin_with(ask.user_id, statement)
        self._lock(ask.user_id)
        return self._send([*self._turn_to(ask.user_id), statement])[-1]

    def ask_all(self, asks: Sequence[Ask], *, steady: bool = False) -> list[_Cursor]:  # noqa: ARG002
        """See `Reading.ask_all`."""
        return [self.ask(ask) for ask in asks]

    def tell(self, ask: Ask) -> None:
        """Run a statement without a result, at the latest when the block ends."""
        if ask.user_id is None:
            self._waiting += self._turn_to_nobody()
        else:
            self._lock(ask.user_id)
            self._waiting += self._turn_to(ask.user_id)
        self._waiting.append((ask.statement, ask.values))
        self._unsaved = True
        if len(self._waiting) >= _MOST_WAITING:
            self._send([])

    def lock_all(self) -> None:
        """Wait for others who change what concerns all users, before this one looks at it."""
        self.ask(Ask(user_id=None, statement=named("lock_meta"), values={}))

    def take_numbers(self, user_id: str, count: int) -> int:
        """Set aside so many numbers of a user and return the first; the caller holds the lock."""
        self._lock(user_id)
        first = self._state.next_doc[user_id]
        self._state.next_doc[user_id] = first + count
        self._taken.setdefault(user_id, first)
        return first

    @property
    def numbers(self) -> dict[str, tuple[int, int]]:
        """The first number that was given of each user, and the one after the last."""
        given = self._state.next_doc
        return {user: (first, given[user]) for user, first in self._taken.items() if user in given}

    def tell_many(self, user_id: str, statement: str, rows: Sequence[Values]) -> None:
        """Send what waits, and a statement without a result for each of many rows of a user."""
        self._lock(user_id)
        turn = self._turn_to(user_id)
        if turn or self._waiting:
            self._send(turn)
        self._sends += 1
        with self.raw.cursor() as cursor:
            cursor.executemany(statement, rows)

    def commit(self) -> None:
        """Write what waits and end the transaction; nothing is sent if nothing was asked."""
        if not self._begun and not self._unsaved:
            return
        for user_id, (_, following) in sorted(self.numbers.items()):
            values = {"user_id": user_id, "next_doc": following}
            self._waiting += [*self._turn_to(user_id), (named("set_next_doc"), values)]
        self.committing = True
        ended = self._send([("COMMIT", None)])[-1]
        self.committing = False
        if ended.statusmessage != "COMMIT":
            raise StorageError("an earlier error undid this transaction; begin it again")

    def rollback(self) -> None:
        """Undo everything, as far as the connection still knows of it."""
        self._waiting.clear()
        status = self.raw.info.transaction_status
        if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            with contextlib.suppress(psycopg.Error):
                self.raw.execute("ROLLBACK")
        elif status == TransactionStatus.ACTIVE:  # broken off in the middle of an answer
            self.raw.close()

    @contextlib.contextmanager
    def inner(self) -> Iterator[None]:
        """A block whose exception, caught outside, undoes it alone."""
        if not self._begun and not self._waiting:
            with self._first():
                yield
            return
        if self._unsaved:
            self._send([])  # its errors are not this block's
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
                self._undo(name)
            raise
        finally:
            self._depth -= 1
        if sends == self._sends:
            del self._waiting[place:]  # nothing was asked
        else:
            self._waiting.append((f"RELEASE {name}", None))

    @contextlib.contextmanager
    def _first(self) -> Iterator[None]:
        """An inner block with nothing before it: undoing it undoes the transaction, without a savepoint."""
        try:
            yield
        except BaseException:
            self.rollback()
            self._begun = self._unsaved = False
            self._state = _State()
            self._taken.clear()
            raise

    def _undo(self, name: str) -> None:
        with contextlib.suppress(psycopg.Error):  # what is raised already says more
            self._send([(f"ROLLBACK TO {name}", None), (f"RELEASE {name}", None)])

    def _begin_with(self, user_id: str, statement: Statement) -> _Cursor:
        """Send the first statement together with the lock; begin again where the user is new."""
        waiting, lock = list(self._waiting), (named("lock_owner"), {"user_id": user_id})
        *_, locked, cursor = self._send([*self._turn_to(user_id), lock, statement])
        row = locked.fetchone()
        if row is None:
            self.raw.execute("ROLLBACK")
            self._begun, self._waiting, self._state.tenant = False, waiting, None
            self._lock(user_id)
            return self._send([statement])[-1]
        self._state.next_doc[user_id] = row[0]
        return cursor

    def _lock(self, user_id: str) -> None:
        if user_id in self._state.next_doc:
            return
        lock = (named("lock_owner"), {"user_id": user_id})
        row = self._send([*self._turn_to(user_id), lock])[-1].fetchone()
        if row is None:
            row = self._send([(named("add_owner"), {"user_id": user_id}), lock])[-1].fetchone()
            assert row is not None
        self._state.next_doc[user_id] = row[0]

    def _turn_to(self, user_id: str) -> list[Statement]:
        if self._state.tenant == user_id:
            return []
        self._state.tenant = user_id
        return self._set_tenant(user_id)

    def _turn_to_nobody(self) -> list[Statement]:
        """Make sure that the limits hold; what concerns no user needs to see no rows."""
        return [] if self._state.tenant is not None else self._turn_to("")

    def _send(self, statements: Sequence[Statement]) -> list[_Cursor]:
        """Send what waits and these in one round trip."""
        everything = [*self._waiting, *statements]
        if not self._begun:
            everything.insert(0, ("BEGIN ISOLATION LEVEL READ COMMITTED", None))
        self._waiting, self._unsaved, self._begun = [], False, True
        self._sends += 1
        if not everything:
            return []
        with self.raw.pipeline() if len(everything) > 1 else contextlib.nullcontext():
            return [self.raw.execute(words, values, binary=True) for words, values in everything]


@dataclass
class PostgresConnection(Connection):
    """`jiyi.storage.database.Connection` for one user, or for what concerns all."""

    _channel: Reading | Writing
    _user_id: str | None
    damage: DamageLog
    _to_lock: bool = False  # nobody else may write what concerns all users between its reads and writes
    dialect = POSTGRES

    @property
    def in_transaction(self) -> bool:
        """See `Connection.in_transaction`."""
        return self._channel.in_transaction

    def rows_with(
        self, settings: Sequence[tuple[str, str]], name: str, values: Values, **parts: str
    ) -> _Rows:
        """Run a statement under settings of the server and return its rows."""
        ask = replace(self._of(named(name, **parts), values), settings=settings)
        return self._channel.ask(ask).fetchall()

    def fetch_all(self, calls: Sequence[Call]) -> list[Answer]:
        """See `Connection.fetch_all`."""
        asks = [self._of(named(call.name, **call.parts), call.values) for call in calls]
        steady = all(call.name in STEADY for call in calls)
        return [
            Answer([column.name for column in cursor.description or ()], cursor.fetchall())
            for cursor in self._channel.ask_all(asks, steady=steady)
        ]

    def run(self, name: str, values: Values, **parts: str) -> None:
        """See `Connection.run`; in a transaction it goes with the next statement that has a result."""
        self._channel.tell(self._of(named(name, **parts), values))

    def run_many(self, name: str, values: Iterable[Values]) -> None:
        """See `Connection.run_many`."""
        rows = list(values)
        if len(rows) >= _BULK and self._user_id is not None:
            self._transaction.tell_many(self._user_id, named(name), rows)
            return
        for each in rows:
            self.run(name, each)

    def take_numbers(self, user_id: str, count: int) -> int:
        """See `Connection.take_numbers`."""
        return self._transaction.take_numbers(user_id, count)

    def add_documents(self, kind: Kind, rows: Sequence[Row]) -> None:
        """See `Connection.add_documents`."""
        whole = rows if kind == "message" else [_MESSAGE_ONLY | row for row in rows]
        self.run_many("add_document", whole)
        self.run_many("add_pending", [row for row in rows if row["vector_state"] == "pending"])
        if kind != "message":
            self.run_many(f"put_{kind}", rows)

    @property
    def _transaction(self) -> Writing:
        assert isinstance(self._channel, Writing), "rows are written in a transaction"
        return self._channel

    def _of(self, statement: str, values: Values) -> Ask:
        if self._to_lock:
            self._to_lock = False
            self._transaction.lock_all()
        return Ask(user_id=self._user_id, statement=statement, values=dict(values))
