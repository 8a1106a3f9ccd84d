"""Opens the database at a place, with the store, trash, vector index and ledger on it."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, cast

from jiyi.errors import MissingExtra, SettingsError
from jiyi.settings import Settings
from jiyi.storage.chroma_binding import move_from_chroma, move_to_chroma, refuse_chroma
from jiyi.storage.database import Database
from jiyi.storage.ledger import Ledger
from jiyi.storage.place import Place
from jiyi.storage.sqlite import SqliteDatabase, SqliteVectors
from jiyi.storage.sqlite.migrate import pending_steps
from jiyi.storage.store import Store
from jiyi.storage.trash import Trash
from jiyi.storage.vectors import VectorIndex

if TYPE_CHECKING:
    from jiyi.storage.chroma import ChromaVectors, Drift
    from jiyi.storage.postgres.migrate import ServerInfo

__all__ = [
    "Backend",
    "adapter",
    "count_set_aside",
    "drift",
    "migrate",
    "open_backend",
    "open_database",
    "repair",
    "server_info",
]

_NEEDS = {
    "chroma": ("vectors in Chroma need", ("chromadb",)),
    "faiss": ("search by FAISS needs", ("faiss",)),
    "postgres": ("a memory on PostgreSQL needs", ("psycopg", "psycopg_pool")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """The storage objects on one database."""

    database: Database  # closed by whoever opened it
    store: Store
    trash: Trash
    vectors: VectorIndex
    ledger: Ledger


def open_backend(place: Place, settings: Settings) -> Backend:
    """Open a place, creating what is missing.

    Raises:
        StorageError: it cannot be opened; says why.
        MissingExtra: a package for it is not installed.
        SettingsError: ``vector_index`` does not fit the place.
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
            refuse_chroma(database)
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
        opened.trash.finish_overwrite()  # after an interrupted purge
        return opened
    except BaseException:
        database.close()
        raise


def open_database(place: Place, settings: Settings) -> Database:
    """Open only the tables of a place, for maintenance; raises as `open_backend` does."""
    if place.path is not None:
        return SqliteDatabase(place.path, lock_timeout=settings.lock_timeout)
    names = {"lock_timeout", "statement_seconds", "pool_min", "pool_max", "pool_seconds", "reconnect_seconds"}
    given = {name: getattr(settings, name) for name in names}
    make = adapter("postgres").PostgresDatabase
    return cast("Database", make(str(place.url), migrate=settings.migrate_on_open, **given))


def server_info(place: Place) -> "ServerInfo":
    """Return versions, role and connections of the server of a place.

    Raises:
        StorageError: it cannot be reached, or refuses.
    """
    return cast("ServerInfo", adapter("postgres").migrate.read_server_info(str(place.url)))


def count_set_aside(place: Place, settings: Settings) -> Mapping[int, int]:
    """Return how many records of all users were set aside, by reason; see `VectorIndex.count_set_aside`.

    Raises:
        StorageError: it is foreign, newer, or cannot be reached.
    """
    with closing(open_database(place, settings)) as database:
        return VectorIndex(database).count_set_aside()


def migrate(place: Place, settings: Settings, *, dry_run: bool = False) -> list[str]:
    """Migrate a place to the newest schema and return the steps; a dry run only returns them.

    Raises:
        StorageError: it is foreign, newer, or cannot be written or reached.
    """
    if place.path is not None:
        steps = pending_steps(place.path)
    else:
        steps = adapter("postgres").migrate.pending_steps(str(place.url))
    if steps and not dry_run:
        open_database(place, settings.model_copy(update={"migrate_on_open": True})).close()
    return steps


def repair(place: Place, settings: Settings) -> list[str]:
    """Move the vectors to where ``vector_index`` says, repair an index in Chroma, and return what was done.

    Vectors in the same database are written together with their rows and need no repair.

    Raises:
        StorageError: it cannot be opened or repaired.
    """
    with closing(open_database(place, settings)) as database:
        move = move_to_chroma if settings.vector_index == "chroma" else move_from_chroma
        waiting = move(database)
    done = [f"{waiting} records wait to be embedded again"] if waiting else []
    backend = open_backend(place, settings)
    with closing(backend.store):
        repair_index = getattr(backend.vectors, "repair", None)
        return [*done, *(repair_index() if repair_index else [])]


def drift(place: Place, settings: Settings) -> "Drift | None":
    """Compare an index in Chroma with the rows, changing nothing; None if the vectors are not in Chroma.

    Raises:
        StorageError: either cannot be opened.
    """
    if settings.vector_index != "chroma":
        return None
    backend = open_backend(place, settings)
    with closing(backend.store):
        return cast("ChromaVectors", backend.vectors).drift()


def adapter(name: str) -> ModuleType:
    """Import a package of `jiyi.storage` that needs an extra: "chroma", "faiss" or "postgres".

    Raises:
        MissingExtra: the extra is not installed.
    """
    purpose, packages = _NEEDS[name]
    try:
        for package in packages:
            import_module(package)
    except ImportError as error:
        raise MissingExtra(f'{purpose} a package: pip install "jiyi[{name}]"') from error
    return import_module(f"jiyi.storage.{name}")
