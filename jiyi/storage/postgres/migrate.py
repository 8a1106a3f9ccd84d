"""What a server and a database on it are like, and bringing that to the newest schema.

However many processes start at once, one migrates and the others wait.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import psycopg
from psycopg.rows import class_row

from jiyi.errors import ForeignDatabase, NewerDatabase, StorageError
from jiyi.storage.postgres.cluster import check_cluster, clean, look_at, machines, spread
from jiyi.storage.postgres.errors import repeat
from jiyi.storage.postgres.pool import Raw, connect
from jiyi.storage.postgres.statements import named, set_tenant
from jiyi.storage.sql import load_migrations
from jiyi.telling import masked

__all__ = [
    "OLDEST_SERVER",
    "OLDEST_VECTOR",
    "About",
    "Found",
    "about",
    "distribute",
    "has_tables",
    "look",
    "pending",
    "prepare",
    "statements",
    "tables",
]

OLDEST_SERVER = 15
OLDEST_VECTOR = (0, 8)

_LOCK = 0x6A697969  # "jiyi" in ASCII: whoever migrates holds it
_LOCK_SECONDS = 120  # most that is waited for another one who migrates
_TABLE = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)
_END = re.compile(r";[ \t]*(?:\n|\Z)")
_COMMENT = re.compile(r"^[ \t]*--.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """A server as one role sees it."""

    server: str  # its version, such as "18.6"
    vector: str | None  # version of the extension pgvector, None where the database lacks it
    citus: str | None  # version of the extension Citus, None where the database lacks it
    role: str  # who is connected
    walled: bool  # row level security holds for this role
    connections: int  # open ones on the whole server
    most_connections: int  # that it allows
    machines: int = 0  # of the cluster that take rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a database is like."""

    schema: int  # number of the newest migration that ran, 0 for none
    vector: str | None  # version of the extension, None where the database lacks it
    citus: bool  # whether rows may lie on several machines


def tables() -> tuple[str, ...]:
    """Return the names of jiyi's tables, in the order they are made."""
    return tuple(name for script in load_migrations("postgres").values() for name in _TABLE.findall(script))


def look(raw: Raw, place: str) -> Found:
    """Return what a database is like; nothing changes.

    Raises:
        ForeignDatabase: tables of another program have the names of jiyi's.
        NewerDatabase: this jiyi does not know its schema.
        StorageError: the server or its extension is too old or lacks something; says what to do.
    """
    row = raw.execute(named("look"), {"tables": list(tables())}).fetchone()
    assert row is not None
    server, encoding, schema, vector, available, citus, there = row
    if server < OLDEST_SERVER:
        raise StorageError(f"{place} is PostgreSQL {server}; jiyi needs {OLDEST_SERVER} or later")
    if encoding != "UTF8":
        raise StorageError(
            f"{place} has the encoding {encoding}; make a database that can hold every text: "
            "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )
    if schema is None:
        raise StorageError(f"{place}: search_path names no schema that exists; set another one for the role")
    _check_vector(place, vector, available)
    number = _schema(raw, place, there)
    return Found(schema=number, vector=vector, citus=citus)


def _check_vector(place: str, installed: str | None, available: str | None) -> None:
    oldest = ".".join(map(str, OLDEST_VECTOR))
    if installed is None and available is None:
        raise StorageError(
            f"{place}: the server lacks the extension vector; install pgvector {oldest} or later there, "
            "such as the package postgresql-18-pgvector or the image pgvector/pgvector:pg18"
        )
    version = installed or available or ""
    if tuple(int(number) for number in re.findall(r"\d+", version)[:2]) < OLDEST_VECTOR:
        raise StorageError(
            f"{place} has the extension vector {version}, jiyi needs {oldest}; install a newer pgvector on "
            "the server, then as a superuser: ALTER EXTENSION vector UPDATE"
        )


def _schema(raw: Raw, place: str, there: list[str]) -> int:
    """Return the schema's number, 0 where there are no tables at all."""
    if not there:
        return 0
    foreign = ForeignDatabase(
        f"{place} has tables of another program with the names of jiyi's ({', '.join(sorted(there))}); "
        "name another database, or give the role a schema of its own as search_path"
    )
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
        raise NewerDatabase(
            f"{place} has schema {schema}, this jiyi knows {newest}; upgrade with: pip install --upgrade jiyi"
        )
    return schema


def has_tables(url: str) -> bool:
    """Say whether jiyi's tables are in a database; nothing changes.

    Raises:
        StorageError: the server cannot be reached, or the database cannot be used; says why.
    """
    with connect(url) as server:
        return look(server, masked(url)).schema > 0


def about(url: str) -> About:
    """Ask a server what it is.

    Raises:
        StorageError: the server cannot be reached, or refuses.
    """
    with connect(url) as server:
        found = server.cursor(row_factory=class_row(About)).execute(named("about")).fetchone()
        assert found is not None
        return replace(found, machines=machines(server)) if found.citus else found


def prepare(raw: Raw, place: str, *, allowed: bool) -> Found:
    """Bring a database up to date before it is used; without ``allowed`` only make sure that it is.

    Raises:
        StorageError: it is not, and may not be brought; and as `look` does.
    """
    found = look(raw, place)
    missing = _missing(found)
    if not missing:
        return found
    if not allowed:
        raise StorageError(f"{place} is not up to date ({missing[0]}); bring it there with: jiyi migrate")
    _run(raw, place)
    return look(raw, place)


def pending(url: str) -> list[str]:
    """Return what `migrate` would do, a line for each step; nothing changes. Raises as `look` does."""
    with connect(url) as raw:
        return _missing(look(raw, masked(url)))


def _missing(found: Found) -> list[str]:
    steps = [] if found.vector else ["make the extension vector"]
    newest = len(load_migrations("postgres"))
    return steps + [f"bring the tables to schema {number}" for number in range(found.schema + 1, newest + 1)]


def _run(raw: Raw, place: str) -> None:
    with raw.transaction():
        raw.execute(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
        raw.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        found = look(raw, place)  # another process may have been quicker
        if found.vector is None:
            _make_extension(raw, place)
        for words, values in set_tenant(None, (0, _LOCK_SECONDS * 1000), plain=not found.citus):
            raw.execute(words, values)
        scripts = load_migrations("postgres")
        for number in range(found.schema + 1, len(scripts) + 1):
            for statement in statements(scripts[number]):
                raw.execute(statement.encode())
        for name, value in (("application", "jiyi"), ("schema", str(len(scripts)))):
            raw.execute(named("set_meta"), {"name": name, "value": value})
        if found.citus:
            spread(raw, place, tables(), begin=False)


def statements(script: str) -> list[str]:
    """Return the statements of a migration one by one: of several at once Citus hands none on."""
    return [part.strip() for part in _END.split(script) if _COMMENT.sub("", part).strip()]


def _make_extension(raw: Raw, place: str) -> None:
    try:
        raw.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except psycopg.errors.InsufficientPrivilege as error:
        raise StorageError(
            f"{place}: this role may not make the extension vector; let a superuser run in this "
            "database: CREATE EXTENSION vector"
        ) from error


class _Open(Protocol):
    @property
    def url(self) -> str: ...


def distribute(database: _Open | str, *, shards: int | None = None) -> list[str]:
    """Spread the tables of an up-to-date database over a Citus cluster; return what was done, line by line.

    Existing rows are moved, in one transaction; who reads or writes waits meanwhile. It may be run
    again at any time: what an earlier run has left undone is finished.

    Args:
        database: an open one, or the URL of the cluster's coordinator.
        shards: into how many each table is cut; None: as many as the cluster's ``citus.shard_count``
            says. A database that is cut already keeps its number.

    Raises:
        StorageError: the extension or the machines are missing, or the cluster refuses; says what to do.
    """
    url = database if isinstance(database, str) else database.url
    place, names = masked(url), tables()
    if steps := pending(url):
        raise StorageError(f"{place} is not up to date ({steps[0]}); bring it there with: jiyi migrate")
    with connect(url) as raw:
        check_cluster(raw, place)
        # A reader in the middle of its transaction and this one may each wait for the other: then again.
        done = repeat(lambda: _spread(url, place, names, shards), seconds=0, repeatable=True)
        done += clean(raw, names)
        if done:
            return done
        cut = sum(table.of_tenants for table in look_at(raw, names))
        return [f"nothing to do: {cut} tables are cut by tenant_id and lie on {machines(raw)} machines"]


def _spread(url: str, place: str, names: Sequence[str], shards: int | None) -> list[str]:
    """Distribute what is not yet, while nobody else migrates."""
    with connect(url) as raw, raw.transaction():
        raw.execute(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
        raw.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        return spread(raw, place, names, shards=shards)
