"""Where memory is kept: two small protocols, and the SQL beside them."""

from jiyi.storage.importer import ImportReceipt, import_messages
from jiyi.storage.interchange import Found, Rejected, read_conversations
from jiyi.storage.sqlite import SqliteStore
from jiyi.storage.sqlite_database import SqliteDatabase
from jiyi.storage.sqlite_vectors import SqliteVectors
from jiyi.storage.store import Store
from jiyi.storage.vectors import PendingText, VectorIndex, VectorRow

__all__ = [
    "Found",
    "ImportReceipt",
    "PendingText",
    "Rejected",
    "SqliteDatabase",
    "SqliteStore",
    "SqliteVectors",
    "Store",
    "VectorIndex",
    "VectorRow",
    "import_messages",
    "read_conversations",
]
