"""SQLite files of other programs: opened to be read only, and never trusted."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from jiyi.errors import ImportFailed

__all__ = ["foreign_database", "rows", "tables"]

_FLAGS = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


@contextmanager
def foreign_database(path: Path) -> Iterator[apsw.Connection]:
    """Give a database that nothing can be written to; what goes wrong in the block is an `ImportFailed`."""
    uri = f"file:{quote(str(path.absolute()))}"
    try:
        try:
            db = _opened(f"{uri}?mode=ro")
        except apsw.CantOpenError:  # in WAL mode, in a folder that cannot be written
            db = _opened(f"{uri}?immutable=1")
        try:
            yield db
        finally:
            db.close()
    except (apsw.Error, UnicodeDecodeError) as error:
        raise ImportFailed(
            f"{path} is not a sound database: {error}; try: sqlite3 {path.name} .recover | sqlite3 whole.db"
        ) from error


def _opened(uri: str) -> apsw.Connection:
    db = apsw.Connection(uri, flags=_FLAGS)
    try:
        db.set_busy_timeout(5_000)
        for pragma in ("trusted_schema=OFF", "query_only=ON", "cell_size_check=ON", "mmap_size=0"):
            db.execute(f"PRAGMA {pragma}")
        db.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    except BaseException:
        db.close()
        raise
    return db


def tables(db: apsw.Connection) -> Mapping[str, frozenset[str]]:
    """Return the columns of each table; views are none."""
    names = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql IS NOT NULL").fetchall()
    columns = "SELECT name FROM pragma_table_info(?)"
    return {str(name): frozenset(str(c) for (c,) in db.execute(columns, (name,))) for (name,) in names}


def rows(db: apsw.Connection, table: str, *columns: str, order: str = "rowid") -> Iterator[tuple[Any, ...]]:
    """Give rows of a table in an order, one at a time."""
    quoted = '"' + table.replace('"', '""') + '"'
    yield from db.execute(f"SELECT {', '.join(columns)} FROM {quoted} ORDER BY {order}")
