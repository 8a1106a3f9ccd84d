"""Inspection of a server and its database, and migration to the newest schema.

If several processes start at once, one migrates and the others wait.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from psycopg.rows import class_row

from jiyi.errors import ForeignDatabase, NewerDatabase, StorageError
from jiyi.storage.postgres import cluster
from jiyi.storage.postgres.errors import retry
from jiyi.storage.postgres.pool import Raw, connect
from jiyi.storage.postgres.statements import get_statement, set_tenant
from jiyi.storage.sql import MIGRATION_SECONDS, load_migrations
from jiyi.telling import mask

_OLDEST_SERVER = 15
_OLDEST_VECTOR = (0, 8)
_LOCK = 0x6A697969  # "jiyi" in ASCII: the advisory lock of a migration
_TABLE = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)
_END = re.compile(r";[ \t]*(?:\n|\Z)")
_COMMENT = re.compile(r"^[ \t]*--.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """A server as seen by one role."""

    server: str  # its version, such as "18.6"
    vector: str | None  # version of the extension pgvector, None without it
    citus: str | None  # version of the extension Citus, None without it
    role: str  # who is connected
    walled: bool  # row level security applies to this role
    connections: int  # open ones on the whole server
    most_connections: int  # allowed ones
    machines: int = 0  # of the cluster that store rows


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseInfo:
    """A database and its schema."""

    schema: int  # number of the newest migration that ran, 0 for none
    vector: str | None  # version of the extension pgvector, None without it
    citus: bool  # whether rows may be on several machines


def tables() -> tuple[str, ...]:
    """Return the names of jiyi's tables, in the order they are created."""
    return tuple(name for script in load_migrations("postgres").values() for name in _TABLE.findall(script))


def inspect_database(raw: Raw, place: str) -> DatabaseInfo:
    """Return version and schema of a database, changing nothing.

    Raises `ForeignDatabase` if tables of another program have the names of jiyi's, `NewerDatabase` if this
    jiyi does not know its schema, and `StorageError`, which says what to do, if the server or its
    extension is too old or lacks something.
    """
    row = raw.execute(get_statement("inspect_database"), {"tables": list(tables())}).fetchone()
    assert row is not None
    server, encoding, schema, vector, available, citus, there = row
    if server < _OLDEST_SERVER:
        raise StorageError(f"{place} is PostgreSQL {server}; jiyi needs {_OLDEST_SERVER} or later")
    if encoding != "UTF8":
        problem = f"{place} has the encoding {encoding}; make a database that can hold every text"
        raise StorageError(f"{problem}: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0")
    if schema is None:
        raise StorageError(f"{place}: search_path names no schema that exists; set another one for the role")
    _check_vector(place, vector, available)
    return DatabaseInfo(schema=_read_schema(raw, place, there), vector=vector, citus=citus)


def _check_vector(place: str, installed: str | None, available: str | None) -> None:
    oldest = ".".join(map(str, _OLDEST_VECTOR))
    if installed is None and available is None:
        advice = f"install pgvector {oldest} or later there, such as the package postgresql-18-pgvector"
        image = "the image pgvector/pgvector:pg18"
        raise StorageError(f"{place}: the server lacks the extension vector; {advice} or {image}")
    version = installed or available or ""
    if tuple(int(number) for number in re.findall(r"\d+", version)[:2]) < _OLDEST_VECTOR:
        advice = "install a newer pgvector on the server, then as a superuser: ALTER EXTENSION vector UPDATE"
        raise StorageError(f"{place} has the extension vector {version}, jiyi needs {oldest}; {advice}")


def _read_schema(raw: Raw, place: str, there: list[str]) -> int:
    """Return the schema's number, 0 if there are no tables at all."""
    if not there:
        return 0
    problem = f"{place} has tables of another program with the names of jiyi's ({', '.join(sorted(there))})"
    advice = "name another database, or give the role a schema of its own as search_path"
    foreign = ForeignDatabase(f"{problem}; {advice}")
    if "meta" not in there:
        raise foreign
    try:
        rows = raw.execute("SELECT name, value FROM meta WHERE name IN ('application', 'schema')").fetchall()
    except (psycopg.errors.UndefinedColumn, psycopg.errors.InsufficientPrivilege) as error:
        raise foreign from error
    values = dict(rows)
    if values.get("application") != "jiyi":
        raise foreign
    schema, newest = int(values["schema"]), len(load_migrations("postgres"))
    if schema > newest:
        advice = "upgrade with: pip install --upgrade jiyi"
        raise NewerDatabase(f"{place} has schema {schema}, this jiyi knows {newest}; {advice}")
    return schema


def has_tables(url: str) -> bool:
    """Return whether a database has jiyi's tables, changing nothing; raises as `inspect_database` does."""
    with connect(url) as server:
        return inspect_database(server, mask(url)).schema > 0


def read_server_info(url: str) -> ServerInfo:
    """Return versions, role and connections of a server; raise `StorageError` if it refuses."""
    with connect(url) as server:
        cursor = server.cursor(row_factory=class_row(ServerInfo))
        found = cursor.execute(get_statement("server_info")).fetchone()
        assert found is not None
        return replace(found, machines=cluster.count_machines(server)) if found.citus else found


def prepare(raw: Raw, place: str, *, allowed: bool) -> DatabaseInfo:
    """Migrate a database before it is used; without ``allowed`` only check that it is up to date.

    Raises `StorageError` if it is neither, and as `inspect_database` does.
    """
    found = inspect_database(raw, place)
    missing = _missing_steps(found)
    if not missing:
        return found
    if not allowed:
        raise StorageError(f"{place} is not up to date ({missing[0]}); bring it there with: jiyi migrate")
    _migrate(raw, place)
    return inspect_database(raw, place)


def pending_steps(url: str) -> list[str]:
    """Return the steps of a migration, changing nothing; raises as `inspect_database` does."""
    with connect(url) as raw:
        return _missing_steps(inspect_database(raw, mask(url)))


def _missing_steps(found: DatabaseInfo) -> list[str]:
    steps = [] if found.vector else ["make the extension vector"]
    newest = len(load_migrations("postgres"))
    return steps + [f"bring the tables to schema {number}" for number in range(found.schema + 1, newest + 1)]


def _migrate(raw: Raw, place: str) -> None:
    with raw.transaction():
        raw.execute(f"SET LOCAL lock_timeout = '{MIGRATION_SECONDS}s'")
        raw.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        found = inspect_database(raw, place)  # another process may have migrated it
        if found.vector is None:
            _make_extension(raw, place)
        for words, values in set_tenant(None, (0, MIGRATION_SECONDS * 1000), single_node=not found.citus):
            raw.execute(words, values)
        scripts = load_migrations("postgres")
        for number in range(found.schema + 1, len(scripts) + 1):
            for statement in statements(scripts[number]):
                raw.execute(statement.encode())
        for name, value in (("application", "jiyi"), ("schema", str(len(scripts)))):
            raw.execute(get_statement("set_meta"), {"name": name, "value": value})
        if found.citus:
            cluster.distribute_tables(raw, place, tables(), begin=False)


def statements(script: str) -> list[str]:
    """Split a migration into statements: Citus does not distribute several at once."""
    return [part.strip() for part in _END.split(script) if _COMMENT.sub("", part).strip()]


def _make_extension(raw: Raw, place: str) -> None:
    try:
        raw.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except psycopg.errors.InsufficientPrivilege as error:
        advice = "let a superuser run in this database: CREATE EXTENSION vector"
        raise StorageError(f"{place}: this role may not make the extension vector; {advice}") from error


def distribute(database: Any, *, shards: int | None = None) -> list[str]:
    """Distribute the tables of an up-to-date database over a Citus cluster; return what was done.

    Existing rows are moved in one transaction; readers and writers wait meanwhile. It may be run
    again at any time and finishes what an earlier run left undone.

    ``database`` is an open one, or the URL of the cluster's coordinator. ``shards`` of each table are by
    default the cluster's ``citus.shard_count``; a database that is distributed already keeps its number.
    Raises `StorageError`, which says what to do, if the extension or the machines are missing, or the
    cluster refuses.
    """
    url: str = getattr(database, "url", database)
    place, names = mask(url), tables()
    with connect(url) as raw:
        prepare(raw, place, allowed=False)
        cluster.check_cluster(raw, place)
        # A reader in a transaction and this one may deadlock: then it is retried.
        done = retry(lambda: _spread(url, place, names, shards), seconds=0, repeatable=True)
        done += cluster.drop_moved(raw, names)
        if done:
            return done
        cut = sum(table.of_tenants for table in cluster.read_tables(raw, names))
        machines = cluster.count_machines(raw)
        return [f"nothing to do: {cut} tables are cut by tenant_id and lie on {machines} machines"]


def _spread(url: str, place: str, names: Sequence[str], shards: int | None) -> list[str]:
    """Distribute tables while no other process migrates."""
    with connect(url) as raw, raw.transaction():
        raw.execute(f"SET LOCAL lock_timeout = '{MIGRATION_SECONDS}s'")
        raw.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        return cluster.distribute_tables(raw, place, names, shards=shards)
