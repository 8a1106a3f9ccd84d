"""Where the memories of an evaluation live: each conversation in a fresh one that leaves nothing behind."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from jiyi.databases import is_there, users_of
from jiyi.embeddings import Embedder
from jiyi.errors import SettingsError, StorageError, WrongState
from jiyi.manager import MemoryManager
from jiyi.storage.place import Place, locate
from jiyi.telling import masked
from jiyi.wiring import open_memory

__all__ = ["SQLITE", "Opener", "open_sqlite", "opener_for", "openers_for"]

Opener = Callable[[Embedder], AbstractContextManager[MemoryManager]]
"""Opens an empty memory of a user whom nobody else has, with this embedder and without a worker.

Leaving the context closes it and removes what it wrote.
"""

SQLITE = "sqlite"
"""The name of the embedded backend."""

_POSTGRES = "postgresql"

_USER = "jiyi-evaluate-"  # every user of an evaluation on a server begins so


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


def openers_for(backends: list[str]) -> dict[str, Opener]:
    """Return what opens memories on several backends, by names that results can give them.

    Raises:
        SettingsError: jiyi has no such backend.
        WrongState: a server's database holds memories of somebody.
        StorageError: it cannot be reached.
    """
    openers: dict[str, Opener] = {}
    for backend in dict.fromkeys(backends):
        name, opener = opener_for(backend)
        number = sum(known.split()[0] == name for known in openers)
        openers[f"{name} {number + 1}" if number else name] = opener
    return openers


def opener_for(backend: str) -> tuple[str, Opener]:
    """Return the name of a backend, without passwords, and what opens memories on it.

    Args:
        backend: "sqlite", or ``postgresql://…``: a database for evaluations alone.

    Raises:
        SettingsError: jiyi has no such backend.
        WrongState: a server's database holds memories of somebody.
        StorageError: it cannot be reached.
    """
    if backend == SQLITE:
        return SQLITE, open_sqlite
    place = locate(backend) if "://" in backend else Place()
    if place.url is None:
        raise SettingsError(
            f"no backend {masked(backend)!r} to evaluate on; there are {SQLITE}, with one file a "
            f"conversation, and {_POSTGRES}://…, a database that holds nothing else"
        )
    _check_free(place)
    return _POSTGRES, lambda embedder: _open_on_server(place, embedder)


def _check_free(place: Place) -> None:
    """Refuse a database of somebody: an evaluation fills it, and its vectors are of one embedder."""
    others = [user for user in users_of(place) if not user.startswith(_USER)] if is_there(place) else []
    if others:
        raise WrongState(
            f"{place} holds memories of {len(others)} users, such as {others[0]!r}; an evaluation needs a "
            "database of its own: make one with createdb and CREATE EXTENSION vector, or with: "
            "jiyi serve-db FOLDER"
        )


@contextmanager
def _open_on_server(place: Place, embedder: Embedder) -> Iterator[MemoryManager]:
    """Open the memory of a new user; nothing of it stays but the user's random name."""
    user_id = _USER + secrets.token_hex(16)
    with open_memory(place, user_id=user_id, embedder=embedder, background=False) as memory:
        try:
            yield memory
        finally:
            memory.forget(everything=True, purge=True)
