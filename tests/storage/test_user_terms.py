"""A user's rows in memory: views stand still, segments stay few, and equal hashes are told apart."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jiyi.storage.search import postings, user_terms
from jiyi.storage.search.postings import pack, unpack
from jiyi.storage.search.user_terms import UserTerms

TERMS = [f"t{i}" for i in range(40)]


def row(doc, terms, session="s", kind="message", seq=None):
    said = kind == "message"
    role, place = ("user", doc if seq is None else seq) if said else (None, None)
    head = (doc, kind, f"id{doc}", role, session, None, place, doc * 1000)
    return (*head, len(terms), 0, role, pack(terms))


def random_rows(seed, count):
    rng = np.random.default_rng(seed)
    rows = []
    for doc in range(1, count + 1):
        terms, session = list(rng.choice(TERMS, rng.integers(0, 9))), f"s{rng.integers(3)}"
        rows.append(row(2 * doc, terms, session, str(rng.choice(["message", "message", "episode"]))))
    return rows


def filled(rows, pieces):
    mine, start = UserTerms(), 0
    for piece in [*pieces, len(rows)]:
        mine.append(rows[start : start + piece])
        start += piece
    return mine


def state(mine):
    """Everything a search can see, as plain values."""
    n = mine.size
    every = np.arange(n)
    words = mine.score(TERMS)
    return {
        "columns": {name: column[:n].tolist() for name, column in mine.columns.items()},
        "keys": mine.keys(every),
        "beside": [mine.neighbours(every, link).tolist() for link in ("previous", "following")],
        "rows": mine.rows_of([("message", f"id{i}") for i in range(2 * n + 3)]).tolist(),
        "text": words.text.tolist(),
        "words": words.by_term(every).tolist(),
        "idf": words.idf.tolist(),
    }


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), pieces=st.lists(st.integers(0, 9), max_size=20))
def test_pieces_and_the_whole_at_once_are_the_same(seed, pieces):
    rows = random_rows(seed, 60)
    whole, grown = filled(rows, []).view(), filled(rows, pieces).view()
    a, b = state(whole), state(grown)
    np.testing.assert_allclose(a.pop("text"), b.pop("text"), rtol=1e-6)
    assert a == b


def test_a_view_stands_still_while_rows_are_added():
    rows = random_rows(7, 200)
    mine = UserTerms()
    mine.append(rows[:50])
    view = mine.view()
    before = state(view)
    for one in rows[50:]:
        mine.append([one])
    assert state(view) == before
    assert mine.view().size == 200


@settings(max_examples=60)
@given(
    seqs=st.permutations(range(24)),
    pieces=st.lists(st.integers(0, 9), max_size=8),
    sessions=st.lists(st.sampled_from("abc"), min_size=24, max_size=24),
)
def test_neighbours_go_by_place_in_whatever_order_rows_come(seqs, pieces, sessions):
    """A message that was taken out and brought back comes after those said after it."""
    places = enumerate(zip(seqs, sessions, strict=True), 1)
    rows = [row(doc, [TERMS[seq]], session, seq=seq) for doc, (seq, session) in places]
    mine, start, views = UserTerms(), 0, []
    for piece in [*pieces, len(rows)]:
        mine.append(rows[start : start + piece])
        start += piece
        view = mine.view()
        views.append((view, links(view)))
    for view, before in views:
        assert links(view) == before, "a view stands still"
        known = list(enumerate(zip(seqs, sessions, strict=True)))[: view.size]
        for session in "abc":
            order = [at for _, at in sorted((seq, at) for at, (seq, s) in known if s == session)]
            for at, previous, following in zip(order, [-1, *order], [*order[1:], -1], strict=False):
                assert before[at] == (previous, following)


def links(view):
    """The neighbours of each row."""
    every = np.arange(view.size)
    links = (view.neighbours(every, link).tolist() for link in ("previous", "following"))
    return list(zip(*links, strict=True))


def test_rows_added_one_by_one_leave_few_segments():
    rows = random_rows(3, 700)
    mine = UserTerms()
    for one in rows:
        mine.append([one])
        sizes = [part.count for part in mine.segments]
        assert sum(sizes) == mine.size
        assert all(first >= 2 * second for first, second in pairwise(sizes))
    assert len(mine.segments) <= 10
    (whole,) = filled(rows, []).segments
    total = sum(len(unpack(entry)) for *_, entry in rows)
    assert len(whole.rows) == sum(len(part.rows) for part in mine.segments) == total


def test_segments_never_outgrow_what_a_key_can_number(monkeypatch):
    monkeypatch.setattr(postings, "MAX_SEGMENT_ROWS", 16)
    rows = random_rows(5, 100)
    mine = UserTerms()
    for start in range(0, 100, 4):
        mine.append(rows[start : start + 4])
    assert max(part.count for part in mine.segments) <= 16
    monkeypatch.undo()
    np.testing.assert_allclose(mine.score(TERMS).text, filled(rows, []).score(TERMS).text, rtol=1e-6)


def test_ids_of_one_hash_are_told_apart(monkeypatch):
    monkeypatch.setattr(user_terms, "id_keys", lambda names: np.full(len(list(names)), 5 << 24, np.uint64))
    mine = filled(random_rows(1, 30), [3, 3])
    keys = mine.keys(np.arange(30))
    assert mine.rows_of(keys).tolist() == list(range(30))
    assert mine.rows_of([("message", "nobody"), keys[4]]).tolist() == [-1, 4]


def test_rows_without_terms_count_as_rows():
    mine = filled([row(1, ["t1"]), row(2, []), row(3, [])], [])
    assert mine.score(["t1"]).idf == pytest.approx(np.log(1 + 2.5 / 1.5))
    assert filled([row(1, [])], []).score(["t1"]).text.tolist() == [0]
    assert UserTerms().score(["t1"]).text.tolist() == []


def test_document_numbers_are_found_again():
    mine = filled(random_rows(2, 20), [5])
    docs = np.array([2, 3, 40, 41, 0, 10**12])
    assert mine.rows_of_docs(docs).tolist() == [0, -1, 19, -1, -1, -1]
    assert UserTerms().rows_of_docs(docs).tolist() == [-1] * 6


def test_bytes_grow_with_rows():
    small, large = filled(random_rows(1, 10), []), filled(random_rows(1, 1000), [])
    assert 0 < small.nbytes < large.nbytes / 10
