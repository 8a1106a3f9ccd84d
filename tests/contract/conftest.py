"""The backends under contract: one param each, opened on a fresh place or again on the same."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
from samples import fact, knowledge
from taken_out import MAKE, embed

from jiyi.records import Scope, Step
from jiyi.storage import (
    SqliteDatabase,
    SqliteStore,
    SqliteTrash,
    SqliteUpkeep,
    SqliteVectors,
    Store,
    Trash,
    Upkeep,
    VectorIndex,
)


@dataclass
class Seconds:
    """A clock of seconds that stands still until it is moved."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Opened(NamedTuple):
    """All protocols on one connection."""

    store: Store
    vectors: VectorIndex
    upkeep: Upkeep
    trash: Trash


@dataclass
class Backend:
    """A place for data, and how to open it; every opening is a connection of its own."""

    open_all: Callable[..., Opened]  # seconds to wait for a lock, 5 by default
    clock: Seconds
    place: str  # what `reopen` in another process needs

    def open(self) -> tuple[Store, VectorIndex]:
        return self.open_all()[:2]


@pytest.fixture(params=["sqlite"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    assert request.param == "sqlite", "a new backend opens itself here"
    clock, opened = Seconds(), []
    file = tmp_path / "contract.db"

    def make(patience: float = 5.0) -> Opened:
        database = SqliteDatabase(file, lock_timeout=patience)
        opened.append(database)
        vectors = SqliteVectors(database, now=clock)
        return Opened(SqliteStore(database), vectors, SqliteUpkeep(database), SqliteTrash(database))

    yield Backend(open_all=make, clock=clock, place=str(file))
    for database in opened:
        database.close()


@pytest.fixture
def every(backend: Backend) -> Opened:
    return backend.open_all()


@pytest.fixture
def both(every: Opened) -> tuple[Store, VectorIndex]:
    return every[:2]


@pytest.fixture
def store(every: Opened) -> Store:
    return every.store


@pytest.fixture
def vectors(every: Opened) -> VectorIndex:
    return every.vectors


@pytest.fixture
def upkeep(every: Opened) -> Upkeep:
    return every.upkeep


@pytest.fixture
def trash(every: Opened) -> Trash:
    return every.trash


@pytest.fixture
def one_of_each(every: Opened) -> Opened:
    """A record of each kind for two users, embedded."""
    store, vectors, *_ = every
    for user in ("ben", "ana"):
        store.put([make("the word", id=kind, user=user) for kind, make in MAKE.items()])
        scope = Scope(user_id=user)
        store.put([Step(scope=scope, task_id="task", id=f"{n}", description="the word") for n in "abc"])
        store.put([fact("the word", id="built", sources=("message",), user=user)])
        store.put([knowledge("the word", id="built", source_episodes=("episode",), user=user)])
    embed(vectors)
    return every
