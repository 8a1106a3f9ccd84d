"""Where memory is kept: small protocols, and the SQL beside them."""

from jiyi.storage.candidates import ROLES, Candidates, Key
from jiyi.storage.export import ExportReceipt, export_lines
from jiyi.storage.export_markdown import export_markdown
from jiyi.storage.importer import ImportReceipt, import_file, import_messages
from jiyi.storage.interchange import Found, Rejected, read_conversations
from jiyi.storage.one_thread import one_blas_thread
from jiyi.storage.sqlite import SqliteStore
from jiyi.storage.sqlite_database import SqliteDatabase
from jiyi.storage.sqlite_trash import SqliteTrash
from jiyi.storage.sqlite_upkeep import SqliteUpkeep
from jiyi.storage.sqlite_vectors import SqliteVectors
from jiyi.storage.store import Store
from jiyi.storage.trash import Discarded, Trash, TrashPage
from jiyi.storage.upkeep import Amendment, Cursor, Page, Upkeep
from jiyi.storage.vectors import Parts, PendingText, VectorIndex, VectorRow

__all__ = [
    "ROLES",
    "Amendment",
    "Candidates",
    "Cursor",
    "Discarded",
    "ExportReceipt",
    "Found",
    "ImportReceipt",
    "Key",
    "Page",
    "Parts",
    "PendingText",
    "Rejected",
    "SqliteDatabase",
    "SqliteStore",
    "SqliteTrash",
    "SqliteUpkeep",
    "SqliteVectors",
    "Store",
    "Trash",
    "TrashPage",
    "Upkeep",
    "VectorIndex",
    "VectorRow",
    "export_lines",
    "export_markdown",
    "import_file",
    "import_messages",
    "one_blas_thread",
    "read_conversations",
]
