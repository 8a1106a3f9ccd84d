"""The backends under contract: one param each, opened on a fresh place or again on the same."""

import os
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from chroma_server import ABSENT, ChromaProcess, chroma_place, chroma_server  # noqa: F401
from opening import Opened, open_place
from samples import fact, knowledge
from taken_out import MAKE, embed

from jiyi.records import Scope, Step
from jiyi.storage import Store, VectorIndex
from jiyi.storage.postgres import vectors as postgres_vectors
from jiyi.storage.sqlite import faiss as approximate

BACKENDS = ["sqlite", "postgres"]
EVERYDAY = ("test_store", "test_transactions", "test_trash", "test_vectors")  # on a server in every run
if os.environ.get("JIYI_TEST_CITUS_URL"):
    BACKENDS.append("citus")
# Where vectors matter: FAISS for a file, pgvector itself, and Chroma in a folder and on a server.
WITH_CHROMA = pytest.mark.skipif(bool(ABSENT), reason=str(ABSENT))
CHROMA = [pytest.param(name, marks=WITH_CHROMA) for name in ("chroma", "chroma-server")]


@dataclass
class Seconds:
    """A clock of seconds that stands still until it is moved."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Backend:
    """A place for data, and how to open it; every opening is a connection of its own."""

    open_all: Callable[..., Opened]  # seconds to wait for a lock, 5 by default
    clock: Seconds
    place: str  # what `reopen` in another process needs

    def open(self) -> tuple[Store, VectorIndex]:
        return self.open_all()[:2]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test on every database, and what is about vectors with other indexes too."""
    if "backend" in metafunc.fixturenames:
        about = {"vectors", "one_of_each"}.intersection(metafunc.fixturenames)
        more = ["faiss", "pgvector", *CHROMA] if about or "test_vectors" in metafunc.module.__name__ else []
        everyday = metafunc.module.__name__.rpartition(".")[2] in EVERYDAY
        slow = [[] if everyday or name == "sqlite" else pytest.mark.slow for name in BACKENDS]
        backends = [pytest.param(name, marks=marks) for name, marks in zip(BACKENDS, slow, strict=True)]
        metafunc.parametrize("backend", [*backends, *more], indirect=True)


@pytest.fixture
def faiss_at_once(monkeypatch):
    """Let FAISS look through a few vectors already."""
    monkeypatch.setattr(approximate, "FAISS_FROM", 2)


@pytest.fixture
def backend(request, tmp_path, monkeypatch):
    if request.param == "sqlite":
        place = str(tmp_path / "contract.db")
    elif request.param == "faiss":
        request.getfixturevalue("faiss_at_once")
        place = f"faiss {tmp_path / 'contract.db'}"
    elif request.param == "pgvector":
        monkeypatch.setattr(postgres_vectors, "MAX_IN_MEMORY", 0)
        place = request.getfixturevalue("postgres_url")
    elif request.param == "chroma":
        place = chroma_place(tmp_path / "chroma", str(tmp_path / "contract.db"))
    elif request.param == "chroma-server":
        server: ChromaProcess = request.getfixturevalue("chroma_server")
        place = chroma_place(server.url, request.getfixturevalue("postgres_url"))
    else:
        place = request.getfixturevalue(f"{request.param}_url")
    clock, opened = Seconds(), []

    def make(patience: float = 5.0) -> Opened:
        opened.append(open_place(place, patience, clock))
        return opened[-1]

    yield Backend(open_all=make, clock=clock, place=place)
    for one in opened:
        one.store.close()


@pytest.fixture
def every(backend):
    return backend.open_all()


@pytest.fixture
def store(every):
    return every.store


@pytest.fixture
def vectors(every):
    return every.vectors


@pytest.fixture
def trash(every):
    return every.trash


@pytest.fixture
def one_of_each(every):
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
