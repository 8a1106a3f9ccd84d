"""From settings to Chroma: the folder or server, and what is beside a database there."""

from jiyi.errors import SettingsError
from jiyi.settings import Settings
from jiyi.storage.chroma.collections import Collections
from jiyi.storage.chroma.connection import ChromaConnection, ChromaServer
from jiyi.storage.chroma.folder import ChromaFolder
from jiyi.storage.chroma.vectors import ChromaVectors
from jiyi.storage.database import Database
from jiyi.storage.elsewhere import bind
from jiyi.storage.place import Place

__all__ = ["open_vectors"]


def open_vectors(place: Place, database: Database, settings: Settings) -> ChromaVectors:
    """Return the vectors of a database in Chroma; a server is not asked yet.

    Raises:
        SettingsError: nothing says where Chroma is, or two settings do.
        WrongState: the database holds its vectors itself.
        StorageError: the folder or the database cannot be used.
    """
    owner = bind(database)
    return ChromaVectors(database, Collections(_connect(place, settings), settings.chroma_collection, owner))


def _connect(place: Place, settings: Settings) -> ChromaConnection:
    if settings.chroma_url and settings.chroma_path:
        raise SettingsError("chroma_url and chroma_path are both set; Chroma is at one of them")
    if settings.chroma_url:
        return ChromaServer(settings.chroma_url, seconds=settings.chroma_seconds)
    path = settings.chroma_path
    if path is None and place.path is not None:
        path = place.path.with_name(f"{place.path.name}.chroma")
    if path is None:
        raise SettingsError(
            "vectors in Chroma beside a server's database need chroma_url, such as http://localhost:8000"
        )
    return ChromaFolder(path, lock_timeout=settings.lock_timeout)
