"""What a SQLite file lacks to be of the newest schema, found without changing it."""

from pathlib import Path

import apsw

from jiyi.errors import ForeignDatabase
from jiyi.storage.sql import load_migrations
from jiyi.storage.sqlite.database import refuse_foreign
from jiyi.storage.sqlite.migrate import check_version

__all__ = ["pending_steps"]


def pending_steps(path: Path) -> list[str]:
    """Return what opening a file would do to its schema, a line a step; nothing when it is up to date.

    Raises:
        NewerDatabase: this jiyi does not know its schema.
        ForeignDatabase: it is not jiyi's.
    """
    refuse_foreign(path)
    newest = len(load_migrations("sqlite"))
    if not path.exists():
        return [f"make the file with schema {newest}"]
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            version = check_version(connection, path)
        finally:
            connection.close()
    except apsw.Error as error:
        raise ForeignDatabase(f"{path} cannot be read as a database: {error}; name another file") from error
    return [f"schema {number - 1} to {number}" for number in range(version + 1, newest + 1)]
