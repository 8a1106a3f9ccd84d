"""FAISS looks through a user's vectors; what it names is compared exactly."""

import sys

import numpy as np
import pytest
from samples import message
from taken_out import cone

from jiyi.errors import MissingExtra, SettingsError
from jiyi.records import Query, Scope
from jiyi.settings import load_settings
from jiyi.storage import SqliteDatabase, SqliteVectors, Store, VectorRow
from jiyi.storage.backend import open_backend
from jiyi.storage.place import locate
from jiyi.storage.search import user_vectors
from jiyi.storage.search.user_vectors import UserVectors
from jiyi.storage.sqlite import faiss as approximate
from jiyi.storage.sqlite.faiss import FaissVectors, UserCodes

DIMS = 96
COUNT = 6_000
ANA = Scope(user_id="ana")


@pytest.fixture(scope="module")
def matrix():
    return cone(COUNT, DIMS)


@pytest.fixture
def few_are_many(monkeypatch):
    monkeypatch.setattr(approximate, "FAISS_FROM", 500)


def held(matrix):
    mine = UserVectors()
    parts = np.arange(1, len(matrix) + 1)
    mine.append(parts, parts, matrix)
    return mine.view()


def questions(matrix, count):
    rng = np.random.default_rng(1)
    rows = matrix[rng.integers(len(matrix), size=count)] + rng.normal(size=(count, DIMS)) / 15
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("rounded", [False, True])
def test_the_nearest_are_those_of_exact_search(matrix, few_are_many, monkeypatch, rounded):
    if rounded:
        monkeypatch.setattr(user_vectors, "MAX_EXACT", 500)
    mine, asked = held(matrix), UserCodes()
    assert (mine.mean is not None) == rounded
    asked.follow(mine)
    groups = (np.arange(COUNT) % 3 - 1).astype(np.int8)
    hits = 0
    for vector in questions(matrix, 50):
        named = asked.nearest(vector, groups, 100)
        assert sorted(named) == [0, 1], "FAISS was asked for both groups"
        assert [len(places) for places in named.values()] == [100, 100]
        assert all((groups[places] == group).all() for group, places in named.items())
        exact = matrix @ vector
        docs, scores = mine.nearest(
            vector, 10, groups=groups, fetch=lambda parts: matrix[parts - 1], preselect=lambda *_, n=named: n
        )
        assert scores == pytest.approx(exact[docs - 1], abs=1e-5)
        for group in (0, 1):
            own = np.flatnonzero(groups == group)
            hits += len({*own[np.argsort(-exact[own])[:10]]} & {*docs - 1})
    assert hits / (50 * 2 * 10) >= 0.99


def test_groups_with_few_vectors_are_left_to_exact_search(matrix, few_are_many):
    mine, asked = held(matrix), UserCodes()
    asked.follow(mine)
    groups = np.zeros(COUNT, np.int8)
    groups[:499] = 1
    assert list(asked.nearest(matrix[0], groups, 100)) == [0]
    asked = UserCodes()
    asked.follow(held(matrix[:499]))
    assert (asked.index, asked.nbytes) == (None, 0)


def test_vectors_that_come_are_added_and_other_sets_start_empty(matrix, few_are_many):
    asked, mine = UserCodes(), UserVectors()
    for start in range(0, COUNT, 1_000):
        parts = np.arange(start + 1, start + 1_001)
        mine.append(parts, parts, matrix[start : start + 1_000])
        asked.follow(mine.view())
        index = asked.index
        assert (index.ntotal, asked.nbytes) == (mine.size, mine.size * DIMS)
    asked.follow(held(matrix[:600]))
    assert asked.index is index, "an older view of the same vectors takes nothing away"
    groups = np.zeros(600, np.int8)
    assert max(asked.nearest(matrix[5], groups, 100)[0]) < 600, "nor is it shown what came later"
    mine.reset(3)
    mine.append(np.arange(1, 601), np.arange(1, 601), matrix[:600])
    asked.follow(mine.view())
    assert asked.index.ntotal == 600


def test_what_another_connection_saves_and_removes_is_noticed(path, matrix, monkeypatch):
    monkeypatch.setattr(approximate, "FAISS_FROM", 20)
    reading, writing = SqliteDatabase(path), SqliteDatabase(path)
    store, vectors, asked = Store(writing), SqliteVectors(writing), FaissVectors(reading)

    def save(first, last):
        store.put([message(f"{n}", id=f"{n}") for n in range(first, last)])
        rows = vectors.pending(last, leased=False)
        vectors.add([VectorRow(key=row.key, vectors=matrix[int(row.text)][None]) for row in rows])

    def found(n):
        return asked.nearest(Query(scope=ANA, limit=3), matrix[n])[0].id

    save(0, 60)
    assert found(7) == "7"
    assert reading.cache.peek("ana", UserCodes, UserCodes.view).index.ntotal == 60
    save(60, 90)
    assert found(88) == "88"
    store.delete(Query(scope=ANA, ids=("7", "88")))
    assert (found(7) == "7", found(88) == "88", found(50)) == (False, False, "50")
    left = reading.cache.peek("ana", UserCodes, UserCodes.view).index.ntotal
    assert left == 88, "nothing of what is gone is held"
    reading.close()
    writing.close()


def test_nothing_but_the_database_lies_on_the_disk(tmp_path, few_are_many):
    backend = open_backend(locate(tmp_path / "agent.db"), load_settings(vector_index="faiss"))
    assert isinstance(backend.vectors, FaissVectors)
    backend.store.close()
    assert [file.name for file in tmp_path.iterdir()] == ["agent.db"]


def test_a_server_has_its_own_index():
    with pytest.raises(SettingsError, match=r"pgvector.*jiyi migrate --vector-index --db postgresql://h/d"):
        open_backend(locate("postgresql://h/d"), load_settings(vector_index="faiss"))


def test_without_the_package_it_names_the_line_to_run(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtra, match=r'pip install "jiyi\[faiss\]"'):
        open_backend(locate(path), load_settings(vector_index="faiss"))
    assert not path.exists()
