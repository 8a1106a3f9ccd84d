"""Where memory is kept: small protocols, and the SQL for them."""

from jiyi.storage.candidates import ROLES, Candidates, Key
from jiyi.storage.damage import DamagedRecord
from jiyi.storage.database import Database
from jiyi.storage.ledger import Claim, Due, Ledger, StoredAnswer
from jiyi.storage.relational.users import Snapshot
from jiyi.storage.relational.write import sort_time
from jiyi.storage.rows import kind_of
from jiyi.storage.sqlite import SqliteDatabase, SqliteVectors
from jiyi.storage.store import Amendment, Cursor, Page, Store
from jiyi.storage.transfer.conversations import read_conversations
from jiyi.storage.transfer.export import ExportReceipt, export_lines
from jiyi.storage.transfer.lines import Found, ImportReceipt, Rejected
from jiyi.storage.transfer.markdown import export_markdown
from jiyi.storage.trash import Discarded, Trash, key_of
from jiyi.storage.vectors import Binding, PendingText, VectorIndex, VectorRow

__all__ = [
    "ROLES",
    "Amendment",
    "Binding",
    "Candidates",
    "Claim",
    "Cursor",
    "DamagedRecord",
    "Database",
    "Discarded",
    "Due",
    "ExportReceipt",
    "Found",
    "ImportReceipt",
    "Key",
    "Ledger",
    "Page",
    "PendingText",
    "Rejected",
    "Snapshot",
    "SqliteDatabase",
    "SqliteVectors",
    "Store",
    "StoredAnswer",
    "Trash",
    "VectorIndex",
    "VectorRow",
    "export_lines",
    "export_markdown",
    "key_of",
    "kind_of",
    "read_conversations",
    "sort_time",
]
