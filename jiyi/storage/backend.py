"""The database behind a place: the one function that picks it, and all protocols on it."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, cast

from jiyi.errors import MissingExtra, SettingsError
from jiyi.settings import Settings
from jiyi.storage.database import Database
from jiyi.storage.elsewhere import leave, refuse_bound, take_over
from jiyi.storage.place import Place
from jiyi.storage.readings import Readings
from jiyi.storage.relational import SqlStore, SqlTrash, SqlUpkeep
from jiyi.storage.relational.vector_states import VectorStates
from jiyi.storage.sqlite import SqliteDatabase, SqliteVectors
from jiyi.storage.sqlite.pending import pending_steps
from jiyi.storage.store import Store
from jiyi.storage.trash import Trash
from jiyi.storage.upkeep import Upkeep
from jiyi.storage.vectors import VectorIndex

if TYPE_CHECKING:
    from jiyi.storage.chroma.drift import Drift
    from jiyi.storage.chroma.vectors import ChromaVectors
    from jiyi.storage.postgres.about import About
    from jiyi.storage.postgres.database import PostgresDatabase

__all__ = [
    "Backend",
    "about_server",
    "apart",
    "chroma_adapter",
    "drift",
    "faiss_adapter",
    "has_tables",
    "migrate",
    "open_backend",
    "open_database",
    "postgres_adapter",
    "repair",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """All protocols on one database."""

    database: Database  # to be closed in the end
    store: Store
    upkeep: Upkeep
    trash: Trash
    vectors: VectorIndex
    readings: Readings


def open_backend(place: Place, settings: Settings) -> Backend:
    """Open a place, making what is missing there.

    Raises:
        StorageError: it cannot be opened; says why.
        MissingExtra: the package for it is not installed.
        SettingsError: ``vector_index`` is not for such a place.
        WrongState: its vectors are not where ``vector_index`` says.
    """
    chroma = chroma_adapter() if settings.vector_index == "chroma" else None
    faiss = faiss_adapter(place) if settings.vector_index == "faiss" else None
    database = open_database(place, settings)
    try:
        own = _on(database)
        if chroma is None:
            refuse_bound(database)
            return own if faiss is None else replace(own, vectors=faiss.FaissVectors(database))
        vectors = chroma.open_vectors(place, database, settings)
        store, trash = chroma.ChromaStore(own.store, vectors), chroma.ChromaTrash(own.trash, vectors)
        return replace(own, store=store, trash=trash, vectors=vectors)
    except BaseException:
        database.close()
        raise


def _on(database: Database) -> Backend:
    """Return all protocols on a database that holds its vectors itself."""
    if isinstance(database, SqliteDatabase):
        return Backend(
            database=database,
            store=SqlStore(database),
            upkeep=SqlUpkeep(database),
            trash=SqlTrash(database),
            vectors=SqliteVectors(database),
            readings=Readings(database),
        )
    postgres = postgres_adapter()  # whose verbs are tried again when the connection is lost
    return Backend(
        database=database,
        store=postgres.PostgresStore(database),
        upkeep=postgres.PostgresUpkeep(database),
        trash=postgres.PostgresTrash(database),
        vectors=postgres.PostgresVectors(database),
        readings=Readings(database, attempt=cast("PostgresDatabase", database).attempt),
    )


def open_database(place: Place, settings: Settings) -> Database:
    """Open the tables of a place alone, for whoever looks after them; see `open_backend`."""
    if place.path is not None:
        return SqliteDatabase(place.path, lock_timeout=settings.lock_timeout)
    database: Database = postgres_adapter().PostgresDatabase(
        str(place.url),
        lock_timeout=settings.lock_timeout,
        statement_seconds=settings.statement_seconds,
        pool_min=settings.pool_min,
        pool_max=settings.pool_max,
        pool_seconds=settings.pool_seconds,
        reconnect_seconds=settings.reconnect_seconds,
        migrate=settings.migrate_on_open,
    )
    return database


def has_tables(place: Place) -> bool:
    """Say whether a file is there, or jiyi's tables in a server's database; nothing is made.

    Raises:
        StorageError: the server cannot be reached.
    """
    if place.path is not None:
        return place.path.exists()
    postgres_adapter()
    from jiyi.storage.postgres import about

    return about.has_tables(str(place.url))


def about_server(place: Place) -> "About":
    """Ask the server of a place what it is.

    Raises:
        StorageError: it cannot be reached, or refuses.
    """
    postgres_adapter()
    from jiyi.storage.postgres import about

    return about.about(str(place.url))


def apart(place: Place, settings: Settings) -> Mapping[int, int]:
    """Return how many records of all users are set apart without vectors; see `VectorIndex.apart`.

    Raises:
        StorageError: it is foreign, newer, or cannot be reached.
    """
    with closing(open_database(place, settings)) as database:
        return VectorStates(database).apart()


def migrate(place: Place, settings: Settings, *, dry_run: bool = False) -> list[str]:
    """Bring a place to the newest schema and return what that took; a dry run only says it.

    Raises:
        StorageError: it is foreign, newer, cannot be written or reached.
    """
    if place.path is not None:
        steps = pending_steps(place.path)
    else:
        steps = postgres_adapter().migrate.pending(str(place.url))
    if steps and not dry_run:
        open_database(place, settings.model_copy(update={"migrate_on_open": True})).close()
    return steps


def repair(place: Place, settings: Settings) -> list[str]:
    """Mend what a place can mend of itself and return what was done.

    Rows and vectors in one database are written together and need none of it; an index
    elsewhere has a verb ``repair``.

    Raises:
        StorageError: it cannot be opened or mended.
    """
    database = open_database(place, settings)
    try:  # first of all to where ``vector_index`` says
        waiting = take_over(database) if settings.vector_index == "chroma" else leave(database)
    finally:
        database.close()
    done = [f"{waiting} records wait to be embedded anew"] if waiting else []
    backend = open_backend(place, settings)
    try:
        mend = getattr(backend.vectors, "repair", None)
        return [*done, *(mend() if mend else [])]
    finally:
        backend.store.close()


def drift(place: Place, settings: Settings) -> "Drift | None":
    """Compare an index elsewhere with the rows, changing nothing; None where both are in one place.

    Raises:
        StorageError: either cannot be opened.
    """
    if settings.vector_index != "chroma":
        return None
    backend = open_backend(place, settings)
    try:
        return cast("ChromaVectors", backend.vectors).drift()
    finally:
        backend.store.close()


def chroma_adapter() -> ModuleType:
    """Return `jiyi.storage.chroma`, which is imported only where it is used.

    Raises:
        MissingExtra: chromadb is not installed.
    """
    try:
        import chromadb  # noqa: F401
    except ImportError as error:
        raise MissingExtra('vectors in Chroma need a package: pip install "jiyi[chroma]"') from error
    from jiyi.storage import chroma

    return chroma


def faiss_adapter(place: Place) -> ModuleType:
    """Return `jiyi.storage.faiss`, which is imported only where it is used.

    Raises:
        SettingsError: the place is a server's database.
        MissingExtra: faiss-cpu is not installed.
    """
    if place.path is None:
        raise SettingsError(
            f"vector_index=faiss is for files; {place} has pgvector's index: leave vector_index as it is, "
            f"and run: jiyi migrate --vector-index --db {place}"
        )
    try:
        import faiss  # noqa: F401
    except ImportError as error:
        raise MissingExtra('search by FAISS needs a package: pip install "jiyi[faiss]"') from error
    from jiyi.storage import faiss as adapter

    return adapter


def postgres_adapter() -> ModuleType:
    """Return `jiyi.storage.postgres`, which is imported only where it is used.

    Raises:
        MissingExtra: psycopg is not installed.
    """
    try:
        import psycopg  # noqa: F401
        import psycopg_pool  # noqa: F401
    except ImportError as error:
        raise MissingExtra('a memory on PostgreSQL needs a package: pip install "jiyi[postgres]"') from error
    from jiyi.storage import postgres

    return postgres
