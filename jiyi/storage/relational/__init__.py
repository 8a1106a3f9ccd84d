"""The store's logic on tables, the same for every database; see `jiyi.storage.database`."""

from jiyi.storage.relational.store import SqlStore
from jiyi.storage.relational.trash import SqlTrash
from jiyi.storage.relational.upkeep import SqlUpkeep
from jiyi.storage.relational.vector_states import VectorStates

__all__ = ["SqlStore", "SqlTrash", "SqlUpkeep", "VectorStates"]
