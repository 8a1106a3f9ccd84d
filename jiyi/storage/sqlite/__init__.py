"""One SQLite file: connections, schema, and vectors beside the rows."""

from jiyi.storage.sqlite.database import SqliteDatabase
from jiyi.storage.sqlite.vectors import SqliteVectors

__all__ = ["SqliteDatabase", "SqliteVectors"]
