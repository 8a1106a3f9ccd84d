"""What every backend promises about taking out and bringing back; see `jiyi.storage.Trash`."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from refusing import refused
from samples import ANA, AWKWARD, BEN, START, by_words, episode, full, knowledge, message
from taken_out import KINDS, MAKE, S, discard, embed, find, ids, in_a_row, lying, neighbours, undone

from jiyi.errors import BadQuery, DuplicateId
from jiyi.records import SEARCHABLE, Fact, Knowledge, Query, Step
from jiyi.storage import VectorRow


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_taken_out_is_found_nowhere_and_comes_back_as_it_was(one_of_each, kind):
    store, vectors, trash, _ = one_of_each
    before, bens = find(store), find(store, scope=BEN)
    (record,) = find(store, kind, ids=(kind,))
    word, near = Query(scope=ANA, text="word", limit=100), np.ones(4, np.float32)
    assert discard(trash, (kind, kind)) == {kind: 1}
    assert find(store) == [r for r in before if r != record]
    counted = store.count(Query(scope=ANA, kinds=(*KINDS, "step"), ids=(*KINDS, *"abc")))
    steps = 0 if kind == "task" else 3
    assert counted == dict.fromkeys(KINDS, 1) | {kind: 0, "step": steps, "vectors_pending": 0}
    assert (kind, kind) not in store.match(word).keys
    assert (kind, kind) not in [(m.kind, m.id) for m in vectors.nearest(word, near)]
    if kind != "task":
        assert store.scan(Query(scope=ANA, kinds=(kind,), ids=(kind,))).records == ()
    (entry,) = lying(trash)
    assert (entry.record, entry.kind, entry.reason, entry.discarded_at) == (record, kind, "asked to", START)
    assert find(store, scope=BEN) == bens
    assert trash.restore(ANA, [(kind, kind)]) == [record]
    assert find(store) == before
    assert lying(trash) == []
    if kind != "task":
        assert store.count(Query(scope=ANA))["vectors_pending"] == 1
        assert (kind, kind) in store.match(word).keys
        assert embed(vectors) == 1
        assert (kind, kind) in [(m.kind, m.id) for m in vectors.nearest(word, near)]


def test_what_rests_on_what_follows(one_of_each):
    store, _, trash, _ = one_of_each
    resting = Query(scope=ANA, sources=("message", "episode"))
    assert {(type(r), r.id) for r in store.find(resting)} == {(Knowledge, "built"), (Fact, "built")}
    discard(trash, ("knowledge", "built"), ("fact", "built"))
    assert store.find(resting) == []
    trash.restore(ANA, [("fact", "built")])
    assert ids(store.find(resting)) == ["built"]


@pytest.mark.parametrize("text", AWKWARD.values(), ids=AWKWARD.keys())
def test_every_kind_lies_and_comes_back_as_it_was(store, trash, text):
    stored = store.put([r for r in full(text) if not isinstance(r, Step)])
    store.put([replace(r, task_id=stored[4].id) for r in full(text) if isinstance(r, Step)])
    before = find(store)
    keys = [(type(r).__name__.lower(), r.id) for r in before]
    assert sum(discard(trash, *keys, reason=text).values()) == len(before) == 9
    assert find(store, *KINDS, "session", "step") == []
    lain = {(e.kind, e.record.id): e.record for e in lying(trash)}
    storable = text.replace("\ud83d", "?").replace("\udc00", "?").replace("\0", "\ufffd")
    assert {e.reason for e in lying(trash)} == {storable}
    assert [lain[key] for key in keys] == before
    assert {r.id for r in trash.restore(ANA, keys)} == {r.id for r in before}
    assert find(store) == before


def test_a_message_returns_to_its_place_for_everybody(backend):
    store, _, trash, _ = backend.open_all()
    said = store.put([message(f"word {i}", id=f"{i}") for i in range(6)])
    other = backend.open_all().store
    for reader in (store, other):
        assert neighbours(reader, "word") == in_a_row(*"012345")
    discard(trash, ("message", "2"), ("message", "3"))
    for reader in (store, other):
        assert neighbours(reader, "word") == in_a_row(*"0145")
    (session,) = find(store, "session")
    assert session.messages == 4
    assert trash.restore(ANA, [("message", "3"), ("message", "2")]) == said[2:4]
    for reader in (store, other, backend.open_all().store):
        assert find(reader, "message", scope=S) == find(reader, "message") == said
        assert neighbours(reader, "word") == in_a_row(*"012345")
    assert store.put([message("next")])[0].seq == 6
    assert find(store, "session")[0].messages == 7


def test_a_session_that_was_emptied_comes_back(store, trash):
    said = store.put([message(f"word {i}", id=f"{i}", at=i) for i in range(3)])
    (session,) = find(store, "session")
    discard(trash, *[("message", m.id) for m in said])
    assert find(store, "session") == []
    assert trash.restore(ANA, [("message", "1")]) == [said[1]]
    assert find(store, "message", scope=S) == [said[1]]
    trash.restore(ANA, [("message", "0"), ("message", "2")])
    assert find(store, "message", scope=S) == said
    assert find(store, "session") == [session]


@pytest.mark.parametrize("order", ["01234", "43210", "20413"])
def test_what_was_said_meanwhile_keeps_its_place_and_the_rest_its_order(store, trash, order):
    said = store.put([message(f"word {i}", id=f"{i}") for i in range(5)])
    discard(trash, *[("message", m.id) for m in said])
    store.put([message("word", id="new"), message("word", id="newer")])
    trash.restore(ANA, [("message", i) for i in order])
    found = find(store, "message", scope=S)
    assert [m.seq for m in found] == sorted({m.seq for m in found})
    assert ids(found)[:2] == ["new", "newer"]
    assert ids(found)[2:] == [*"01234"]
    assert neighbours(store, "word") == in_a_row("new", "newer", *"01234")


def test_a_single_place_that_is_free_is_taken_again_among_newer_messages(store, trash):
    said = store.put([message(f"word {i}", id=f"{i}") for i in range(5)])
    discard(trash, *[("message", m.id) for m in said])
    store.put([message("word", id="new")])
    assert [m.seq for m in trash.restore(ANA, [("message", "3")])] == [3]
    assert [m.seq for m in trash.restore(ANA, [("message", "0"), ("message", "1")])] == [4, 1]
    assert ids(find(store, "message", scope=S)) == ["new", "1", "3", "0"]
    assert neighbours(store, "word") == in_a_row("new", "1", "3", "0")


@pytest.mark.parametrize("kind", KINDS)
def test_an_id_given_anew_is_never_overwritten(store, trash, kind):
    _, other = store.put([MAKE[kind]("old", id="r"), MAKE[kind]("other", id="o")])
    discard(trash, (kind, "r"), (kind, "o"))
    (new,) = store.put([MAKE[kind]("new", id="r")])
    refused(DuplicateId, f"{kind} id 'r'", trash.restore, ANA, [(kind, "o"), (kind, "r")])
    assert find(store) == [new]
    assert {e.record.id for e in lying(trash)} == {"r", "o"}, "all or none"
    discard(trash, (kind, "r"), at=START + timedelta(days=1))
    assert [e.record for e in lying(trash)] == [new, other], "the newer one takes the place of the older"
    assert ids(trash.restore(ANA, [(kind, "o")])) == ["o"]


def test_the_same_message_saved_again_is_the_restored_one(store, trash):
    store.put([message("word", id="r"), message("more", id="o")])
    discard(trash, ("message", "r"))
    (again,) = store.put([message("word", id="r")])
    assert trash.restore(ANA, [("message", "r")]) == [again]
    assert ids(find(store, "message", scope=S)) == ["o", "r"]
    assert lying(trash) == []


def test_restoring_twice_and_what_was_never_there(store, trash):
    store.put([message(id="m"), episode(id="e")])
    keys = [("message", "m"), ("message", "m"), ("episode", "e")]
    odd = [(kind, bad) for kind in KINDS for bad in ("x", "", "nul\0", "half \ud800")]
    assert discard(trash, *odd) == {}
    assert discard(trash) == {}
    assert discard(trash, *keys, *odd) == {"message": 1, "episode": 1}
    assert discard(trash, *keys) == {}
    assert trash.restore(ANA, odd) == []
    assert {r.id for r in trash.restore(ANA, [*keys, *odd])} == {"m", "e"}
    assert trash.restore(ANA, keys) == []
    assert trash.erase(ANA, keys=odd) == 0


@pytest.mark.parametrize("kind", ["step", "session", "dream"])
def test_other_kinds_are_refused_before_anything_goes(store, trash, kind):
    store.put([message(id="m")])
    refused(BadQuery, f"{kind} cannot be taken out", discard, trash, ("message", "m"), (kind, "m"))
    assert ids(find(store)) == ["m"]
    assert lying(trash) == []
    assert trash.restore(ANA, [(kind, "m")]) == []


def test_what_is_undone_was_never_taken_out_or_brought_back(one_of_each):
    store, vectors, trash, _ = one_of_each
    before, word = find(store), Query(scope=ANA, text="word")
    keys = [(kind, kind) for kind in KINDS]
    with undone(store):
        discard(trash, *keys)
        assert len(lying(trash)) == len(KINDS)
        assert len(find(store)) == 2
        assert {*by_words(store, word)} == {"built"}
        trash.restore(ANA, keys[:1])
        trash.erase(ANA)
    assert find(store) == before
    assert lying(trash) == []
    assert {*by_words(store, word)} == {*SEARCHABLE, "built"}
    assert len(vectors.nearest(word, np.ones(4, np.float32))) == len(SEARCHABLE) + 2
    with store.transaction():
        discard(trash, *keys[:1])
        refused(BadQuery, "step cannot be taken out", discard, trash, *keys[1:], ("step", "x"))
    assert [e.record.id for e in lying(trash)] == ["message"]
    with undone(store):
        trash.restore(ANA, keys)
    assert [e.record.id for e in lying(trash)] == ["message"]
    assert len(find(store)) == len(before) - 1


@pytest.mark.slow
def test_a_hundred_thousand_keys(store, trash):
    store.put([message(f"word {i}", id=f"{i}") for i in range(2_500)])
    keys = [("message", f"{i}") for i in range(100_000)]
    assert discard(trash, *keys) == {"message": 2_500}
    assert find(store, *KINDS, "session") == []
    back = trash.restore(ANA, keys[::-1])
    assert [m.seq for m in sorted(back, key=lambda m: int(m.id))] == list(range(2_500))
    assert neighbours(store, "word 1200")["1200"] == ("1199", "1201")
    discard(trash, *keys)
    assert trash.erase(ANA, keys=keys, limit=2_000) == 2_000
    assert trash.erase(ANA, keys=keys) == 500


def test_a_late_vector_lands_on_no_other_record(every):
    store, vectors, trash, _ = every
    store.put([knowledge("old", id="k"), knowledge("kept", id="r")])
    late = [VectorRow(key=p.key, vectors=np.ones((1, 4), np.float32)) for p in vectors.pending(10)]
    discard(trash, ("knowledge", "k"), ("knowledge", "r"))
    assert vectors.add(late) == 0
    store.put([knowledge("new", id="k")])
    trash.restore(ANA, [("knowledge", "r")])
    assert vectors.add(late) <= 1
    assert "k" not in ids(vectors.nearest(Query(scope=ANA), np.ones(4, np.float32)))
    assert store.count(Query(scope=ANA, ids=("k",)))["vectors_pending"] == 1
