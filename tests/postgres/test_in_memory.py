"""Vectors that are held in the process, or looked up by an approximate index: the answers are the same."""

import numpy as np
import psycopg
import pytest
from at_once import wait_until
from refusing import refused
from samples import ANA, message

from jiyi.errors import WrongState
from jiyi.records import Query, Scope
from jiyi.storage import Store
from jiyi.storage.postgres import PostgresDatabase, PostgresVectors, ann
from jiyi.storage.postgres import vectors as postgres_vectors
from jiyi.storage.postgres.ann import AnnIndex
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


WIDE = 16


def random_rows(seed: int, count: int) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(count, WIDE)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def fill(database: PostgresDatabase, count: int, user: str = "ana", seed: int = 1) -> np.ndarray:
    """Save messages "0", "1", … of a user with random vectors; return these as they are stored."""
    store, vectors = Store(database), PostgresVectors(database)
    vectors.claim("random", WIDE)
    store.put([message(f"text {n}", id=f"{n}", user=user) for n in range(count)])
    rows = random_rows(seed, count)
    by_text = {p.text: p.key for p in vectors.pending(count, leased=False)}
    vectors.add([VectorRow(key=by_text[f"text {n}"], vectors=rows[n : n + 1]) for n in range(count)])
    return rows.astype(np.float16).astype(np.float32)


def asked_of_index(url: str) -> int:
    """How often the index was scanned, as the server counts once those who asked have gone."""
    words = "SELECT sum(idx_scan) FROM pg_stat_user_indexes WHERE indexrelname ~ '^vectors_ann_'"
    with psycopg.connect(url, autocommit=True) as connection:
        return int(connection.execute(words).fetchone()[0])


@pytest.fixture
def database(open_database, monkeypatch):
    """A database for which 400 vectors are many, and which holds none in the process."""
    monkeypatch.setattr(ann, "ANN_FROM", 400)
    monkeypatch.setattr(postgres_vectors, "MAX_IN_MEMORY", 0)
    return open_database(pool_max=1)


@pytest.mark.slow
def test_the_index_finds_what_comparing_all_finds(database, postgres_url):
    rows = fill(database, 1_000)
    vectors = PostgresVectors(database)
    query = Query(scope=ANA, kinds=("message",), limit=10)
    questions = random_rows(2, 40)
    exact = [vectors.nearest(query, question) for question in questions]
    for question, found in zip(questions, exact, strict=True):
        best = np.argsort(-(rows @ question))[:10]
        assert [m.id for m in found] == [str(place) for place in best]
    assert vectors.make_ann_index().startswith("made the index")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = postgres_url.rpartition("/")[2]  # a table this small would be read from end to end
        for way in ("seqscan", "bitmapscan", "sort"):
            connection.execute(f'ALTER DATABASE "{name}" SET enable_{way} = off')
    other = PostgresDatabase(postgres_url)
    vectors = PostgresVectors(other)
    found = [vectors.nearest(query, question) for question in questions]
    same = sum(len({m.id for m in one} & {m.id for m in two}) for one, two in zip(exact, found, strict=True))
    assert same >= 0.99 * 400
    for one, two in zip(exact, found, strict=True):
        assert [m.score for m in two] == sorted((m.score for m in two), reverse=True)
        assert two[0] == one[0]
    # What is saved from now on is in the index, too.
    Store(database).put([message("the new one", id="new")])
    (waiting,) = vectors.pending(10, leased=False)
    vectors.add([VectorRow(key=waiting.key, vectors=questions[:1])])
    assert vectors.nearest(query, questions[0])[0].id == "new"
    other.close()
    wait_until(lambda: asked_of_index(postgres_url) >= 40)


@pytest.fixture
def indexed(database):
    """Ana has 500 vectors of 600, ben 100; the index is there."""
    fill(database, 500)
    fill(database, 100, user="ben", seed=3)
    PostgresVectors(database).make_ann_index()
    return PostgresVectors(database)


def test_it_is_asked_for_large_scopes_only(indexed, monkeypatch):
    plan = indexed._ann.plan("ana", 28)
    assert plan is not None
    assert (plan.space, plan.dims, plan.kinds) == (0, WIDE, frozenset({"message"}))
    assert dict(plan.settings)["hnsw.ef_search"] == "360", "as many more as there are others'"
    assert indexed._ann.plan("ben", 28) is None
    assert indexed._ann.plan("ana", 2_000) is None, "more than it can keep in view"
    monkeypatch.setattr(ann, "ANN_SHARE", 0.9)
    assert indexed._ann.plan("ana", 28) is None, "what is small in the table is compared whole"


@pytest.mark.slow
def test_conditions_are_met_exactly(indexed):
    vector = random_rows(1, 500)[7]
    one_session = Query(scope=Scope(user_id="ana", session_id="elsewhere"), kinds=("message",))
    assert indexed.nearest(one_session, vector) == []
    assert indexed.nearest(Query(scope=ANA, ids=("3", "9")), vector)[0].id in ("3", "9")
    assert indexed.nearest(Query(scope=ANA, kinds=("message", "fact")), vector)[0].id == "7"
    assert indexed.nearest(Query(scope=ANA, kinds=("fact",)), vector) == []


def test_what_is_known_is_asked_again_after_a_minute(database):
    now = [0.0]
    fill(database, 500)
    known = AnnIndex(database, clock=lambda: now[0])
    assert known.plan("ana", 28) is None
    PostgresVectors(database).make_ann_index()  # by another process
    assert known.plan("ana", 28) is None
    now[0] = 61.0
    assert known.plan("ana", 28) is not None


@pytest.mark.slow
def test_an_index_that_went_is_noticed_at_once(indexed, postgres_url):
    vector = random_rows(1, 500)[7]
    query = Query(scope=ANA, kinds=("message",))
    before = indexed.nearest(query, vector)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP INDEX vectors_ann_0_{WIDE}")
    assert indexed.nearest(query, vector) == before


@pytest.mark.slow
def test_after_a_switch_the_new_set_is_searched(indexed, database):
    other = random_rows(9, 600)
    assert indexed._ann.plan("ana", 28) is not None
    second = PostgresVectors(database)
    assert second.renew("other", WIDE) == 600
    while batch := second.pending(200, name="other"):
        numbers = [int(p.text.split()[1]) + (500 if p.key[0] == "ben" else 0) for p in batch]
        rows = [VectorRow(key=p.key, vectors=other[n : n + 1]) for p, n in zip(batch, numbers, strict=True)]
        second.add(rows, name="other")
    assert second.switch("other") == 0
    # The first one still takes the old index for granted: the set says that it is not searched any more.
    found = indexed.nearest(Query(scope=ANA, kinds=("message",)), other[42])
    assert (found[0].id, round(found[0].score, 2)) == ("42", 1.0)
    assert indexed._ann.plan("ana", 28) is None
    made = indexed.make_ann_index()
    assert f"vectors_ann_1_{WIDE}" in made
    with database.read() as db:
        assert db.rows("ann_names", {}) == [(f"vectors_ann_1_{WIDE}",)], "that of the old set is gone"


def test_it_is_made_outside_transactions_and_of_something(database):
    vectors, store = PostgresVectors(database), Store(database)
    refused(WrongState, "no vectors yet", vectors.make_ann_index)
    vectors.claim("huge", 5_000)
    refused(WrongState, "4000 is the most", vectors.make_ann_index)
    with store.transaction(), pytest.raises(WrongState, match="outside a transaction"):
        vectors.make_ann_index()


def test_records_with_many_parts_leave_room_for_others(database):
    store, vectors = Store(database), PostgresVectors(database)
    store.put([message("long", id="long"), *(message(f"short {n}", id=f"{n}") for n in range(20))])
    one = np.eye(1, WIDE, dtype=np.float32)
    near = one + 0.1 * random_rows(5, 20)
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    for n, p in enumerate(vectors.pending(30), start=-1):
        rows = np.repeat(one, 300, axis=0) if p.text == "long" else near[n : n + 1]
        vectors.add([VectorRow(key=p.key, vectors=rows)])
    found = vectors.nearest(Query(scope=ANA, limit=5), one[0])
    assert len(found) == 5
    assert found[0].id == "long"
    assert len({m.id for m in found}) == 5
