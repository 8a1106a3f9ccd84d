"""Vectors that a process met before."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jiyi.storage.search import user_vectors
from jiyi.storage.search.user_vectors import CachedVectors


def rows(number, count=1):
    return np.full((count, 4), number, np.float32)


@given(st.lists(st.dictionaries(st.integers(0, 40), st.integers(1, 3), max_size=6), max_size=8))
def test_what_was_added_is_given_back(batches):
    known, wanted = CachedVectors(), {}
    for batch in batches:
        new = {number: count for number, count in batch.items() if number not in known.of_docs}
        known.add({number: rows(number, count) for number, count in new.items()})
        wanted |= new
    parts = known.parts(range(45))
    assert parts.rows.tolist() == [n for n in range(45) for _ in range(wanted.get(n, 0))]
    assert parts.vectors.dtype == np.float32
    assert parts.vectors[:, 0].tolist() == parts.rows.tolist() if wanted else len(parts.vectors) == 0
    assert (known.size, set(known.of_docs)) == (sum(wanted.values()), set(wanted))


def test_a_view_stays_as_it_was():
    known = CachedVectors()
    known.add({1: rows(1), 2: rows(2, 2)})
    view = known.view()
    known.add({number: rows(number) for number in range(3, 200)})
    known.use_space(1)
    known.add({1: rows(9)})
    assert view.parts([2, 1]).vectors[:, 0].tolist() == [2, 2, 1]
    assert known.parts([2, 1]).vectors[:, 0].tolist() == [9]


def test_another_set_or_too_many_vectors_start_empty(monkeypatch):
    known = CachedVectors()
    known.add({number: rows(number) for number in range(10)})
    known.use_space(0)
    assert known.size == 10
    monkeypatch.setattr(user_vectors, "_MAX_CACHED", 9)
    known.use_space(0)
    assert (known.size, known.nbytes, known.of_docs) == (0, 0, {})
    known.add({1: rows(1)})
    known.use_space(2)
    assert (known.space, known.size) == (2, 0)


@pytest.mark.parametrize("asked", [[], [-1], [1, -1, 1]])
def test_nothing_is_known_of_the_unknown(asked):
    parts = CachedVectors().parts(asked)
    assert (parts.rows.tolist(), len(parts.vectors)) == ([], 0)
