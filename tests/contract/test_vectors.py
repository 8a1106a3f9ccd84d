"""What every vector index promises; see `jiyi.storage.VectorIndex`."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opening import run_elsewhere
from refusing import refused
from samples import ANA, BEN, by_words, episode, knowledge, message
from tables import read_tables
from taken_out import ids, in_a_row, neighbours, pending, undone

from jiyi.errors import EmbedderMismatch
from jiyi.records import Query, Scope
from jiyi.storage import VectorRow

DIMS = 16


def unit(rows):
    matrix = np.asarray(rows, np.float32)
    return (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)


def random_rows(seed, count):
    return unit(np.random.default_rng(seed).normal(size=(count, DIMS)))


def one(number):
    return unit(np.eye(DIMS)[[number]])


def fill(vectors, by_text):
    """Give every pending record the vectors that ``by_text`` names."""
    batch = vectors.pending(10_000, leased=False)
    return vectors.add([VectorRow(key=item.key, vectors=by_text[item.text]) for item in batch])


def nearest(vectors, vector, scope=ANA, limit=10, **parts):
    return vectors.nearest(Query(scope=scope, limit=limit, **parts), vector)


def test_the_first_claim_with_a_size_binds(backend):
    _, vectors = backend.open()
    vectors.claim("model-a")
    vectors.claim("model-b")  # nothing was bound yet
    vectors.claim("model-a", 384)
    for other in (vectors, backend.open()[1]):
        other.claim("model-a")
        other.claim("model-a", 384)
        for name, dims in (("model-b", None), ("model-b", 384), ("model-a", 512)):
            refused(EmbedderMismatch, r"model-a \(384 .* reembed --db", other.claim, name, dims)


def test_pending_gives_what_search_reads_oldest_first(store, vectors):
    texts = [f"text {i}" for i in range(5)]
    store.put([message(t, at=-i) for i, t in enumerate(texts)])
    store.put([message(""), message(" \n"), episode("past", tags=("tag",)), knowledge("lesson", topic="t")])
    assert [p.text for p in vectors.pending(3)] == texts[:3]
    assert [p.text for p in vectors.pending(100)] == [*texts[3:], "past\ntag", "t\nlesson"]
    assert pending(store) == 7


def test_what_is_set_apart_waits_until_it_is_taken_up(backend):
    (store, vectors), (_, others) = backend.open(), backend.open()
    stored = store.put([message("a"), message("b"), message("c"), message("d", user="ben")])
    found = {item.text: item.key for item in vectors.pending(10)}
    assert (dict(vectors.count_set_aside()), vectors.requeue_set_aside()) == ({}, 0)
    for text, why in (("a", 413), ("b", 1), ("d", 413)):
        vectors.set_aside(found[text], why)
    backend.clock.now += 10_000
    assert [item.text for item in others.pending(10)] == ["c"]
    assert [item.text for item in others.pending(10, leased=False)] == ["c"]
    assert pending(store) == 3
    assert dict(others.count_set_aside()) == {413: 2, 1: 1}
    assert dict(others.count_set_aside("ana")) == {413: 1, 1: 1}
    store.delete(Query(scope=ANA, ids=(next(item.id for item in stored if item.content == "b"),)))
    assert dict(others.count_set_aside("ana")) == {413: 1}
    assert others.requeue_set_aside() == 2
    assert dict(vectors.count_set_aside()) == {}
    assert sorted(item.text for item in vectors.pending(10)) == ["a", "d"]
    fill(vectors, dict.fromkeys("acd", one(0)))
    vectors.set_aside(found["a"], 413)  # too late: it has its vectors
    assert dict(vectors.count_set_aside()) == {}


def test_a_lease_holds_for_two_minutes_and_ends_with_the_vector(backend):
    (store, mine), (_, yours) = backend.open(), backend.open()
    store.put([message("a"), message("b"), message("c")])
    assert [p.text for p in mine.pending(2)] == ["a", "b"]
    assert [p.text for p in yours.pending(10)] == ["c"]
    assert yours.pending(10) == []
    assert [p.text for p in yours.pending(10, leased=False)] == ["a", "b", "c"]
    backend.clock.now += 119
    assert mine.pending(10) == []
    backend.clock.now += 1
    assert [p.text for p in mine.pending(10)] == ["a", "b", "c"]
    backend.clock.now -= 900_000  # a clock that goes back must not hold anything for ever
    assert len(yours.pending(10, leased=False)) == 3
    fill(yours, dict.fromkeys("abc", one(0)))
    assert mine.pending(10, leased=False) == []
    assert pending(store) == 0


def test_when_others_take_all_that_was_listed_the_next_are_given(backend, monkeypatch):
    (store, mine), (_, yours) = backend.open(), backend.open()
    store.put([message("a"), message("b"), message("c")])
    lease = mine._lease

    def lease_too_late(*args):
        monkeypatch.undo()
        assert [p.text for p in yours.pending(2)] == ["a", "b"]
        return lease(*args)

    monkeypatch.setattr(mine, "_lease", lease_too_late)
    assert [p.text for p in mine.pending(2)] == ["c"]


def test_add_counts_what_it_completed_and_passes_over_the_rest(store, vectors):
    store.put([message("a", id="a"), message("b", id="b"), message("c", id="c")])
    rows = [VectorRow(key=p.key, vectors=one(0)) for p in vectors.pending(10)]
    store.delete(Query(scope=ANA, ids=("b",)))
    assert vectors.add(rows) == 2
    assert vectors.add(rows) == 0
    assert vectors.add([VectorRow(key=("ana", 10**9), vectors=one(0))]) == 0
    assert sorted(ids(nearest(vectors, one(0)[0]))) == ["a", "c"]
    store.put([message("b", id="b")])
    assert vectors.add(rows) == 0, "a late vector must not land on a new record"
    assert pending(store) == 1


def test_other_words_need_a_new_vector_and_other_fields_do_not(store, vectors):
    store.put([knowledge("old", id="k")])
    late = [VectorRow(key=p.key, vectors=one(0)) for p in vectors.pending(10)]
    lesson = knowledge("words", id="k")
    store.put([lesson])
    assert vectors.add(late) == 0, "nor one of old words on new ones"
    assert [p.text for p in vectors.pending(10)] == ["disks\nwords"]
    fill(vectors, {"disks\nwords": one(3)})
    store.put([replace(lesson, access_count=5, pinned=True)])
    assert vectors.pending(10) == []
    assert ids(nearest(vectors, one(3)[0], pinned=True)) == ["k"]
    store.put([replace(lesson, content="others")])
    assert nearest(vectors, one(3)[0]) == []
    assert [p.text for p in vectors.pending(10)] == ["disks\nothers"]


def test_a_record_counts_with_its_best_part_and_once(store, vectors):
    store.put([message("long", id="long"), message("short", id="short")])
    fill(vectors, {"long": np.concatenate([one(0), one(1), one(2)]), "short": unit([[0.8, 0.6] + [0] * 14])})
    found = nearest(vectors, one(1)[0])
    assert ids(found) == ["long", "short"]
    np.testing.assert_allclose([m.score for m in found], [1, 0.6], atol=2e-3)
    assert ids(nearest(vectors, one(1)[0], limit=1)) == ["long"]


FILTERS = [eval(asked) for asked in read_tables(__file__)["filters"]]


@pytest.fixture
def library(store, vectors):
    """400 records of all kinds with random vectors, and 50 of somebody else's."""
    makers = {"m": message, "e": episode, "k": knowledge}
    rows, records = random_rows(0, 450), []
    for i in range(450):
        letter, user = "mmmek"[i % 5], "ana" if i < 400 else "ben"
        scope = Scope(user_id=user, agent_id="ab"[i % 2], session_id=f"s{i % 3}")
        record = makers[letter](f"text {i}", at=i, id=f"{letter}{i}", pinned=i % 7 == 0)
        if letter == "m":
            record = replace(record, role=("user", "assistant", "tool")[i % 3])
        records.append(replace(record, scope=scope))
    store.put(records)
    fill(vectors, {r.search_text: rows[i : i + 1] for i, r in enumerate(records)})
    return records, rows


def expected(library, query, vector):
    records, rows = library
    scores = {}
    for record, row in zip(records, rows, strict=True):
        kind = type(record).__name__.lower()
        asked, scope = query.scope, record.scope
        if (
            kind in query.kinds
            and scope.user_id == asked.user_id
            and asked.agent_id in (None, scope.agent_id)
            and asked.session_id in (None, scope.session_id)
            and (query.roles is None or getattr(record, "role", None) in query.roles)
            and (query.since is None or record.created_at >= query.since)
            and (query.until is None or record.created_at < query.until)
            and (query.pinned is None or record.pinned == query.pinned)
            and (query.ids is None or record.id in query.ids)
        ):
            scores[kind, record.id] = float(row.astype(np.float16).astype(np.float32) @ vector)
    best, left = [], dict.fromkeys(query.kinds, query.limit)
    for key, score in sorted(scores.items(), key=lambda item: -item[1]):
        left[key[0]] -= 1
        if left[key[0]] >= 0:
            best.append((key, score))
    return best


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(seed=st.integers(1, 10**6), limit=st.integers(1, 60), parts=st.sampled_from(FILTERS))
def test_nearest_is_exact_under_every_filter(vectors, library, seed, limit, parts):
    vector = random_rows(seed, 1)[0]
    query = Query(**({"scope": ANA, "limit": limit} | parts))
    found, wanted = vectors.nearest(query, vector), expected(library, query, vector)
    assert [(m.kind, m.id) for m in found] == [key for key, _ in wanted]
    np.testing.assert_allclose([m.score for m in found], [score for _, score in wanted], atol=1e-5)


def test_vectors_are_read_by_their_keys(store, vectors):
    store.put([message("long", id="x"), message("short", id="y"), message("late", id="z"), episode(id="x")])
    store.put([message("theirs", user="ben", id="b")])
    by_text = {"long": random_rows(1, 3), "short": random_rows(2, 1), "theirs": random_rows(3, 1)}
    batch = [p for p in vectors.pending(10, leased=False) if p.text in by_text]
    vectors.add([VectorRow(key=p.key, vectors=by_text[p.text]) for p in batch])
    keys = [("message", id_) for id_ in ("y", "z", "nobody", "x", "b")] + [("episode", "x")]
    parts = vectors.read(ANA, keys)
    assert sorted(parts.rows.tolist()) == [0, 3, 3, 3], "pending, unknown and others' records have none"
    np.testing.assert_allclose(parts.vectors[parts.rows == 3], by_text["long"], atol=2e-3)
    np.testing.assert_allclose(parts.vectors[parts.rows == 0], by_text["short"], atol=2e-3)
    for scope, wanted in ((ANA, []), (ANA, [("message", "z")]), (Scope(user_id="cy"), keys)):
        assert vectors.read(scope, wanted).rows.tolist() == []
        assert len(vectors.read(scope, wanted).vectors) == 0


def test_vectors_read_before_are_those_of_now(store, vectors):
    keys = [("message", "x"), ("episode", "x"), ("message", "y")]

    def read():
        parts = vectors.read(ANA, keys)
        return {row: parts.vectors[parts.rows == row].argmax(axis=1).tolist() for row in set(parts.rows)}

    store.put([message("one", id="x"), episode("two", id="x")])
    fill(vectors, {"one": one(0), "two": one(1)})
    store.put([message("late", id="y")])
    assert read() == read() == {0: [0], 1: [1]}
    fill(vectors, {"late": np.concatenate([one(2), one(3)])})
    assert read() == {0: [0], 1: [1], 2: [2, 3]}, "what had none has some"
    store.delete(Query(scope=ANA, kinds=("message",), ids=("x",)))
    assert read() == {1: [1], 2: [2, 3]}
    store.put([message("again", id="x"), episode("other words", id="x")])
    assert read() == {2: [2, 3]}, "another text has no vectors yet"
    fill(vectors, {"again": one(4), "other words": one(5)})
    assert read() == {0: [4], 1: [5], 2: [2, 3]}


def test_a_snapshot_is_of_one_moment(store, vectors):
    store.put([message("early", id="a")])
    fill(vectors, {"early": one(0)})

    def found(snapshot):
        near = vectors.nearest(Query(scope=ANA, limit=10), one(0)[0], snapshot=snapshot)
        keys = [("message", match.id) for match in near]
        table = store.match(Query(scope=ANA, text="early later"), keys, snapshot=snapshot)
        return [match.id for match in near], sorted(id_ for _, id_ in table.keys)

    snapshot = store.snapshot("ana")
    assert found(snapshot)[1] == ["a"]
    store.put([message("later", id="b")])
    fill(vectors, {"later": one(0)})
    assert found(snapshot)[1] == ["a"]
    assert found(None) == found(store.snapshot("ana")) == (["b", "a"], ["a", "b"])
    assert store.match(Query(scope=BEN, text="early"), snapshot=snapshot).keys == (), "others' are not in it"
    assert vectors.nearest(Query(scope=BEN), one(0)[0], snapshot=snapshot) == []
    assert len(vectors.read(BEN, [("message", "a")], snapshot=snapshot).rows) == 0
    assert [record.id for record in store.find(Query(scope=ANA, kinds=("message",)))] == ["a", "b"]


def test_a_snapshot_inside_a_transaction_keeps_nothing(store):
    with undone(store):
        store.put([message("undone", id="a")])
        snapshot = store.snapshot("ana")
        assert store.match(Query(scope=ANA, text="undone"), snapshot=snapshot).keys == (("message", "a"),)
    assert store.match(Query(scope=ANA, text="undone")).keys == ()


def test_newer_records_win_ties_and_a_question_of_another_size_is_an_error(store, vectors):
    store.put([message("same", id=f"m{i}", at=i) for i in range(50)])
    fill(vectors, {"same": one(0)})
    assert ids(nearest(vectors, one(0)[0], limit=4)) == ["m49", "m48", "m47", "m46"]
    refused(EmbedderMismatch, "16 numbers", nearest, vectors, np.ones(3, np.float32))


def test_what_is_added_and_deleted_is_noticed_at_once_by_everybody(backend):
    (store, mine), (other, yours) = backend.open(), backend.open()
    everybody = (mine, yours)
    for i in range(5):
        store.put([message(f"t{i}", id=f"m{i}")])
        fill(mine if i % 2 else yours, {f"t{i}": one(i)})
        for vectors in everybody:
            assert len(nearest(vectors, one(0)[0])) == i + 1
    other.delete(Query(scope=ANA, ids=("m2",)))
    for vectors in everybody:
        assert "m2" not in ids(nearest(vectors, one(2)[0]))
        assert nearest(vectors, one(3)[0])[0].id == "m3"


ELSEWHERE = """
import numpy as np
from jiyi.records import Query, Scope
from jiyi.storage import VectorRow
from samples import message

store, vectors = opened.store, opened.vectors
store.delete(Query(scope=Scope(user_id="ana"), ids=("gone",)))
store.put([message("from elsewhere", id="new")])
row = np.eye(16, dtype=np.float32)[[5]]
vectors.add([VectorRow(key=p.key, vectors=row) for p in vectors.pending(10, leased=False)])
"""


@pytest.mark.slow
def test_a_second_process_is_seen_at_once(backend, store, vectors):
    store.put([message("first", id="first"), message("old", id="gone"), message("stays", id="stays")])
    fill(vectors, {"old": one(5), "stays": one(1), "first": one(2)})
    assert nearest(vectors, one(5)[0])[0].id == "gone"
    assert neighbours(store, "old") == in_a_row("first", "gone", "stays")
    run_elsewhere(ELSEWHERE, backend.place)
    assert {*ids(nearest(vectors, one(5)[0]))} == {"new", "stays", "first"}
    assert nearest(vectors, one(5)[0])[0].id == "new"
    assert by_words(store, Query(scope=ANA, text="elsewhere")) == ["new"]
    assert by_words(store, Query(scope=ANA, text="old")) == []
    assert neighbours(store, "elsewhere") == in_a_row("stays", "new")
    assert ids(store.find(Query(scope=ANA, kinds=("message",)))) == ["first", "stays", "new"]


def test_what_was_undone_leaves_no_trace_in_memory(store, vectors):
    store.put([message("a", id="a"), message("b", id="b")])
    fill(vectors, {"a": one(0), "b": one(1)})
    with undone(store):
        store.delete(Query(scope=ANA, ids=("a",)))
        store.put([message("c", id="c")])
        fill(vectors, {"c": one(2)})
        assert set(ids(nearest(vectors, one(2)[0]))) == {"b", "c"}
    store.delete(Query(scope=ANA, ids=("b",)))
    store.put([message("d", id="d")])
    fill(vectors, {"d": one(3)})
    assert set(ids(nearest(vectors, one(0)[0]))) == {"a", "d"}
    assert nearest(vectors, one(3)[0])[0].score == pytest.approx(1, abs=1e-3)


def test_a_record_without_parts_is_complete_without_vectors(store, vectors):
    store.put([message("a", id="a")])
    fill(vectors, {"a": np.empty((0, DIMS), np.float32)})
    assert pending(store) == 0
    assert nearest(vectors, one(0)[0]) == []
