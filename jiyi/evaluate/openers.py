"""Where the memories of an evaluation live: each conversation in a fresh one that leaves nothing behind."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from jiyi.embeddings import Embedder
from jiyi.errors import SettingsError, StorageError
from jiyi.manager import MemoryManager
from jiyi.wiring import open_memory

__all__ = ["SQLITE", "Opener", "open_sqlite", "opener_for"]

Opener = Callable[[Embedder], AbstractContextManager[MemoryManager]]
"""Opens an empty memory of a user whom nobody else has, with this embedder and without a worker.

Leaving the context closes it and removes what it wrote.
"""

SQLITE = "sqlite"
"""The name of the embedded backend."""


@contextmanager
def open_sqlite(embedder: Embedder) -> Iterator[MemoryManager]:
    """Open an empty memory in a file of its own, in a temporary folder that goes with it.

    Raises:
        StorageError: no temporary folder can be made.
    """
    try:
        folder = TemporaryDirectory(prefix="jiyi-evaluate-")
    except OSError as error:
        raise StorageError(
            f"no temporary folder can be made: {error.strerror}; set TMPDIR to a folder with room"
        ) from error
    with (
        folder as path,
        open_memory(
            Path(path) / "memory.db", user_id=secrets.token_hex(16), embedder=embedder, background=False
        ) as memory,
    ):
        yield memory


def opener_for(backend: str) -> tuple[str, Opener]:
    """Return the name of a backend, without passwords, and what opens memories on it.

    Args:
        backend: "sqlite"; a database server would be given by its URL.

    Raises:
        SettingsError: jiyi has no such backend.
    """
    name = backend.partition("://")[0]
    if backend == SQLITE:
        return name, open_sqlite
    raise SettingsError(
        f"no backend {name!r} to evaluate on; there is {SQLITE}, with one file a conversation"
    )
