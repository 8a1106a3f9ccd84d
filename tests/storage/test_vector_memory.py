"""A user's vectors in memory: the cache keeps its limit, and searching at once is safe."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from samples import message

from jiyi.records import Query, Scope
from jiyi.storage import SqliteDatabase, SqliteVectors, Store, VectorRow

DIMS = 32


@pytest.fixture
def small(tmp_path):
    """A database that may hold one user in memory."""
    database = SqliteDatabase(tmp_path / "small.db", cache_bytes=1)
    yield database
    database.close()


def rows(count, seed=0):
    matrix = np.random.default_rng(seed).normal(size=(count, DIMS)).astype(np.float32)
    return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)


def fill(store, vectors, user, matrix):
    store.put([message(f"{i}", user=user, id=str(i)) for i in range(len(matrix))])
    batch = vectors.pending(len(matrix), leased=False)
    vectors.add([VectorRow(key=p.key, vectors=matrix[int(p.text)][None]) for p in batch])


def test_a_small_cache_gives_the_same_answers(small):
    store, vectors = Store(small), SqliteVectors(small)
    matrix = rows(40)
    for user in ("ana", "ben", "cy"):
        fill(store, vectors, user, matrix)
    for _ in range(2):
        for user in ("ana", "ben", "cy"):
            found = vectors.nearest(Query(scope=Scope(user_id=user), limit=3), matrix[7])
            assert found[0].id == "7"
            assert len(found) == 3
            assert store.match(Query(scope=Scope(user_id=user), text="7")).keys[0] == ("message", "7")
    assert list(small.cache._users) == ["cy"]


def test_searching_while_rows_come_and_go(database):
    store, vectors = Store(database), SqliteVectors(database)
    matrix = rows(60)
    scope = Scope(user_id="ana")
    fill(store, vectors, "ana", matrix[:1])

    def ask(_):
        for _ in range(60):
            found = vectors.nearest(Query(scope=scope, limit=100), matrix[0])
            assert found[0].id == "0"
            assert found[0].score == pytest.approx(1, abs=1e-2)
            assert len({m.id for m in found}) == len(found)

    def write():
        for i in range(1, 60):
            store.put([message(f"{i}", id=str(i))])
            batch = vectors.pending(5, leased=False)
            vectors.add([VectorRow(key=p.key, vectors=matrix[int(p.text)][None]) for p in batch])
            if i % 3 == 0:
                store.delete(Query(scope=scope, ids=(str(i),)))

    with ThreadPoolExecutor(4) as pool:
        writing = pool.submit(write)
        list(pool.map(ask, range(3)))
        writing.result()
    left = {str(i) for i in range(60) if i == 0 or i % 3}
    assert {m.id for m in vectors.nearest(Query(scope=scope, limit=100), matrix[0])} == left
