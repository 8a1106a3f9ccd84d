"""Functions about a whole database with all its users, for operators, not for agents.

All raise `StorageError` for a database that is foreign, newer, or cannot be reached.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from jiyi.clock import utc_now
from jiyi.long_term import ReadingState, reading_state
from jiyi.settings import load_settings
from jiyi.storage import Database, Ledger
from jiyi.storage.backend import adapter, open_database
from jiyi.storage.place import Place, locate


def check_database(url: str | Path | Place) -> str:
    """Check a whole database, also for damage, and return a line about its contents."""
    with _open_closing(url) as database:
        return database.check()


def reader_state(url: str | Path | Place) -> ReadingState:
    """Return the state of the background reader of a database, whichever process runs it."""
    with _open_closing(url) as database:
        return reading_state(Ledger(database), utc_now())


def database_exists(url: str | Path | Place) -> bool:
    """Say whether a file exists, or jiyi's tables in a server's database; nothing is created."""
    place = locate(url)
    return place.path.exists() if place.path else bool(adapter("postgres").migrate.has_tables(str(place.url)))


def list_users(url: str | Path | Place) -> list[str]:
    """Return the names of all users in a database: for operators, not for agents."""
    with _open_closing(url) as database:
        return database.users()


@contextmanager
def open_ledger(url: str | Path | Place) -> Iterator[Ledger]:
    """Yield the ledger that servers share, in a database that is created if there is none."""
    with _open_closing(url) as database:
        yield Ledger(database)


def _open_closing(url: str | Path | Place) -> "closing[Database]":
    return closing(open_database(locate(url), load_settings()))
