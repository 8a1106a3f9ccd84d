"""From a plain database to one whose rows lie on several machines; see `jiyi.storage.postgres.cluster`."""

import contextlib
from collections.abc import Iterator

from psycopg import sql

from jiyi.errors import StorageError
from jiyi.storage.postgres.cluster import GATE, check_cluster, clean, look_at, machines, spread
from jiyi.storage.postgres.database import PostgresDatabase
from jiyi.storage.postgres.migrate import LOCK, LOCK_SECONDS, pending, tables
from jiyi.storage.postgres.pool import Raw, connect
from jiyi.telling import masked

__all__ = ["distribute"]


def distribute(database: PostgresDatabase | str, *, shards: int | None = None) -> list[str]:
    """Spread the tables of an up-to-date database over a Citus cluster; return what was done, line by line.

    Existing rows are moved. Writers wait meanwhile; nobody should read. It may be run again at any
    time: what an earlier run has done stays, what it left undone is finished.

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
        with _gate(url) as gate:
            done = spread(raw, gate, place, names, shards=shards)
        done += clean(raw, names)
        if done:
            return done
        cut = sum(table.of_tenants for table in look_at(raw, names))
        return [f"nothing to do: {cut} tables are cut by tenant_id and lie on {machines(raw)} machines"]


@contextlib.contextmanager
def _gate(url: str) -> Iterator[Raw]:
    """Give a connection in a transaction that keeps others from migrating, and from writing to plain rows."""
    with connect(url) as gate, gate.transaction():
        gate.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
        gate.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        if any(table.method is None for table in look_at(gate, (GATE,))):
            gate.execute(sql.SQL("LOCK TABLE {} IN EXCLUSIVE MODE").format(sql.Identifier(GATE)))
        yield gate
