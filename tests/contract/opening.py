"""All protocols on one connection to a place, in this process or in another."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from jiyi.settings import load_settings
from jiyi.storage import Database, Store, Trash, VectorIndex
from jiyi.storage.backend import open_backend
from jiyi.storage.place import locate

if TYPE_CHECKING:
    from jiyi.storage.chroma import ChromaVectors


class Opened(NamedTuple):
    """All protocols on one connection."""

    store: Store
    vectors: VectorIndex
    trash: Trash
    database: Database


def open_place(place: str, patience: float = 5.0, now: Callable[[], float] = time.time) -> Opened:
    """Open a file or a database of a server; ``patience`` is how long to wait for a lock.

    ``chroma WHERE COLLECTION PLACE`` has its vectors in a collection of a folder or a server.
    ``faiss PLACE`` is a file searched with FAISS.
    """
    options: dict[str, Any] = {}
    if place.startswith("faiss "):
        place, options = place.removeprefix("faiss "), {"vector_index": "faiss"}
    if place.startswith("chroma "):
        _, where, name, place = place.split(" ", 3)
        options = {"vector_index": "chroma", "chroma_collection": name}
        options["chroma_url" if where.startswith("http") else "chroma_path"] = where
    backend = open_backend(locate(place), load_settings(lock_timeout=patience, **options))
    if options.get("vector_index") == "chroma":
        held = cast("ChromaVectors", backend.vectors)
        vectors = type(held)(backend.database, held._collections, now=now)
    else:
        vectors = type(backend.vectors)(backend.database, now=now)  # type: ignore[call-arg]
    return Opened(backend.store, vectors, backend.trash, backend.database)


ELSEWHERE = """
import sys
sys.path.append({folder!r})
from opening import open_place
opened = open_place(sys.argv[1])
{code}
opened.database.close()
"""


def run_elsewhere(code: str, place: str, *arguments: str) -> None:
    """Run code in a process of its own, where a place is ``opened``."""
    whole = ELSEWHERE.format(folder=str(Path(__file__).parent), code=code)
    subprocess.run([sys.executable, "-c", whole, place, *arguments], check=True, timeout=60)
