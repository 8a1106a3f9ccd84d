"""Which index holds a memory's vectors: written in its database, so that no other is used by mistake."""

import uuid

from jiyi.errors import StorageError, WrongState
from jiyi.storage.database import Database
from jiyi.storage.vectors import VectorIndex

__all__ = ["bind", "leave", "refuse_bound", "take_over"]

_INDEX, _OWNER = "vector_index", "chroma_owner"


def refuse_bound(database: Database) -> None:
    """Refuse a memory whose vectors are elsewhere.

    Raises:
        WrongState: they are; says how to get at them.
    """
    if _bound(database):
        raise WrongState(
            f"{database.place} has its vectors in Chroma; open it with vector_index=chroma and the "
            "chroma_url or chroma_path that it had, or let it embed its records again for itself: "
            "jiyi doctor --repair"
        )


def bind(database: Database) -> str:
    """Bind a memory to Chroma, if it is not yet; return what names it there.

    Raises:
        WrongState: it holds vectors itself; says how to go over.
        StorageError: its tables are spread over several machines.
    """
    owner = database.ask("get_meta", {"name": _OWNER})
    if owner:
        return str(owner[0][0])
    if database.ask("any_vectors"):
        raise WrongState(
            f"{database.place} holds its vectors itself; to embed its records again into Chroma, run with "
            "the same settings: jiyi doctor --repair"
        )
    return _enter(database)


def take_over(database: Database) -> int:
    """Bind a memory that holds vectors itself; they are dropped. Return how many records lack them then."""
    if _bound(database):
        return 0
    waiting = VectorIndex(database).empty()
    _enter(database)
    return waiting


def leave(database: Database) -> int:
    """Let a memory hold its vectors itself again; return how many records wait for new ones.

    The collection stays in Chroma; it can be deleted there.
    """
    if not _bound(database):
        return 0
    waiting = VectorIndex(database).empty()
    for user_id in database.users():
        database.tell("chroma_forget_all", {"user_id": user_id})
    with database.write() as db:
        db.run("chroma_leave", {})
        for name in (_INDEX, _OWNER):
            db.run("drop_meta", {"name": name})
    return waiting


def _bound(database: Database) -> bool:
    return bool(database.ask("get_meta", {"name": _INDEX}))


def _enter(database: Database) -> str:
    if getattr(database, "citus", False):  # of a server
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
