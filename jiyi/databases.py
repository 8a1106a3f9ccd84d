"""Questions about a whole database, for all its users: for operators, not for agents."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from jiyi.clock import utc_now
from jiyi.long_term import ReadingState, reading_state
from jiyi.settings import load_settings
from jiyi.storage import Database, Ledger
from jiyi.storage.backend import adapter, open_database
from jiyi.storage.place import Place, locate

__all__ = ["check_database", "is_there", "opened_ledger", "reading_of", "users_of"]


def check_database(url: str | Path | Place) -> str:
    """Read a whole database, compare its parts, and return what it holds in a line.

    Raises:
        StorageError: it is foreign, newer, damaged, or its parts do not agree.
    """
    with _opened(url) as database:
        return database.check()


def reading_of(url: str | Path | Place) -> ReadingState:
    """Return the state of the background reader of a database, whichever process runs it.

    Raises:
        StorageError: it is foreign, newer, or cannot be reached.
    """
    with _opened(url) as database:
        return reading_state(Ledger(database), utc_now())


def is_there(url: str | Path | Place) -> bool:
    """Say whether a file exists, or jiyi's tables in a server's database; nothing is created.

    Raises:
        StorageError: the server cannot be reached.
    """
    place = locate(url)
    return place.path.exists() if place.path else bool(adapter("postgres").migrate.has_tables(str(place.url)))


def users_of(url: str | Path | Place) -> list[str]:
    """Return the names of all users in a database: for operators, not for agents."""
    with _opened(url) as database:
        return database.users()


@contextmanager
def opened_ledger(url: str | Path | Place) -> Iterator[Ledger]:
    """Yield what servers share through a database, which is created if there is none."""
    with _opened(url) as database:
        yield Ledger(database)


def _opened(url: str | Path | Place) -> "closing[Database]":
    return closing(open_database(locate(url), load_settings()))
