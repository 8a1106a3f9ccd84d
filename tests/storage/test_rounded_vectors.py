"""Vectors of a user with very many: rounded in memory, compared exactly from disk."""

import numpy as np
import pytest
from taken_out import cone

from jiyi.storage.search import user_vectors
from jiyi.storage.search.user_vectors import UserVectors

DIMS = 96
COUNT = 3_000


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch):
    monkeypatch.setattr(user_vectors, "MAX_EXACT", 500)
    monkeypatch.setattr(user_vectors, "_RESCORED", 30)


@pytest.fixture(scope="module")
def matrix():
    return cone(COUNT, DIMS)


def filled(matrix, piece):
    mine = UserVectors()
    for start in range(0, len(matrix), piece):
        rows = matrix[start : start + piece]
        parts = np.arange(start, start + len(rows)) + 1
        mine.append(parts, parts * 10, rows)
    return mine.view()


def ask(mine, matrix, vector, groups=None):
    groups = np.zeros(mine.size, np.int8) if groups is None else groups
    return mine.nearest(vector, 10, groups=groups, fetch=lambda parts: matrix[parts - 1])


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


def test_only_allowed_records_are_found(matrix):
    mine = filled(matrix, 400)
    groups = np.full(COUNT, -1, np.int8)
    assert not len(ask(mine, matrix, matrix[5], groups)[0])
    groups[[5, 98]] = 1
    docs, _ = ask(mine, matrix, matrix[5], groups)
    assert list(docs) == [60, 990]


@pytest.mark.parametrize("count", [COUNT, 400])
def test_each_group_gives_its_nearest(matrix, count):
    """Rounded or not."""
    mine = filled(matrix[:count], 100)
    groups = (np.arange(count) % 4 - 1).astype(np.int8)
    docs, scores = ask(mine, matrix, matrix[5], groups)
    assert np.bincount(groups[docs // 10 - 1]).tolist() == [10, 10, 10]
    assert list(scores) == sorted(scores, reverse=True)
    for group in range(3):
        exact = np.where(groups == group, matrix[:count] @ matrix[5], -1)
        assert scores[groups[docs // 10 - 1] == group].max() == pytest.approx(exact.max(), abs=1e-5)


def test_vectors_read_back_are_as_near_as_they_are_held(matrix):
    rounded, exact = filled(matrix, 400), filled(matrix[:400], 100)
    places = np.array([3, 399, 3])
    np.testing.assert_array_equal(exact.take(places), matrix[places])
    again = rounded.take(places)
    assert np.linalg.norm(again, axis=1) == pytest.approx(np.ones(3), abs=1e-5)
    assert np.einsum("ij,ij->i", again, matrix[places]).min() > 0.999


def test_equal_vectors_do_not_break_the_rounding():
    same = np.full((600, DIMS), DIMS**-0.5, np.float32)
    docs, scores = ask(filled(same, 600), same, same[0])
    assert len(docs) == 10
    assert scores == pytest.approx(np.ones(10), abs=1e-5)
