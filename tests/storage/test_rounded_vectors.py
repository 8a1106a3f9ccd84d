"""Vectors of a user with very many: rounded in memory, compared exactly from disk."""

import numpy as np
import pytest

from jiyi.storage import user_vectors
from jiyi.storage.user_vectors import UserVectors

DIMS = 96
COUNT = 3_000


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch):
    monkeypatch.setattr(user_vectors, "EXACT_MOST", 500)
    monkeypatch.setattr(user_vectors, "_RESCORED", 30)


@pytest.fixture(scope="module")
def matrix():
    """Vectors as embedding models give them: all in one narrow cone, in loose groups."""
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(60, DIMS))
    rows = 2 + centres[rng.integers(60, size=COUNT)] + rng.normal(size=(COUNT, DIMS))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)
    return rows.astype(np.float32)


def filled(matrix, piece):
    mine = UserVectors()
    for start in range(0, len(matrix), piece):
        rows = matrix[start : start + piece]
        parts = np.arange(start, start + len(rows)) + 1
        mine.append(parts, parts * 10, (parts % 3).astype(np.uint8), rows)
    return mine.view()


def ask(mine, matrix, vector, **narrow):
    options = {"labels": None, "allowed": None} | narrow
    return mine.nearest(vector, 10, fetch=lambda parts: matrix[parts - 1], **options)


@pytest.mark.parametrize("piece", [COUNT, 400, 77])
def test_the_nearest_are_found_with_their_exact_cosines(matrix, piece):
    mine = filled(matrix, piece)
    assert mine.rows.dtype == np.int8
    assert mine.nbytes < matrix.nbytes / 2
    rng = np.random.default_rng(1)
    found_of_ten = []
    for place in rng.integers(COUNT, size=40):
        vector = matrix[place] + rng.normal(size=DIMS).astype(np.float32) / 30
        vector /= np.linalg.norm(vector)
        docs, scores = ask(mine, matrix, vector)
        exact = matrix @ vector
        found_of_ten.append(len({*docs // 10 - 1} & {*np.argsort(-exact)[:10]}))
        assert scores == pytest.approx(exact[docs // 10 - 1], abs=1e-5)
        assert list(scores) == sorted(scores, reverse=True)
    assert np.mean(found_of_ten) > 9.8


def test_labels_and_allowed_narrow(matrix):
    mine = filled(matrix, 400)
    docs, _ = ask(mine, matrix, matrix[5], labels=[2])
    assert {*(docs // 10 % 3)} == {2}
    docs, _ = ask(mine, matrix, matrix[5], allowed=np.asarray([60, 990]))
    assert list(docs) == [60, 990]
    docs, _ = ask(mine, matrix, matrix[5], labels=[1], allowed=np.asarray([60]))
    assert not len(docs)


def test_equal_vectors_do_not_break_the_rounding():
    same = np.full((600, DIMS), DIMS**-0.5, np.float32)
    mine = filled(same, 600)
    docs, scores = ask(mine, same, same[0])
    assert len(docs) == 10
    assert scores == pytest.approx(np.ones(10), abs=1e-5)
