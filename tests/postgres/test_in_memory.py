"""Vectors that are held in the process: what others change is seen, and the answers are the server's."""

import numpy as np
import pytest
from samples import ANA, message

from jiyi.records import Query
from jiyi.storage import Store
from jiyi.storage.postgres import PostgresDatabase, PostgresVectors
from jiyi.storage.postgres import vectors as postgres_vectors
from jiyi.storage.postgres.vectors import InMemoryVectors
from jiyi.storage.vectors import VectorRow

DIMS = 8
MINE = Query(scope=ANA, kinds=("message",), limit=100)


class Side:
    """One program with its own connections and its own cache."""

    def __init__(self, url: str) -> None:
        self.database = PostgresDatabase(url)
        self.store, self.vectors = Store(self.database), PostgresVectors(self.database)
        self.vectors.claim("some", DIMS)

    def save(self, *ids: str) -> None:
        self.store.put([message(f"text {id_}", id=id_) for id_ in ids])

    def embed(self, *ids: str, parts: int = 1, name: str | None = None) -> None:
        """Give records their vectors: number n that of the axis n."""
        texts = self.vectors.pending(100, leased=False, name=name)
        waiting = {text.text.removeprefix("text "): text.key for text in texts}
        rows = [VectorRow(key=waiting[id_], vectors=np.tile(axis(int(id_)), (parts, 1))) for id_ in ids]
        self.vectors.add(rows, name=name)

    def near(self, number: int) -> dict[str, float]:
        found = self.vectors.nearest(MINE, axis(number), snapshot=self.store.snapshot("ana"))
        return {match.id: round(match.score, 3) for match in found}

    def held(self) -> InMemoryVectors:
        view = self.database.cache.peek("ana", InMemoryVectors, InMemoryVectors.view)
        assert view is not None
        return view


def axis(number: int) -> np.ndarray:
    return np.eye(DIMS, dtype=np.float32)[number % DIMS]


@pytest.fixture
def sides(postgres_url):
    both = Side(postgres_url), Side(postgres_url)
    yield both
    for side in both:
        side.database.close()


def test_what_another_program_embeds_is_seen_at_once_and_costs_no_round_trip(sides, trips):
    here, there = sides
    there.save("0", "1", "2")
    there.embed("1")
    assert here.near(1) == {"1": 1.0}
    there.save("3")
    there.embed("3")
    trips.clear()
    assert here.near(3) == {"1": 0.0, "3": 1.0}
    assert len(trips) == 1
    there.embed("0")  # older than what was read
    trips.clear()
    assert here.near(0) == {"0": 1.0, "1": 0.0, "3": 0.0}
    assert len(trips) == 1
    assert here.held().waiting == [3], "the record with no vector yet, by its number"


def test_what_another_program_removes_or_embeds_anew_is_seen_at_once(sides):
    here, there = sides
    there.save("0", "1", "2")
    there.embed("0", "1", "2")
    assert here.near(0) == {"0": 1.0, "1": 0.0, "2": 0.0}
    there.store.delete(Query(scope=ANA, kinds=("message",), ids=("0",)))
    assert here.near(0) == {"1": 0.0, "2": 0.0}
    there.vectors.renew("other", DIMS)
    there.embed("1", "2", parts=2, name="other")
    assert here.near(1) == {"1": 1.0, "2": 0.0}
    there.vectors.switch("other")
    assert here.near(2) == {"1": 0.0, "2": 1.0}
    assert here.held().size == 4
    there.vectors.drop_all()
    assert here.near(2) == {}


def test_a_look_that_another_thread_overtook_loses_nothing(sides):
    here, there = sides
    there.save("0")
    there.embed("0")
    here.near(0)
    early = here.store.snapshot("ana")
    there.save("1")
    there.embed("1")
    assert here.near(1) == {"0": 0.0, "1": 1.0}
    assert [match.id for match in here.vectors.nearest(MINE, axis(1), snapshot=early)] == ["0"]
    assert here.near(1) == {"0": 0.0, "1": 1.0}


@pytest.mark.parametrize("most", ["records", "vectors"])
def test_more_than_are_held_are_compared_on_the_server(sides, monkeypatch, most):
    here, there = sides
    there.save("0", "1", "2")
    there.embed("0", "1", "2", parts=1 if most == "records" else 2)
    whole = here.near(1)
    monkeypatch.setattr(postgres_vectors, "MAX_IN_MEMORY", 2 if most == "records" else 5)
    assert there.near(1) == whole
    assert (there.held().too_many, there.held().size) == (True, 0)
    there.save("3")
    there.embed("3")
    assert there.near(3) == here.near(3) == {"0": 0.0, "1": 0.0, "2": 0.0, "3": 1.0}
    assert here.held().too_many, "it has needs_analyze what it held"


def test_inside_a_transaction_nothing_is_held(sides):
    here, _ = sides
    here.save("0")
    here.embed("0")
    with here.store.transaction():
        here.save("1")
        assert [match.id for match in here.vectors.nearest(MINE, axis(0))] == ["0"]
    assert here.database.cache.peek("ana", InMemoryVectors, InMemoryVectors.view) is None
