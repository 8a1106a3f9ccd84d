"""Opens the database at a place, with the store, trash, vector index and ledger on it."""

import uuid
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, cast

from jiyi.errors import MissingExtra, SettingsError, StorageError, WrongState
from jiyi.settings import Settings
from jiyi.storage.database import Database
from jiyi.storage.ledger import Ledger
from jiyi.storage.place import Place
from jiyi.storage.sqlite import SqliteDatabase, SqliteVectors
from jiyi.storage.sqlite.migrate import pending_steps
from jiyi.storage.store import Store
from jiyi.storage.trash import Trash
from jiyi.storage.vectors import VectorIndex
from jiyi.telling import plural

if TYPE_CHECKING:
    from jiyi.storage.chroma import ChromaVectors, Drift
    from jiyi.storage.postgres.migrate import ServerInfo

_INDEX, _OWNER = "vector_index", "chroma_owner"  # names in the table meta: its vectors are in Chroma
_NEEDS = {  # by extra: the module, what for, and the packages
    "chroma": ("chroma", "vectors in Chroma need", ("chromadb",)),
    "faiss": ("sqlite.faiss", "search by FAISS needs", ("faiss",)),
    "postgres": ("postgres", "a memory on PostgreSQL needs", ("psycopg", "psycopg_pool")),
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

    Raises `StorageError` if it cannot be opened, `MissingExtra` if a package for it is not installed,
    `SettingsError` if ``vector_index`` does not fit the place, and `WrongState` if its vectors are not where
    ``vector_index`` says.
    """
    if settings.vector_index == "faiss" and place.path is None:
        advice = f"leave vector_index as it is, and run: jiyi migrate --vector-index --db {place}"
        raise SettingsError(f"vector_index=faiss is for files; {place} has pgvector's index: {advice}")
    module = adapter(settings.vector_index) if settings.vector_index in ("chroma", "faiss") else None
    database = open_database(place, settings)
    try:
        vectors: VectorIndex
        if module is not None and settings.vector_index == "chroma":
            vectors = module.open_vectors(place, bind_to_chroma(database), database, settings)
        elif _is_in_chroma(database):
            advice = "open it with vector_index=chroma and the chroma_url or chroma_path that it had, "
            advice += "or let it embed its records again for itself: jiyi doctor --repair"
            raise WrongState(f"{database.place} has its vectors in Chroma; {advice}")
        elif module is not None:
            vectors = module.FaissVectors(database)
        elif isinstance(database, SqliteDatabase):
            vectors = SqliteVectors(database)
        else:
            vectors = adapter("postgres").PostgresVectors(database)
        store, trash, ledger = Store(database, vectors), Trash(database, vectors), Ledger(database)
        trash.finish_overwrite()  # after an interrupted purge
        return Backend(database=database, store=store, trash=trash, vectors=vectors, ledger=ledger)
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
    """Return versions, role and connections of a place's server; raise `StorageError` if it refuses."""
    return cast("ServerInfo", adapter("postgres").migrate.read_server_info(str(place.url)))


def count_set_aside(place: Place, settings: Settings) -> Mapping[int, int]:
    """Return how many records of all users were set aside, by reason; raise as `open_database` does."""
    with closing(open_database(place, settings)) as database:
        return VectorIndex(database).count_set_aside()


def migrate(place: Place, settings: Settings, *, dry_run: bool = False) -> list[str]:
    """Migrate a place to the newest schema and return the steps; a dry run only returns them.

    Raises `StorageError` if it is foreign, newer, or cannot be written or reached.
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

    Vectors in the same database are written with their rows and need no repair. Raises as `open_backend`.
    """
    with closing(open_database(place, settings)) as database:
        waiting = _move_vectors(database, to_chroma=settings.vector_index == "chroma")
    done = [f"{plural(waiting, 'record')} to be embedded again"] if waiting else []
    backend = open_backend(place, settings)
    with closing(backend.store):
        repair_index = getattr(backend.vectors, "repair", None)
        return [*done, *(repair_index() if repair_index else [])]


def drift(place: Place, settings: Settings) -> "Drift | None":
    """Compare an index in Chroma with the rows, changing nothing; None if the vectors are elsewhere."""
    if settings.vector_index != "chroma":
        return None
    backend = open_backend(place, settings)
    with closing(backend.store):
        return cast("ChromaVectors", backend.vectors).drift()


def adapter(name: str) -> ModuleType:
    """Import a package of `jiyi.storage` that needs an extra; raise `MissingExtra` without it."""
    module, purpose, packages = _NEEDS[name]
    try:
        for package in packages:
            import_module(package)
    except ImportError as error:
        raise MissingExtra(f'{purpose} a package: pip install "jiyi[{name}]"') from error
    return import_module(f"jiyi.storage.{module}")


def bind_to_chroma(database: Database) -> str:
    """Bind a memory to Chroma, if it is not yet; return its name there.

    Raises `WrongState` if it holds vectors itself, `StorageError` if its tables are spread over several
    machines.
    """
    owner = database.fetch("get_meta", {"name": _OWNER})
    if owner:
        return str(owner[0][0])
    if database.fetch("has_vectors"):
        advice = "to embed its records again into Chroma, run with the same settings: jiyi doctor --repair"
        raise WrongState(f"{database.place} holds its vectors itself; {advice}")
    return _write_binding(database)


def _move_vectors(database: Database, *, to_chroma: bool) -> int:
    """Make a memory hold its vectors in Chroma, or itself; return how many records wait for new ones.

    A collection stays in Chroma and can be deleted there.
    """
    if _is_in_chroma(database) == to_chroma:
        return 0
    waiting = VectorIndex(database).drop_all()
    if to_chroma:
        _write_binding(database)
        return waiting
    for user_id in database.users():
        database.execute("chroma_forget_all", {"user_id": user_id})
    with database.write() as db:
        db.run("chroma_leave", {})
        for name in (_INDEX, _OWNER):
            db.run("drop_meta", {"name": name})
    return waiting


def _is_in_chroma(database: Database) -> bool:
    return bool(database.fetch("get_meta", {"name": _INDEX}))


def _write_binding(database: Database) -> str:
    if getattr(database, "citus", False):
        problem = "is spread over machines by Citus, where Chroma cannot be told of deletions"
        advice = "leave vector_index as it is: pgvector searches there"
        raise StorageError(f"{database.place} {problem}; {advice}")
    with database.write() as db:
        owner = db.first("get_meta", {"name": _OWNER})
        if owner is not None:  # another process was quicker
            return str(owner[0])
        db.run("chroma_prepare", {})
        name = uuid.uuid4().hex
        db.run("set_meta", {"name": _OWNER, "value": name})
        db.run("set_meta", {"name": _INDEX, "value": "chroma"})
        return name
