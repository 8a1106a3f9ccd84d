"""Tables on several machines, by PostgreSQL's extension Citus: where each lies, and putting it there.

The rows of a user stay together on one machine: all tables are cut by the hash of ``tenant_id``
into the same shards. What has no tenant is copied to every machine.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql
from psycopg.rows import class_row

from jiyi.errors import StorageError
from jiyi.storage.postgres.pool import Raw
from jiyi.storage.postgres.statements import named

__all__ = ["OLDEST_CITUS", "Table", "check_cluster", "clean", "look_at", "machines", "spread"]

OLDEST_CITUS = 11  # the first whose free edition hands policies on to the shards
_GATE = "owners"  # whoever writes locks a row of it first, and others afterwards

_HOW = (
    "as a superuser in this database, on each machine: CREATE EXTENSION citus; "
    "and here for each of the others: SELECT citus_add_node('address', 5432)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One of jiyi's tables as it lies there."""

    name: str
    method: str | None  # "h": cut by a hash, "n": whole on every machine, None: only where it was made
    group: int | None  # tables of one group are cut alike
    filled: bool  # rows lie where it was made, be it hidden ones
    of_tenants: bool  # it has a tenant_id

    @property
    def spread(self) -> bool:
        """Whether it lies as it should."""
        return self.method == ("h" if self.of_tenants else "n")


def check_cluster(raw: Raw, place: str) -> None:
    """Make sure that a database has Citus and machines to put rows on.

    Raises:
        StorageError: not; says what is missing and how to get it.
    """
    installed, available = raw.execute(named("citus")).fetchone() or (None, None)
    if installed is None and available is None:
        raise StorageError(
            f"{place}: the server lacks the extension citus, which spreads tables over machines; install it "
            "on each of them (the image citusdata/citus, or the package postgresql-17-citus-13.0), name it "
            f"first in shared_preload_libraries and restart; then, {_HOW}"
        )
    if installed is None:
        raise StorageError(f"{place} has no extension citus yet; make it, {_HOW}")
    if int(re.findall(r"\d+", installed)[0]) < OLDEST_CITUS:
        raise StorageError(f"{place} has Citus {installed}; jiyi needs {OLDEST_CITUS} or later")
    if not machines(raw):
        raise StorageError(
            f"{place} knows no machine to put rows on; let a superuser run here, for each of them: "
            "SELECT citus_add_node('address', 5432)"
        )


def machines(raw: Raw) -> int:
    """Return how many machines take rows."""
    (count,) = raw.execute(named("machines")).fetchone() or (0,)
    return int(count)


def look_at(raw: Raw, names: Sequence[str]) -> list[Table]:
    """Return tables as they lie, in the order of their names here; those that are not there are left out."""
    found = raw.cursor(row_factory=class_row(Table)).execute(named("tables"), {"tables": list(names)})
    return sorted(found, key=lambda table: names.index(table.name))


def spread(
    raw: Raw, place: str, names: Sequence[str], *, shards: int | None = None, begin: bool = True
) -> list[str]:
    """Spread the tables that are not, all in one transaction or none; return what was done.

    A statement that names a table that is spread and one that is not may crash the coordinator (seen
    with Citus 13.2): whoever reads or writes waits until all of them are.

    Args:
        raw: a connection, in a transaction or not.
        place: names the database.
        names: the tables, none before one that it refers to.
        shards: into how many each is cut; None: as many as the cluster says.
        begin: also where none is spread yet, not only those that a migration added.

    Raises:
        StorageError: a table lies otherwise than it should already.
    """
    found = look_at(raw, names)
    if not begin and not any(table.method for table in found):
        return []
    _check(place, found)
    anchor = next((table.name for table in found if table.method == "h"), None)
    done = []
    with raw.transaction():
        raw.execute("SET LOCAL statement_timeout = 0")
        waiting = [table for table in found if not table.spread]
        for table in sorted(waiting, key=lambda table: table.name != _GATE):
            raw.execute(_of("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", table))
        for table in sorted(waiting, key=lambda table: table.of_tenants):
            if not table.of_tenants:
                raw.execute("SELECT create_reference_table(%s)", (table.name,))
                done.append(f"{table.name}: copied to every machine")
                continue
            _cut(raw, table, anchor, shards)
            done.append(f"{table.name}: cut by tenant_id" + (f", as {anchor} is" if anchor else ""))
            anchor = anchor or table.name
    return done


def clean(raw: Raw, names: Sequence[str]) -> list[str]:
    """Remove the rows that were moved away; after a break it does what is left of that."""
    done = []
    for table in look_at(raw, names):
        if table.of_tenants and table.spread and table.filled:
            raw.execute("SELECT truncate_local_data_after_distributing_table(%s)", (table.name,))
            done.append(f"{table.name}: rows moved")
    return done


def _check(place: str, found: Sequence[Table]) -> None:
    odd = [table.name for table in found if table.method and not table.spread]
    groups = {table.group for table in found if table.method == "h"}
    if odd or len(groups) > 1:
        what = f"{', '.join(odd)} lies" if odd else "tables with users' rows lie"
        raise StorageError(
            f"{place}: {what} otherwise than jiyi puts them; bring them back with "
            "SELECT undistribute_table('…', cascade_via_foreign_keys => true) and run this again"
        )


def _cut(raw: Raw, table: Table, anchor: str | None, shards: int | None) -> None:
    # Rows are moved by COPY, which PostgreSQL refuses to whom row level security holds for: it must
    # not hold for the owner meanwhile.
    raw.execute(_of("ALTER TABLE {} NO FORCE ROW LEVEL SECURITY", table))
    if anchor is None:
        first = "SELECT create_distributed_table(%s, 'tenant_id', 'hash', 'none', %s::int)"
        raw.execute(first, (table.name, shards))
    else:
        raw.execute("SELECT create_distributed_table(%s, 'tenant_id', 'hash', %s)", (table.name, anchor))
    raw.execute(_of("ALTER TABLE {} FORCE ROW LEVEL SECURITY", table))


def _of(words: str, table: Table) -> sql.Composed:
    return sql.SQL(words).format(sql.Identifier(table.name))
