"""Where memory is kept: two small protocols, and the SQL beside them."""

from jiyi.storage.candidates import ROLES, Candidates, Key
from jiyi.storage.importer import ImportReceipt, import_messages
from jiyi.storage.interchange import Found, Rejected, read_conversations
from jiyi.storage.one_thread import one_blas_thread
from jiyi.storage.sqlite import SqliteStore
from jiyi.storage.sqlite_database import SqliteDatabase
from jiyi.storage.sqlite_vectors import SqliteVectors
from jiyi.storage.store import Store
from jiyi.storage.vectors import Parts, PendingText, VectorIndex, VectorRow

__all__ = [
    "ROLES",
    "Candidates",
    "Found",
    "ImportReceipt",
    "Key",
    "Parts",
    "PendingText",
    "Rejected",
    "SqliteDatabase",
    "SqliteStore",
    "SqliteVectors",
    "Store",
    "VectorIndex",
    "VectorRow",
    "import_messages",
    "one_blas_thread",
    "read_conversations",
]
