"""The backends under contract: one param each, opened on a fresh place or again on the same."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from jiyi.storage import SqliteDatabase, SqliteStore, SqliteVectors, Store, VectorIndex


@dataclass
class Seconds:
    """A clock of seconds that stands still until it is moved."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Backend:
    """A place for data, and how to open it; every opening is a connection of its own."""

    open: Callable[[], tuple[Store, VectorIndex]]
    clock: Seconds
    place: str  # what `reopen` in another process needs


@pytest.fixture(params=["sqlite"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    assert request.param == "sqlite", "a new backend opens itself here"
    clock, opened = Seconds(), []
    file = tmp_path / "contract.db"

    def make() -> tuple[Store, VectorIndex]:
        database = SqliteDatabase(file)
        opened.append(database)
        return SqliteStore(database), SqliteVectors(database, now=clock)

    yield Backend(open=make, clock=clock, place=str(file))
    for database in opened:
        database.close()


@pytest.fixture
def both(backend: Backend) -> tuple[Store, VectorIndex]:
    return backend.open()


@pytest.fixture
def store(both: tuple[Store, VectorIndex]) -> Store:
    return both[0]


@pytest.fixture
def vectors(both: tuple[Store, VectorIndex]) -> VectorIndex:
    return both[1]
