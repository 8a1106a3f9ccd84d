"""The database behind a place: the one function that picks it, and everything on it."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, cast

from jiyi.errors import MissingExtra, SettingsError
from jiyi.settings import Settings
from jiyi.storage.database import Database
from jiyi.storage.elsewhere import leave, refuse_bound, take_over
from jiyi.storage.ledger import Ledger
from jiyi.storage.place import Place
from jiyi.storage.sqlite import SqliteDatabase, SqliteVectors
from jiyi.storage.sqlite.migrate import pending_steps
from jiyi.storage.store import Store
from jiyi.storage.trash import Trash
from jiyi.storage.vectors import VectorIndex

if TYPE_CHECKING:
    from jiyi.storage.chroma import ChromaVectors, Drift
    from jiyi.storage.postgres.migrate import About

__all__ = [
    "Backend",
    "about_server",
    "adapter",
    "apart",
    "drift",
    "migrate",
    "open_backend",
    "open_database",
    "repair",
]

_NEEDS = {
    "chroma": ("vectors in Chroma need", ("chromadb",)),
    "faiss": ("search by FAISS needs", ("faiss",)),
    "postgres": ("a memory on PostgreSQL needs", ("psycopg", "psycopg_pool")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """Everything on one database."""

    database: Database  # to be closed in the end
    store: Store
    trash: Trash
    vectors: VectorIndex
    ledger: Ledger


def open_backend(place: Place, settings: Settings) -> Backend:
    """Open a place, making what is missing there.

    Raises:
        StorageError: it cannot be opened; says why.
        MissingExtra: the package for it is not installed.
        SettingsError: ``vector_index`` is not for such a place.
        WrongState: its vectors are not where ``vector_index`` says.
    """
    if settings.vector_index == "faiss" and place.path is None:
        raise SettingsError(
            f"vector_index=faiss is for files; {place} has pgvector's index: leave vector_index as it is, "
            f"and run: jiyi migrate --vector-index --db {place}"
        )
    module = adapter(settings.vector_index) if settings.vector_index in ("chroma", "faiss") else None
    database = open_database(place, settings)
    try:
        vectors: VectorIndex
        if module is not None and settings.vector_index == "chroma":
            vectors = module.open_vectors(place, database, settings)
        else:
            refuse_bound(database)
            if module is not None:
                vectors = module.FaissVectors(database)
            elif isinstance(database, SqliteDatabase):
                vectors = SqliteVectors(database)
            else:
                vectors = adapter("postgres").PostgresVectors(database)
        opened = Backend(
            database=database,
            store=Store(database, vectors),
            trash=Trash(database, vectors),
            vectors=vectors,
            ledger=Ledger(database),
        )
        opened.trash.finish()  # what a purge that was cut short left
        return opened
    except BaseException:
        database.close()
        raise


def open_database(place: Place, settings: Settings) -> Database:
    """Open the tables of a place alone, for whoever looks after them; see `open_backend`."""
    if place.path is not None:
        return SqliteDatabase(place.path, lock_timeout=settings.lock_timeout)
    names = {"lock_timeout", "statement_seconds", "pool_min", "pool_max", "pool_seconds", "reconnect_seconds"}
    given = {name: getattr(settings, name) for name in names}
    make = adapter("postgres").PostgresDatabase
    return cast("Database", make(str(place.url), migrate=settings.migrate_on_open, **given))


def about_server(place: Place) -> "About":
    """Ask the server of a place what it is.

    Raises:
        StorageError: it cannot be reached, or refuses.
    """
    return cast("About", adapter("postgres").migrate.about(str(place.url)))


def apart(place: Place, settings: Settings) -> Mapping[int, int]:
    """Return how many records of all users are set apart without vectors; see `VectorIndex.apart`.

    Raises:
        StorageError: it is foreign, newer, or cannot be reached.
    """
    with closing(open_database(place, settings)) as database:
        return VectorIndex(database).apart()


def migrate(place: Place, settings: Settings, *, dry_run: bool = False) -> list[str]:
    """Bring a place to the newest schema and return what that took; a dry run only says it.

    Raises:
        StorageError: it is foreign, newer, cannot be written or reached.
    """
    if place.path is not None:
        steps = pending_steps(place.path)
    else:
        steps = adapter("postgres").migrate.pending(str(place.url))
    if steps and not dry_run:
        open_database(place, settings.model_copy(update={"migrate_on_open": True})).close()
    return steps


def repair(place: Place, settings: Settings) -> list[str]:
    """Repair what a place can repair by itself and return what was done.

    Rows and vectors in one database are written together and need none of it; an index
    elsewhere has a verb ``repair``.

    Raises:
        StorageError: it cannot be opened or mended.
    """
    with closing(open_database(place, settings)) as database:  # first of all to where ``vector_index`` says
        waiting = take_over(database) if settings.vector_index == "chroma" else leave(database)
    done = [f"{waiting} records wait to be embedded again"] if waiting else []
    backend = open_backend(place, settings)
    with closing(backend.store):
        mend = getattr(backend.vectors, "repair", None)
        return [*done, *(mend() if mend else [])]


def drift(place: Place, settings: Settings) -> "Drift | None":
    """Compare an index elsewhere with the rows, changing nothing; None where both are in one place.

    Raises:
        StorageError: either cannot be opened.
    """
    if settings.vector_index != "chroma":
        return None
    backend = open_backend(place, settings)
    with closing(backend.store):
        return cast("ChromaVectors", backend.vectors).drift()


def adapter(name: str) -> ModuleType:
    """Return a package of `jiyi.storage` that needs others: "chroma", "faiss" or "postgres".

    Raises:
        MissingExtra: those are not installed.
    """
    missing, needs = _NEEDS[name]
    try:
        for package in needs:
            import_module(package)
    except ImportError as error:
        raise MissingExtra(f'{missing} a package: pip install "jiyi[{name}]"') from error
    return import_module(f"jiyi.storage.{name}")
