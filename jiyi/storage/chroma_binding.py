"""The note in a database that its vectors are in Chroma, so that no other index is used by mistake."""

import uuid

from jiyi.errors import StorageError, WrongState
from jiyi.storage.database import Database
from jiyi.storage.vectors import VectorIndex

__all__ = ["bind_to_chroma", "move_from_chroma", "move_to_chroma", "refuse_chroma"]

_INDEX, _OWNER = "vector_index", "chroma_owner"


def refuse_chroma(database: Database) -> None:
    """Make sure that a memory's vectors are not in Chroma.

    Raises:
        WrongState: they are; says how to open it.
    """
    if _is_in_chroma(database):
        raise WrongState(
            f"{database.place} has its vectors in Chroma; open it with vector_index=chroma and the "
            "chroma_url or chroma_path that it had, or let it embed its records again for itself: "
            "jiyi doctor --repair"
        )


def bind_to_chroma(database: Database) -> str:
    """Bind a memory to Chroma, if it is not yet; return its name there.

    Raises:
        WrongState: it holds vectors itself; says how to move them.
        StorageError: its tables are spread over several machines.
    """
    owner = database.fetch("get_meta", {"name": _OWNER})
    if owner:
        return str(owner[0][0])
    if database.fetch("has_vectors"):
        raise WrongState(
            f"{database.place} holds its vectors itself; to embed its records again into Chroma, run with "
            "the same settings: jiyi doctor --repair"
        )
    return _write_binding(database)


def move_to_chroma(database: Database) -> int:
    """Bind a memory to Chroma and drop the vectors it holds; return how many records wait for new ones."""
    if _is_in_chroma(database):
        return 0
    waiting = VectorIndex(database).drop_all()
    _write_binding(database)
    return waiting


def move_from_chroma(database: Database) -> int:
    """Make a memory hold its vectors itself again; return how many records wait for new ones.

    The collection stays in Chroma and can be deleted there.
    """
    if not _is_in_chroma(database):
        return 0
    waiting = VectorIndex(database).drop_all()
    for user_id in database.users():
        database.execute("chroma_forget_all", {"user_id": user_id})
    with database.write() as db:
        db.run("chroma_leave", {})
        for name in (_INDEX, _OWNER):
            db.run("drop_meta", {"name": name})
    return waiting


def _is_in_chroma(database: Database) -> bool:
    return bool(database.fetch("get_meta", {"name": _INDEX}))


def _write_binding(database: Database) -> str:
    if getattr(database, "citus", False):
        raise StorageError(
            f"{database.place} is spread over machines by Citus, where Chroma cannot be told of deletions; "
            "leave vector_index as it is: pgvector searches there"
        )
    with database.write() as db:
        owner = db.first("get_meta", {"name": _OWNER})
        if owner is not None:  # another process was quicker
            return str(owner[0])
        db.run("chroma_prepare", {})
        name = uuid.uuid4().hex
        db.run("set_meta", {"name": _OWNER, "value": name})
        db.run("set_meta", {"name": _INDEX, "value": "chroma"})
        return name
