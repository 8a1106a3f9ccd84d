"""What every backend promises about scanning and amending many records; see `jiyi.storage.Store`."""

import random
import threading
from dataclasses import replace

import numpy as np
import pytest
from refusing import refused
from samples import ANA, BEN, START, by_words, episode, fact, knowledge, message, task
from taken_out import MAKE, SEARCHED, S, ids, neighbours, pages, undone

from jiyi.errors import BadQuery, BadScope, DuplicateId, InputError
from jiyi.records import Query, Scope
from jiyi.storage import Amendment, VectorRow
from jiyi.text import entity_key


def scanned(store, **parts):
    query = Query(**({"scope": ANA, "limit": 3} | parts))
    return [record for page in pages(store, query) for record in page]


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("size", [1, 2, 5, 6, 10_000])
def test_a_scan_gives_everything_oldest_first_in_pieces(store, kind, size):
    records = store.put([MAKE[kind](f"{i}", id=f"{i}", at=t) for i, t in enumerate((3, -(10**10), 3, 0, 9))])
    oldest_first = [records[i] for i in (1, 3, 0, 2, 4)]
    query = Query(scope=ANA, kinds=(kind,), limit=size)
    found = list(pages(store, query))
    assert [record for page in found for record in page] == oldest_first
    assert all(len(page) == size for page in found[:-1])
    assert store.scan(replace(query, newest_first=True)).records[0] == oldest_first[0]
    assert list(pages(store, replace(query, scope=BEN))) == [()]


def test_a_scan_goes_by_all_conditions(store):
    past = [{"id": f"e{i}", "at": i, "consolidated": i % 2 == 0, "target": f"t{i % 3}"} for i in range(9)]
    store.put([episode(**one) for one in past])
    store.put([message(f"m{i}", id=f"m{i}", session=f"{i % 2}", agent="ab"[i % 3 == 0]) for i in range(9)])
    assert ids(scanned(store, kinds=("episode",), consolidated=True, target="T1")) == ["e4"]
    assert ids(scanned(store, kinds=("episode",), consolidated=False)) == ["e1", "e3", "e5", "e7"]
    in_one = Scope(user_id="ana", agent_id="b", session_id="1")
    assert ids(scanned(store, kinds=("message",), scope=in_one)) == ["m3"]
    assert ids(scanned(store, kinds=("message",), ids=("m8", "m1", "x"), limit=1)) == ["m1", "m8"]


def test_a_scan_gives_sessions_by_their_first_message_also_inside_a_transaction(store):
    with store.transaction():
        store.put([message("x", session=f"s{i}", at=at) for at, i in enumerate((2, 0, 1, 2))])
        assert len(scanned(store, kinds=("message",))) == 4
    assert ids(scanned(store, kinds=("session",), limit=2)) == ["s2", "s0", "s1"]


@pytest.mark.parametrize("kinds", [("message", "episode"), ("step",)])
def test_a_scan_is_of_one_kind(store, kinds):
    refused(BadQuery, "one of message, episode, knowledge, fact", store.scan, Query(scope=ANA, kinds=kinds))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_what_is_there_throughout_is_scanned_exactly_once(every, seed):
    chance = random.Random(seed)
    store, _, trash, _ = every
    names = [f"{i}" for i in range(60)]
    store.put([episode(n, id=n, at=chance.randrange(10)) for n in names])
    stay = {*chance.sample(names, 30)}
    go = [n for n in names if n not in stay]
    seen, added = [], 0
    for page in pages(store, Query(scope=ANA, kinds=("episode",), limit=chance.randrange(1, 9))):
        seen += ids(page)
        gone = [go.pop() for _ in range(min(len(go), chance.randrange(3)))]
        if chance.random() < 0.5:
            store.delete(Query(scope=ANA, kinds=("episode",), ids=tuple(gone)))
        else:
            keys = [("episode", n) for n in gone]
            trash.discard(ANA, keys, reason="x", at=episode().created_at)
            trash.restore(ANA, keys[:1])
        store.amend(ANA, "episode", [Amendment(id=n, pinned=True) for n in chance.sample(names, 5)])
        if chance.random() < 0.8:
            store.put([episode("new", id=f"new{added}", at=chance.randrange(10))])
            added += 1
    assert stay <= {*seen}
    assert len(seen) == len({*seen})


def test_a_scan_beside_another_writer(backend):
    store, *_ = backend.open_all()
    other = backend.open_all()
    store.put([fact(f"{i}", id=f"{i}", at=i % 7) for i in range(200)])
    stop, failed = threading.Event(), []

    def write():
        number = 0
        while not stop.is_set():
            try:
                other.store.put([fact("more", id=f"more{number}", at=number % 7)])
                other.store.delete(Query(scope=ANA, kinds=("fact",), ids=(f"more{number - 3}",)))
            except Exception as error:
                failed.append(error)
                return
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = ids(scanned(store, kinds=("fact",)))
    finally:
        stop.set()
        writer.join()
    assert failed == []
    assert {f"{i}" for i in range(200)} <= {*seen}
    assert len(seen) == len({*seen})


def test_targets_are_counted_by_key(store):
    names = ["nginx 容器", "the nginx container", "Nginx-Container", "web-7", "web-8", None, "", "  "]
    store.put([episode(target=name, id=f"{i}", consolidated=i == 0) for i, name in enumerate(names)])
    store.put([episode(target="web-7", user="ben"), message("web-7"), fact("web-7")])
    every = {entity_key(n): c for n, c in {"nginx container": 3, "web-7": 1, "web-8": 1, "": 3}.items()}
    assert store.targets(Query(scope=ANA)) == every
    unread = store.targets(Query(scope=ANA, kinds=("episode",), consolidated=False))
    assert unread == {**every, entity_key("nginx container"): 2}
    assert store.targets(Query(scope=ANA, kinds=("fact",))) == {}
    assert store.targets(Query(scope=ANA.in_session("other"))) == {}
    assert store.targets(Query(scope=BEN)) == {entity_key("web-7"): 1}
    for name, count in every.items():
        assert store.count(Query(scope=ANA, kinds=("episode",), target=name))["episode"] == count


SURE, WEIGHTY = {"confidence": 0.75, "pinned": True}, {"importance": 0.25, "pinned": True}
AMENDED = {"message": WEIGHTY, "episode": WEIGHTY | {"consolidated": True}, "knowledge": SURE, "fact": SURE}
AMENDED |= {"item": {"expires_at": START, "pinned": True}}


@pytest.mark.parametrize("kind", SEARCHED)
def test_amending_changes_these_fields_and_nothing_else(every, kind):
    store, vectors, *_ = every
    a, b = store.put([MAKE[kind]("same word", id=name) for name in "ab"])
    store.put([MAKE[kind]("same word", id="a", user="ben")])
    rows = vectors.pending(10)
    vectors.add([VectorRow(key=p.key, vectors=np.eye(4, dtype=np.float32)[[i]]) for i, p in enumerate(rows)])
    query, near = Query(scope=ANA, text="word"), np.array([1, 0.5, 0, 0], np.float32)
    before = store.match(query), vectors.nearest(query, near)
    changed = AMENDED[kind]
    assert store.amend(ANA, kind, [Amendment(id="a", **changed)]) == 1
    expected = replace(a, **changed)
    assert store.find(Query(scope=ANA, kinds=(kind,))) == [expected, b]
    assert scanned(store, kinds=(kind,)) == [expected, b]
    assert store.find(Query(scope=ANA, kinds=(kind,), pinned=True)) == [expected]
    found = store.match(query)
    assert found.keys == before[0].keys
    assert found.text.tolist() == before[0].text.tolist()
    assert vectors.nearest(query, near) == before[1]
    assert store.count(Query(scope=ANA))["vectors_pending"] == 0
    (other,) = store.find(Query(scope=BEN, kinds=(kind,)))
    assert not other.pinned, "another user's record of the same id"
    back = {name: getattr(a, name) for name in changed if name != "importance" or kind != "message"}
    assert store.amend(ANA, kind, [Amendment(id="a", **back)]) == 1
    assert store.find(Query(scope=ANA, kinds=(kind,), pinned=True)) == []


def test_what_a_kind_does_not_have_and_who_is_not_there_is_passed_over(store):
    (kept,) = store.put([knowledge(id="k")])
    nobody = [Amendment(id=bad, pinned=True) for bad in ("x", "", "nul\0", "half \ud800")]
    assert store.amend(ANA, "knowledge", nobody) == 0
    assert store.amend(BEN, "knowledge", [Amendment(id="k", pinned=True)]) == 0
    assert store.amend(Scope(user_id="nobody"), "knowledge", [Amendment(id="k", pinned=True)]) == 0
    assert store.amend(ANA, "episode", [Amendment(id="k", pinned=True)]) == 0
    assert store.amend(ANA, "knowledge", []) == 0
    assert store.amend(ANA, "knowledge", [Amendment(id="k", importance=0.1, consolidated=True)]) == 1
    assert store.find(Query(scope=ANA, kinds=("knowledge",))) == [kept]


@pytest.mark.parametrize("kind", ["task", "step", "session"])
def test_what_cannot_be_searched_cannot_be_amended(store, kind):
    refused(BadQuery, "amend one of", store.amend, ANA, kind, [Amendment(id="a")])


@pytest.mark.parametrize("bad", [-0.01, 1.01, float("nan"), float("inf"), "0.5"])
@pytest.mark.parametrize("name", ["importance", "confidence"])
def test_no_value_gets_in_that_no_record_may_hold(name, bad):
    refused(InputError, f"{name}.*'a' is not a number from 0 to 1", Amendment, id="a", **{name: bad})


@pytest.mark.slow
def test_thousands_are_amended_at_once_and_all_or_none(store):
    store.put([episode(id=f"{i}") for i in range(3_000)])
    changes = [Amendment(id=f"{i}", importance=i / 4_000) for i in range(4_000)]
    assert store.amend(ANA, "episode", changes) == 3_000
    found = store.find(Query(scope=ANA, kinds=("episode",), limit=10_000))
    assert all(e.importance == int(e.id) / 4_000 for e in found)
    with undone(store):
        store.amend(ANA, "episode", [Amendment(id="5", importance=1, pinned=True)])
        assert store.find(Query(scope=ANA, pinned=True))[0].importance == 1
    assert store.find(Query(scope=ANA, pinned=True)) == []
    assert store.find(Query(scope=ANA, kinds=("episode",), ids=("5",)))[0].importance == 5 / 4_000


def test_changes_grow_with_what_memory_must_notice(every):
    store, _, trash, _ = every
    store.put([task()])
    assert store.changes(ANA) == store.changes(Scope(user_id="nobody")) == 0
    assert (scanned(store, kinds=("message",)), store.targets(Query(scope=ANA))) == ([], {})
    store.put([message("a", id="a"), message("b", id="b"), message("c", user="ben")])
    numbers = [store.changes(ANA)]
    key = [("message", "a")]
    for change in (
        lambda: trash.discard(ANA, key, reason="x", at=message().created_at),
        lambda: trash.restore(ANA, key),
        lambda: store.amend(ANA, "message", [Amendment(id="a", pinned=True)]),
        lambda: store.amend(ANA, "message", [Amendment(id="a", pinned=False)]),
        lambda: store.amend(ANA, "message", [Amendment(id="b", importance=0.1)]),
        lambda: store.delete(Query(scope=ANA, ids=("a",))),
    ):
        change()
        numbers.append(store.changes(ANA))
    assert numbers == sorted({*numbers})
    store.put([message("d")])
    assert store.changes(ANA) == numbers[-1]
    assert store.changes(BEN) == 0


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]])
def test_messages_are_put_back_at_their_places_in_any_order(backend, order):
    store, *_ = backend.open_all()
    said = [message(f"word {i}", id=f"{i}", at=-i, seq=i) for i in range(5)]
    for i in order:
        assert store.put_back([said[i]]) == [said[i]]
        by_words(store, Query(scope=S, text="word"))  # what is in memory grows piece by piece
    expected = {f"{i}": (str(i - 1) if i else None, str(i + 1) if i < 4 else None) for i in range(5)}
    for reader in (store, backend.open_all().store):
        assert reader.find(Query(scope=S, kinds=("message",))) == said
        assert neighbours(reader, "word") == expected
    (new,) = store.put([message("new")])
    assert new.seq == 5
    assert neighbours(store, "word new")["4"] == ("3", new.id)
    (session,) = store.find(Query(scope=S, kinds=("session",)))
    assert (session.messages, session.started_at) == (6, said[4].created_at)


def test_a_message_whose_place_is_taken_goes_to_the_end(store):
    store.put([message("a", id="a"), message("b", id="b")])
    assert [m.seq for m in store.put_back([message("c", id="c", seq=1), message("d", id="d")])] == [2, 3]
    assert [m.seq for m in store.put_back([message("e", id="e", seq=9), message("f", id="f")])] == [9, 10]
    (again,) = store.put_back([message("a", id="a", seq=5)])
    assert again.seq == 0
    refused(DuplicateId, "'a'", store.put_back, [message("g", id="g"), message("other", id="a")])
    refused(BadScope, "session_id", store.put_back, [message("h", id="h"), replace(message("i"), scope=ANA)])
    assert ids(store.find(Query(scope=S, kinds=("message",)))) == [*"abcdef"]


def test_words_that_were_scanned_need_no_analysis(store, monkeypatch):
    said = [message("重启 nginx 之后恢复", id="a", name="Ana"), message("the disk is full", id="b", at=1)]
    store.put(said)
    page = store.scan(Query(scope=ANA, kinds=("message",), limit=5), words=True)
    assert set(page.words) == {"a", "b"}
    assert store.scan(Query(scope=ANA, kinds=("message",), limit=5)).words == {}
    assert store.scan(Query(scope=BEN, kinds=("message",), limit=5), words=True).words == {}
    query = Query(scope=ANA, text="nginx full")
    before = store.match(query)
    store.delete(Query(scope=ANA))
    monkeypatch.setattr("jiyi.storage.search.postings.analyse", lambda text: 1 / 0)
    store.put_back(page.records, words=page.words)
    monkeypatch.undo()
    after = store.match(query)
    assert (after.keys, after.text.tolist()) == (before.keys, before.text.tolist())
    assert (after.traits.tolist(), after.length.tolist()) == (before.traits.tolist(), before.length.tolist())
