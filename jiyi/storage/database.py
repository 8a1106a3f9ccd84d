"""What the store's logic asks of a database: connections that run named statements of a dialect."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from jiyi.errors import DatabaseDamaged
from jiyi.records import Kind
from jiyi.storage.damage import DamageLog
from jiyi.storage.rows import Row
from jiyi.storage.user_cache import UserCache

__all__ = ["Answer", "Call", "Connection", "Database", "Dialect", "Values", "grouped", "retried"]

_K = TypeVar("_K")
_P = ParamSpec("_P")
_T = TypeVar("_T")

Values = Mapping[str, Any]
"""Values of a statement's named parameters; those it does not name are left alone."""

_NOTHING: Values = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How conditions are written where databases differ."""

    words: Mapping[str, str]  # by name, see `jiyi.storage.sql.load_conditions`
    listed: Callable[[Sequence[Any]], Any]  # makes the value of a parameter that is a list
    inside: Callable[[str, Sequence[str], str], str]  # JSON has in its "value", along keys given by the names
    # of parameters, something of which a test holds: body, names, test


@dataclass(frozen=True, slots=True)
class Call:
    """A named statement with its values; ``parts`` replace what stands in braces in it."""

    name: str
    values: Values
    parts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a statement gave."""

    names: Sequence[str]  # of the columns
    rows: list[tuple[Any, ...]]

    def records(self) -> list[Row]:
        """Return the rows, each by the names of its columns."""
        return [dict(zip(self.names, row, strict=True)) for row in self.rows]


class Connection(Protocol):
    """One connection inside a block of `Database.read` or `Database.write`.

    Statements are those of the dialect's ``queries.sql``, by name; ``parts`` replace what
    stands in braces in them. Every one of them concerns one user: ``values["user_id"]``.
    """

    dialect: Dialect
    damage: DamageLog  # takes in the rows that cannot be read

    @property
    def in_transaction(self) -> bool:
        """Whether what is read here may be undone: it must not be kept."""
        ...

    def all_of(self, calls: Sequence[Call]) -> list[Answer]:
        """Run statements that only look; a server is sent all of them at once."""
        ...

    def rows(self, name: str, values: Values, **parts: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        return self.all_of([Call(name, values, parts)])[0].rows

    def records(self, name: str, values: Values, **parts: str) -> list[Row]:
        """Run a statement and return its rows, each by the names of its columns."""
        return self.all_of([Call(name, values, parts)])[0].records()

    def first(self, name: str, values: Values, **parts: str) -> tuple[Any, ...] | None:
        """Run a statement and return its first row, None where there is none."""
        rows = self.rows(name, values, **parts)
        return rows[0] if rows else None

    def number(self, name: str, values: Values, **parts: str) -> int:
        """Run a statement and return the number it gives, 0 where it gives none."""
        row = self.first(name, values, **parts)
        return int(row[0]) if row else 0

    def run(self, name: str, values: Values, **parts: str) -> None:
        """Run a statement that gives nothing back."""
        ...

    def many(self, name: str, values: Iterable[Values]) -> None:
        """Run a statement that gives nothing back once for each of these."""
        ...

    def take_numbers(self, user_id: str, count: int) -> int:
        """Set aside so many numbers for a user's new rows and return the first; they ascend.

        A number is never given to two rows, and of two that commit the later has the higher.
        """
        ...

    def add_documents(self, kind: Kind, rows: Sequence[Row]) -> None:
        """Write new documents of one kind and user, with their columns and words.

        Each row has its number under ``doc``; see `jiyi.storage.rows` for the rest.
        """
        ...


class Database(Protocol):
    """Where the tables are."""

    cache: UserCache  # what was read of users for searching
    damage: DamageLog  # the damaged records that were met
    place: str  # names it in messages
    overwrites: bool  # whether `scrub` leaves no byte of what was dropped
    retries: bool  # whether `attempt` does anything again
    agreements: Sequence[str]  # statements that count what disagrees

    def read(self, user_id: str | None = None) -> AbstractContextManager[Connection]:
        """Give a connection for looking at a user's rows; None is for what concerns all users.

        Inside this thread's `write` block it sees that block's changes.
        """
        ...

    def write(self, user_id: str | None = None) -> AbstractContextManager[Connection]:
        """Give a connection inside one transaction; others' writes to this user wait for its end.

        Blocks of one thread nest: an exception caught outside an inner one undoes that one
        only, the outermost commits. None, for a block around others, leaves the user to the
        blocks inside.
        """
        ...

    def attempt(self, verb: Callable[[], _T], *, repeatable: bool = True) -> _T:  # noqa: ARG002
        """Do something again while the connection to a server breaks or other writers come between.

        Inside this thread's `write` block it is done once: who began the block decides.

        Args:
            verb: what to do; it opens blocks of its own.
            repeatable: doing it twice is the same as doing it once. Else it is not done again
                where its COMMIT may have arrived.
        """
        return verb()

    def ask(self, name: str, values: Values = _NOTHING, **parts: str) -> list[tuple[Any, ...]]:
        """Run a statement that only looks in a block of its own and return its rows."""
        with self.read(values.get("user_id")) as db:
            return db.rows(name, values, **parts)

    def tell(self, name: str, values: Values = _NOTHING) -> None:
        """Run a statement that gives nothing back in a block of its own."""
        with self.write(values.get("user_id")) as db:
            db.run(name, values)

    @property
    def in_transaction(self) -> bool:
        """Whether this thread is inside a `write` block."""
        with self.read() as db:
            return db.in_transaction

    def beside(self, user_id: str) -> list[Call]:  # noqa: ARG002
        """Return what else a look at a user asks for; see `jiyi.storage.relational.users.look`."""
        return []

    def users(self) -> list[str]:
        """Return the names of all users, in alphabetical order."""
        return [str(row[0]) for row in self.attempt(lambda: self.ask("users"))]

    def check(self) -> str:
        """Verify that the parts agree and return in a line what it holds.

        Raises:
            DatabaseDamaged: they do not.
        """
        with self.read() as db:
            for name in self.agreements:
                count = db.rows(name, {})[0][0]
                if count:
                    raise DatabaseDamaged(f"{self.place}: {count} {name.replace('_', ' ')}; restore a backup")
            users, documents, waiting, summaries = db.rows("totals", {})[0]
        held = f"{users} users, {documents} records, {waiting} without vectors yet"
        return f"{self.place} is sound: {held}" + (f", {summaries} summaries" if summaries else "")

    def check_alone(self) -> None:
        """See `jiyi.storage.trash.Trash.check_alone`; a server needs nothing."""

    def scrub(self) -> None:
        """See `jiyi.storage.trash.Trash.scrub`."""
        ...

    def close(self) -> None:
        """Release it. Closing twice is fine; using it afterwards raises `Closed`."""
        ...


def grouped(pairs: Iterable[tuple[_K, _T]]) -> dict[_K, list[_T]]:
    """Return the values of each key, keys and values in the order in which they came."""
    found: dict[_K, list[_T]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


class _OnDatabase(Protocol):
    @property
    def _db(self) -> Database: ...


_S = TypeVar("_S", bound=_OnDatabase)


def retried(
    *, repeatable: bool = True, removes: bool = False
) -> Callable[[Callable[Concatenate[_S, _P], _T]], Callable[Concatenate[_S, _P], _T]]:
    """Make a verb of a class with a database one that `Database.attempt` does.

    Where it ``removes`` records, the class's vector index is told of it in the end.
    """

    def decorate(verb: Callable[Concatenate[_S, _P], _T]) -> Callable[Concatenate[_S, _P], _T]:
        @wraps(verb)
        def attempted(self: _S, /, *args: _P.args, **options: _P.kwargs) -> _T:
            if self._db.retries:
                done = self._db.attempt(partial(verb, self, *args, **options), repeatable=repeatable)
            else:
                done = verb(self, *args, **options)
            if removes:
                cast("Any", self)._vectors.records_removed()
            return done

        return attempted

    return decorate
