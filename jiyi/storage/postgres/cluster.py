"""Distribution of the tables over several machines by PostgreSQL's extension Citus.

The rows of a user stay together on one machine: all tables are split by the hash of ``tenant_id``
into the same shards. Tables without a tenant are copied to every machine.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql
from psycopg.rows import class_row

from jiyi.errors import StorageError
from jiyi.storage.postgres.pool import Raw
from jiyi.storage.postgres.statements import get_statement

_OLDEST_CITUS = 11  # the first whose free edition applies policies to the shards
_GATE = "owners"  # every writer locks a row of this table first

_HOW = (
    "as a superuser in this database, on each machine: CREATE EXTENSION citus; "
    "and here for each of the others: SELECT citus_add_node('address', 5432)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """The state of one of jiyi's tables."""

    name: str
    method: str | None  # "h": distributed by hash, "n": on every machine, None: only on the coordinator
    group: int | None  # tables of one group have the same shards
    filled: bool  # the coordinator has rows of it, maybe hidden ones
    of_tenants: bool  # it has a tenant_id

    @property
    def is_placed(self) -> bool:
        """Whether it is distributed as it should be."""
        return self.method == ("h" if self.of_tenants else "n")


def check_cluster(raw: Raw, place: str) -> None:
    """Raise `StorageError` if a database lacks Citus or machines to put rows on, with how to get them."""
    installed, available = raw.execute(get_statement("citus_versions")).fetchone() or (None, None)
    if installed is None and available is None:
        raise StorageError(
            f"{place}: the server lacks the extension citus, which spreads tables over machines; install it "
            "on each of them (the image citusdata/citus, or the package postgresql-17-citus-13.0), name it "
            f"first in shared_preload_libraries and restart; then, {_HOW}"
        )
    if installed is None:
        raise StorageError(f"{place} has no extension citus yet; make it, {_HOW}")
    if int(re.findall(r"\d+", installed)[0]) < _OLDEST_CITUS:
        raise StorageError(f"{place} has Citus {installed}; jiyi needs {_OLDEST_CITUS} or later")
    if not count_machines(raw):
        advice = "let a superuser run here, for each of them: SELECT citus_add_node('address', 5432)"
        raise StorageError(f"{place} knows no machine to put rows on; {advice}")


def count_machines(raw: Raw) -> int:
    """Return how many machines store rows."""
    (count,) = raw.execute(get_statement("count_machines")).fetchone() or (0,)
    return int(count)


def read_tables(raw: Raw, names: Sequence[str]) -> list[_Table]:
    """Return the state of tables, in the order of ``names``, without missing ones."""
    cursor = raw.cursor(row_factory=class_row(_Table))
    found = cursor.execute(get_statement("read_tables"), {"tables": list(names)})
    return sorted(found, key=lambda table: names.index(table.name))


def distribute_tables(
    raw: Raw, place: str, names: Sequence[str], *, shards: int | None = None, begin: bool = True
) -> list[str]:
    """Distribute the tables that are not yet, all in one transaction; return what was done.

    A statement that names both a distributed table and another one may crash the coordinator (seen
    with Citus 13.2), so readers and writers wait until all tables are distributed. ``names`` are the
    tables, each after those it refers to; with ``begin=False`` only tables that a migration added to
    distributed ones. Raises `StorageError` if a table is distributed in another way.
    """
    found = read_tables(raw, names)
    if not begin and not any(table.method for table in found):
        return []
    _check(place, found)
    anchor = next((table.name for table in found if table.method == "h"), None)
    done = []
    with raw.transaction():
        raw.execute("SET LOCAL statement_timeout = 0")
        waiting = [table for table in found if not table.is_placed]
        for table in sorted(waiting, key=lambda table: table.name != _GATE):
            raw.execute(_for_table("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", table))
        for table in sorted(waiting, key=lambda table: table.of_tenants):
            if not table.of_tenants:
                raw.execute("SELECT create_reference_table(%s)", (table.name,))
                done.append(f"{table.name}: copied to every machine")
                continue
            _distribute_table(raw, table, anchor, shards)
            done.append(f"{table.name}: cut by tenant_id" + (f", as {anchor} is" if anchor else ""))
            anchor = anchor or table.name
    return done


def drop_moved(raw: Raw, names: Sequence[str]) -> list[str]:
    """Remove rows from the coordinator that were moved to other machines; return what was done."""
    done = []
    for table in read_tables(raw, names):
        if table.of_tenants and table.is_placed and table.filled:
            raw.execute("SELECT truncate_local_data_after_distributing_table(%s)", (table.name,))
            done.append(f"{table.name}: rows moved")
    return done


def _check(place: str, found: Sequence[_Table]) -> None:
    misplaced = [table.name for table in found if table.method and not table.is_placed]
    groups = {table.group for table in found if table.method == "h"}
    if misplaced or len(groups) > 1:
        what = f"{', '.join(misplaced)} lies" if misplaced else "tables with users' rows lie"
        undo = "SELECT undistribute_table('…', cascade_via_foreign_keys => true)"
        problem = f"{place}: {what} otherwise than jiyi puts them"
        raise StorageError(f"{problem}; bring them back with {undo} and run this again")


def _distribute_table(raw: Raw, table: _Table, anchor: str | None, shards: int | None) -> None:
    # Rows are moved by COPY, which PostgreSQL refuses to roles under row level security: it must
    # not apply to the owner meanwhile.
    raw.execute(_for_table("ALTER TABLE {} NO FORCE ROW LEVEL SECURITY", table))
    if anchor is None:
        first = "SELECT create_distributed_table(%s, 'tenant_id', 'hash', 'none', %s::int)"
        raw.execute(first, (table.name, shards))
    else:
        raw.execute("SELECT create_distributed_table(%s, 'tenant_id', 'hash', %s)", (table.name, anchor))
    raw.execute(_for_table("ALTER TABLE {} FORCE ROW LEVEL SECURITY", table))


def _for_table(words: str, table: _Table) -> sql.Composed:
    return sql.SQL(words).format(sql.Identifier(table.name))
