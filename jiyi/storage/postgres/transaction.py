"""How statements reach the server: several in one round trip, in a transaction or one by one."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from jiyi.errors import StorageError
from jiyi.storage.postgres.statements import Statement, named, set_local

__all__ = ["Ask", "Channel", "Cursor", "Raw", "Reading", "SetTenant", "Settings", "Writing"]

_MOST_WAITING = 1_000  # statements: beyond that they go

Cursor = psycopg.Cursor[Any]
Raw = psycopg.Connection[Any]
Settings = Sequence[tuple[str, str]]  # of the server
SetTenant = Callable[[str | None], list[Statement]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A statement for one user's rows."""

    user_id: str | None  # None: of all users
    statement: str
    values: dict[str, Any]
    settings: Settings = ()  # for this statement where it only looks


class Reading:
    """Statements that only look: what is asked at once is a transaction and costs one round trip.

    What is sent before one `Sync` of the protocol is one transaction, so that the settings
    reach the statement after them without BEGIN and COMMIT.
    """

    in_transaction = False

    def __init__(self, raw: Raw, set_tenant: SetTenant, *, explicit: bool) -> None:
        """``explicit``: write BEGIN and COMMIT all the same, where other machines take part."""
        self._raw = raw
        self._set_tenant = set_tenant
        self._explicit = explicit

    def ask(self, ask: Ask) -> Cursor:
        """Run a statement and return its result."""
        return self.ask_all([ask])[0]

    def ask_all(self, asks: Sequence[Ask]) -> list[Cursor]:
        """Run statements for the same user and return their results; settings hold for those after it too."""
        before, after = list[Statement](self._set_tenant(asks[0].user_id)), list[Statement]()
        if self._explicit:
            before.insert(0, ("BEGIN READ ONLY", None))
            after.append(("COMMIT", None))
        cursors = []
        with self._raw.pipeline():
            for words, values in before:
                self._raw.execute(words, values)
            for ask in asks:
                for words, values in set_local(ask.settings, plain=not self._explicit):
                    self._raw.execute(words, values)
                cursors.append(self._raw.execute(ask.statement, ask.values, binary=True))
            for words, values in after:
                self._raw.execute(words, values)
        return cursors

    def tell(self, ask: Ask) -> None:
        """Run a statement without a result."""
        self.ask(ask)


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

    def __init__(self, raw: Raw, set_tenant: SetTenant) -> None:
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

    def ask(self, ask: Ask) -> Cursor:
        """Run a statement and return its result."""
        statement = (ask.statement, ask.values)
        if ask.user_id is None:
            return self._send([*self._turn_to_nobody(), statement])[-1]
        if ask.user_id not in self._state.next_doc:
            if not self._begun and not self._unsaved:
                return self._begin_with(ask.user_id, statement)
            self._lock(ask.user_id)
        return self._send([*self._turn_to(ask.user_id), statement])[-1]

    def ask_all(self, asks: Sequence[Ask]) -> list[Cursor]:
        """See `Reading.ask_all`."""
        return [self.ask(ask) for ask in asks]

    def tell(self, ask: Ask) -> None:
        """Run a statement without a result, at the latest when the block ends."""
        if ask.user_id is None:
            self._waiting += self._turn_to_nobody()
        else:
            if ask.user_id not in self._state.next_doc:
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
        """Set aside so many numbers of a user and return the first; under the lock nobody else does."""
        if user_id not in self._state.next_doc:
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

    def at_once(self, user_id: str) -> Raw:
        """Send what waits and return the connection, for what is no statement, such as COPY."""
        if user_id not in self._state.next_doc:
            self._lock(user_id)
        self._send(self._turn_to(user_id))
        return self.raw

    def commit(self) -> None:
        """Write what waits and end the transaction; nothing is sent where nothing was asked."""
        if not self._begun and not self._unsaved:
            return
        for user_id, (_, behind) in sorted(self.numbers.items()):
            values = {"user_id": user_id, "next_doc": behind}
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

    def _begin_with(self, user_id: str, statement: Statement) -> Cursor:
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

    def _send(self, statements: Sequence[Statement]) -> list[Cursor]:
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


Channel = Reading | Writing
"""Where the statements of a block go."""
