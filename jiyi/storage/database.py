"""The interface of a database for the store's logic: connections that run named statements of a dialect."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, Protocol, TypeVar, cast

from jiyi.errors import DatabaseDamaged, StorageError
from jiyi.records import Kind
from jiyi.storage.damage import DamageLog
from jiyi.storage.rows import Row
from jiyi.storage.search.user_cache import UserCache
from jiyi.telling import plural
from jiyi.text.lexicon import read_toml

__all__ = [
    "Answer", "Call", "Connection", "Database", "Dialect", "Translations", "Values", "batched", "grouped",
    "retried",
]  # fmt: skip

_K = TypeVar("_K")
_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")

Values = Mapping[str, Any]
"""Values of a statement's named parameters; others are ignored."""

_NOTHING: Values = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How a database writes conditions and list parameters."""

    fragments: Mapping[str, str]  # by name, see `jiyi.storage.sql.load_conditions`
    array: Callable[[Sequence[Any]], Any]  # returns the value of a parameter that is a list
    # Given a JSON body, names of parameters with keys, and a test: returns the condition that the test
    # holds for what is under these keys in the "value" of the body.
    json_path: Callable[[str, Sequence[str], str], str]
    remote: bool = False  # a statement costs a round trip to a server


@dataclass(frozen=True, slots=True)
class Call:
    """A named statement with its values; ``parts`` replace its placeholders in braces."""

    name: str
    values: Values
    parts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a statement."""

    names: Sequence[str]  # of the columns
    rows: list[tuple[Any, ...]]

    def records(self) -> list[Row]:
        """Return the rows as dicts by column name."""
        return [dict(zip(self.names, row, strict=True)) for row in self.rows]


class Connection(Protocol):
    """One connection inside a block of `Database.read` or `Database.write`.

    Statements are those of the dialect's ``queries.sql``, by name; ``parts`` replace their
    placeholders in braces. Each concerns one user: ``values["user_id"]``.
    """

    dialect: Dialect
    damage: DamageLog  # collects the rows that cannot be read

    @property
    def in_transaction(self) -> bool:
        """Whether what is read here may be undone, so that it must not be cached."""

    def fetch_all(self, calls: Sequence[Call]) -> list[Answer]:
        """Run statements that only read; a server gets all of them in one round trip."""

    def rows(self, name: str, values: Values, **parts: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        return self.fetch_all([Call(name, values, parts)])[0].rows

    def records(self, name: str, values: Values, **parts: str) -> list[Row]:
        """Run a statement and return its rows as dicts by column name."""
        return self.fetch_all([Call(name, values, parts)])[0].records()

    def first(self, name: str, values: Values, **parts: str) -> tuple[Any, ...] | None:
        """Run a statement and return its first row, None if it has none."""
        rows = self.rows(name, values, **parts)
        return rows[0] if rows else None

    def number(self, name: str, values: Values, **parts: str) -> int:
        """Run a statement and return its number, 0 if it has no row."""
        row = self.first(name, values, **parts)
        return int(row[0]) if row else 0

    def run(self, name: str, values: Values, **parts: str) -> None:
        """Run a statement without a result."""

    def run_many(self, name: str, values: Iterable[Values]) -> None:
        """Run a statement without a result once for each of the values."""
        for each in values:
            self.run(name, each)

    def take_numbers(self, user_id: str, count: int) -> int:
        """Reserve ascending numbers for a user's new rows and return the first.

        No number is used twice, and rows that are committed later have higher numbers.
        """

    def add_documents(self, kind: Kind, rows: Sequence[Row]) -> None:
        """Insert new documents of one kind and user, with their columns and words.

        Each row has its number in ``doc``; see `jiyi.storage.rows` for the other columns.
        """


class Database(Protocol):
    """A database with jiyi's tables."""

    cache: UserCache  # rows and vectors of users for searching
    damage: DamageLog  # the damaged records found so far
    place: str  # its name in messages
    overwrites: bool  # whether `scrub` overwrites every byte of what was dropped
    consistency_checks: Sequence[str]  # statements that count inconsistent rows
    read_ahead: type[Any] | None = None  # a cached part whose ``calls`` a snapshot runs, too

    def read(self, user_id: str | None = None) -> AbstractContextManager[Connection]:
        """Return a context with a connection for reading a user's rows; None is for data of all users.

        Inside this thread's `write` block it sees that block's changes.
        """

    def write(self, user_id: str | None = None) -> AbstractContextManager[Connection]:
        """Return a context with a connection in one transaction; others' writes to this user wait for it.

        Blocks of one thread nest: an exception caught outside an inner block undoes only that
        block; the outermost commits. None is for a block whose inner blocks name the users.
        """

    def attempt(self, verb: Callable[[], _T], *, repeatable: bool = True) -> _T:  # noqa: ARG002
        """Call a function, again if the connection to a server broke or other writers interfered.

        Inside this thread's `write` block it is called once; the outermost block is retried as a
        whole. Unless calling it twice has the same effect as once (``repeatable``), it is not called
        again after its COMMIT may have arrived.
        """
        return verb()

    def check_reachable(self) -> None:
        """Raise `StorageError` if the database does not answer, or its file was moved or replaced."""
        self.fetch("all_meta")

    def fetch(self, name: str, values: Values = _NOTHING, **parts: str) -> list[tuple[Any, ...]]:
        """Run a statement that only reads in a block of its own and return its rows."""
        with self.read(values.get("user_id")) as db:
            return db.rows(name, values, **parts)

    def execute(self, name: str, values: Values = _NOTHING) -> None:
        """Run a statement without a result in a block of its own."""
        with self.write(values.get("user_id")) as db:
            db.run(name, values)

    @property
    def in_transaction(self) -> bool:
        """Whether this thread is inside a `write` block."""
        with self.read() as db:
            return db.in_transaction

    def users(self) -> list[str]:
        """Return the ids of all users, sorted."""
        return [str(row[0]) for row in self.attempt(lambda: self.fetch("users"))]

    def check(self) -> str:
        """Return a line with numbers of users and records; raise `DatabaseDamaged` if tables disagree."""
        with self.read() as db:
            for name in self.consistency_checks:
                if count := db.rows(name, {})[0][0]:
                    raise DatabaseDamaged(f"{self.place}: {count} {name.replace('_', ' ')}; restore a backup")
            users, documents, waiting, summaries = db.rows("totals", {})[0]
        held = f"{plural(users, 'user')}, {plural(documents, 'record')}, {waiting:,} without vectors yet"
        return f"{self.place} is sound: {held}" + (f", {plural(summaries, 'summary')}" if summaries else "")

    def check_alone(self) -> None:
        """See `jiyi.storage.trash.Trash.check_alone`; a server needs no check."""

    def scrub(self) -> None:
        """See `jiyi.storage.trash.Trash.scrub`."""

    def close(self) -> None:
        """Close it. Closing twice is fine; using it afterwards raises `Closed`."""


class Translations:
    """What errors of a driver become, from the part ``name`` of the ``errors.toml`` of a package."""

    def __init__(self, package: str, name: str, of: Mapping[str, Any], becomes: Mapping[str, Any]) -> None:
        """``of`` and ``becomes`` have the classes of the driver and of jiyi by name."""
        self._rows = [
            (tuple(map(of.__getitem__, row["of"])), becomes[row["becomes"]], row["message"])
            for row in read_toml(package, "errors")[name]
        ]

    def find(self, error: Exception, **values: object) -> StorageError | None:
        """Return jiyi's error for one of the driver, None if it has no row; ``values`` fill its message."""
        found = (made(text.format(**values)) for of, made, text in self._rows if isinstance(error, of))
        return next(found, None)


def grouped(pairs: Iterable[tuple[_K, _T]]) -> dict[_K, list[_T]]:
    """Return the values of each key; keys and values keep their order."""
    groups: dict[_K, list[_T]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def batched(items: Sequence[_T], size: int = 1_000) -> Iterator[Sequence[_T]]:
    """Yield a sequence in batches of at most ``size``."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def retried(*, repeatable: bool = True, removes: bool = False) -> Callable[[_F], _F]:
    """Decorate a method of an object on a database (``_db``) so that it runs through `Database.attempt`.

    If it ``removes`` records, the object's vector index (``_vectors``) is told afterwards.
    """

    def decorate(verb: _F) -> _F:
        @wraps(verb)
        def attempted(self: Any, /, *args: Any, **options: Any) -> Any:
            done = self._db.attempt(partial(verb, self, *args, **options), repeatable=repeatable)
            if removes:
                self._vectors.records_removed()
            return done

        return cast("_F", attempted)

    return decorate
