"""What every vector index promises while a second set of vectors is made; see `jiyi.storage.VectorIndex`."""

import numpy as np
import pytest
from refusing import raises, refused
from samples import ANA, START, episode, knowledge, message
from taken_out import pending

from jiyi.errors import EmbedderMismatch, WrongState
from jiyi.records import Query, Scope
from jiyi.storage import Spaces, VectorRow

OLD, NEW = 16, 4


def axis(number, dims):
    return np.eye(dims, dtype=np.float32)[[number % dims]]


def fill(vectors, by_text, name=None, **options):
    batch = vectors.pending(100, leased=False, name=name)
    rows = [VectorRow(key=p.key, vectors=by_text[p.text]) for p in batch if p.text in by_text]
    return vectors.add(rows, name=name)


def fill_all(vectors, by_text, name):
    """Walk through what the second set lacks until nothing of it can be added."""
    added = True
    while added:
        added = False
        while batch := vectors.pending(2, name=name):
            rows = [VectorRow(key=p.key, vectors=by_text[p.text]) for p in batch]
            added = vectors.add(rows, name=name) > 0 or added


def nearest(vectors, vector, user="ana"):
    return [m.id for m in vectors.nearest(Query(scope=Scope(user_id=user), limit=10), vector[0])]


def texts(vectors, name, limit=100):
    """One walk through what the second set lacks."""
    found = []
    while batch := vectors.pending(limit, name=name):
        found += [p.text for p in batch]
    return sorted(found)


@pytest.fixture
def old(store, vectors):
    """Three records of ana and one of ben, with vectors of the old embedder; one of ana without any text."""
    store.put([message("a", id="a"), message("b", id="b", at=1), message("", id="none", at=2)])
    store.put([episode("c", id="c"), message("a", id="a", user="ben")])
    vectors.claim("old", OLD)
    fill(vectors, {text: axis(place, OLD) for place, text in enumerate("abc")})
    return vectors


def test_claim_says_whose_the_data_is(store, vectors):
    assert vectors.claim() == vectors.claim("old") == Spaces()
    assert vectors.claim("old", OLD) == vectors.claim() == Spaces(name="old", dims=OLD)
    assert vectors.renew("new", NEW) == 0
    second = {"next_name": "new", "next_dims": NEW, "next_number": 1}
    assert vectors.claim("old") == Spaces(name="old", dims=OLD, **second)
    refused(EmbedderMismatch, "jiyi reembed", vectors.claim, "new")
    assert vectors.switch("new") == 0
    assert vectors.claim() == Spaces(name="new", dims=NEW, number=1), "an empty memory switches at once"
    store.put([message("a", id="a")])
    assert fill(vectors, {"a": axis(0, NEW)}, None) == 1


def test_the_old_set_is_searched_until_the_switch(backend, store, old):
    other = backend.open()[1]
    assert old.renew("new", NEW) == 4
    assert texts(old, "new") == ["a", "a", "b", "c"]
    assert fill(old, {"a": axis(1, NEW)}, "new") == 1  # each answer is of one user
    for vectors in (old, other):
        assert nearest(vectors, axis(0, OLD))[0] == "a"
        assert len(vectors.read(ANA, [("message", "a"), ("episode", "c")]).rows) == 2
    fill_all(old, {text: axis(place + 1, NEW) for place, text in enumerate("abc")}, "new")
    assert pending(store) == 0
    assert nearest(old, axis(0, OLD))[0] == "a"
    assert old.switch("new") == 0
    for vectors in (old, other):
        assert nearest(vectors, axis(1, NEW))[0] == "a"
        assert nearest(vectors, axis(3, NEW))[0] == "c"
        assert nearest(vectors, axis(1, NEW), "ben") == ["a"]
        assert vectors.read(ANA, [("message", "b")]).vectors.tolist() == axis(2, NEW).tolist()
        refused(EmbedderMismatch, "the question's has 16", vectors.nearest, Query(scope=ANA), axis(0, OLD)[0])
    refused(EmbedderMismatch, "vectors of new", other.claim, "old")
    assert pending(store) == 0


def test_a_walk_goes_on_behind_the_last_answer(store, old):
    store.put([message(f"more {i}", id=f"more{i}", at=i + 10) for i in range(5)])
    assert old.renew("new", NEW) == 9
    first = old.pending(2, name="new")
    second = old.pending(2, name="new")
    assert len(first) == len(second) == 2
    assert {p.key for p in first}.isdisjoint(p.key for p in second)
    assert len(texts(old, "new", 2)) == 5
    assert len(texts(old, "new", 3)) == 9  # from the beginning again
    assert old.pending(3, name="unknown") == []
    assert len(old.pending(2, leased=True)) == 2  # the first set's own wait as before


def test_what_is_saved_meanwhile_is_found_at_once_and_goes_along(store, old):
    old.renew("new", NEW)
    store.put([message("d", id="d", at=5)])
    assert fill(old, {"d": axis(5, OLD)}) == 1
    assert nearest(old, axis(5, OLD))[0] == "d"
    assert "d" in texts(old, "new")
    new = {text: axis(place, NEW) for place, text in enumerate("abcd")}
    fill_all(old, new, "new")
    store.put([message("e", id="e", at=6)])  # too late for the second set
    fill(old, {"e": axis(6, OLD)})
    store.put([message("f", id="f", at=7)])  # and without any vectors yet
    assert pending(store) == 1
    assert old.switch("new") == 2
    assert pending(store) == 2
    assert sorted(p.text for p in old.pending(10, leased=False)) == ["e", "f"]
    assert set(nearest(old, axis(3, NEW))) == {"a", "b", "c", "d"}
    assert fill(old, {"e": axis(2, NEW), "f": axis(2, NEW)}) == 2
    assert pending(store) == 0


def test_a_record_that_waits_may_get_the_second_sets_vectors_first(store, old):
    store.put([message("d", id="d", at=5)])
    old.renew("new", NEW)
    fill_all(old, {text: axis(place, NEW) for place, text in enumerate("abcd")}, "new")
    assert pending(store) == 1
    assert "d" not in nearest(old, axis(0, OLD))
    assert old.switch("new") == 0
    assert nearest(old, axis(3, NEW))[0] == "d"


def test_vectors_of_an_embedder_that_is_out_are_refused(backend, store, old):
    late = backend.open()[1]
    store.put([message("d", id="d", at=5)])
    (waiting,) = late.pending(10)
    old.renew("new", NEW)
    old.switch("new")
    with pytest.raises(EmbedderMismatch, match="jiyi reembed"):
        late.add([VectorRow(key=waiting.key, vectors=axis(0, OLD))], name="old")
    assert late.add([VectorRow(key=waiting.key, vectors=axis(0, NEW))], name="new") == 1


def test_the_same_embedder_again(store, old):
    assert old.renew("old", OLD) == 4
    store.put([message("d", id="d", at=5)])
    (waiting,) = old.pending(10)
    assert old.add([VectorRow(key=waiting.key, vectors=axis(9, OLD))], name="old") == 1  # into both sets
    assert texts(old, "old") == ["a", "a", "b", "c"]
    fill_all(old, {text: axis(place + 5, OLD) for place, text in enumerate("abc")}, "old")
    assert old.claim("old", OLD).next_name == "old"
    assert nearest(old, axis(0, OLD))[0] == "a"
    assert old.switch("old") == 0
    assert old.claim("old", OLD).next_name is None
    assert nearest(old, axis(5, OLD))[0] == "a"
    assert nearest(old, axis(9, OLD))[0] == "d"


def test_a_second_set_goes_on_where_it_was_left(backend, old):
    old.renew("new", NEW)
    fill(old, {"a": axis(0, NEW), "b": axis(1, NEW)}, "new")
    again = backend.open()[1]
    assert again.renew("new", NEW) == 2
    assert texts(again, "new") == ["a", "c"]


def test_another_second_set_takes_the_place_of_one_that_is_not_wanted(old):
    old.renew("new", NEW)
    fill(old, {"a": axis(0, NEW), "b": axis(1, NEW)}, "new")
    assert old.renew("newer", 8) == 4
    assert old.claim().next_name == "newer"
    assert old.pending(10, name="new") == []
    raises(EmbedderMismatch, old.add, [VectorRow(key=("ana", 1), vectors=axis(0, NEW))], name="new")
    assert old.renew("newer", 9) == 4  # the same name with other sizes
    refused(WrongState, "jiyi reembed", old.switch, "new")
    fill_all(old, {text: axis(place, 9) for place, text in enumerate("abc")}, "newer")
    assert old.switch("newer") == 0
    assert nearest(old, axis(2, 9))[0] == "c"


def test_what_goes_takes_both_of_its_vectors_along(store, trash, old):
    old.renew("new", NEW)
    fill_all(old, {text: axis(place, NEW) for place, text in enumerate("abc")}, "new")
    store.delete(Query(scope=ANA, ids=("b",)))
    trash.discard(ANA, [("message", "a")], reason="r", at=START)
    trash.restore(ANA, [("message", "a")])
    store.put([episode("other words", id="c")])
    assert texts(old, "new") == ["a", "other words"]
    assert old.switch("new") == 2
    assert nearest(old, axis(0, NEW)) == []


def test_a_switch_that_was_done_can_be_asked_for_again(store, old):
    old.renew("new", NEW)
    assert old.switch("new") == 4
    assert old.switch("new") == 4
    assert fill(old, {text: axis(place, NEW) for place, text in enumerate("abc")}) == 4
    assert old.switch("new") == 0
    assert nearest(old, axis(0, NEW))[0] == "a"


def test_exact_vectors_come_in_the_order_of_their_parts(store, vectors):
    store.put([message("a", id="a"), knowledge("k", id="k", topic=""), message("b", id="b", at=1)])
    made = np.random.default_rng(1).normal(size=(3, OLD)).astype(np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    by_text = {p.text: p.key for p in vectors.pending(10, leased=False)}
    vectors.add([VectorRow(key=by_text.pop("a"), vectors=made)])
    vectors.add([VectorRow(key=key, vectors=axis(1, OLD)) for text, key in by_text.items() if text != "b"])
    asked = [("message", "unknown"), ("knowledge", "k"), ("message", "b"), ("message", "a")]
    parts = vectors.read(ANA, asked, exact=True)
    assert sorted(parts.rows.tolist()) == [1, 3, 3, 3]
    assert (parts.vectors[parts.rows == 3] == made.astype(np.float16).astype(np.float32)).all()
    assert vectors.read(ANA, asked[:1], exact=True).rows.tolist() == []
    assert vectors.read(Scope(user_id="ben"), asked, exact=True).rows.tolist() == []


def test_a_scan_gives_the_keys_that_vectors_go_by(store, vectors):
    store.put([message("a", id="a"), message("b", id="b", at=1), message("c", id="c", user="ben")])
    page = store.scan(Query(scope=ANA, kinds=("message",), limit=5))
    keys = {r.search_text: ("ana", number) for r, number in zip(page.records, page.numbers, strict=True)}
    assert keys == {p.text: p.key for p in vectors.pending(10, leased=False) if p.key[0] == "ana"}
