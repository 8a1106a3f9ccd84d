"""Putting what is known already: cheap where the words are the same, another document where not."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from samples import ANA, START, by_words, episode, fact, item, knowledge, message

from jiyi.records import Query, Scope
from jiyi.storage import Amendment, SqliteVectors, Store, VectorRow
from jiyi.storage.search.user_terms import UserTerms
from jiyi.storage.search.user_vectors import UserVectors

MAKE = {"episode": episode, "knowledge": knowledge, "fact": fact, "item": item}
LATER = START + timedelta(days=1)
CLOSED = {"status": "superseded", "superseded_by": "x", "confidence": 0.9, "sources": ("m",)}
SMALL = {
    "episode": {"importance": 0.9, "access_count": 4, "consolidated": True, "pinned": True},
    "knowledge": {"confidence": 0.9, "access_count": 4, "source_episodes": ("e",), "pinned": True},
    "fact": {"text": "said so", **CLOSED},
    "item": {"value": {"n": 2}, "version": 2, "updated_at": LATER, "pinned": True},
}
WORD, NEAR = Query(scope=ANA, text="word"), np.ones(4, np.float32)


@pytest.fixture
def vectors(database):
    return SqliteVectors(database)


def numbers(database):
    """Document numbers and vector rows by record, and what tells memory to read again."""
    with database.read() as db:
        docs = dict(db.raw.execute("SELECT kind || id, doc FROM documents").fetchall())
        terms = sorted(doc for (doc,) in db.raw.execute("SELECT doc FROM terms"))
        parts = db.raw.execute("SELECT part, doc FROM vectors ORDER BY part").fetchall()
        return docs, terms, parts, db.raw.execute("SELECT generation FROM owners").fetchall()


def in_memory(database, store, vectors):
    """What is held of the user after a search."""
    by_words(store, WORD)
    vectors.nearest(WORD, NEAR)
    parts = database.cache._users["ana"].parts
    return parts[UserTerms], parts[UserVectors]


def fill(store, vectors, make):
    records = store.put([make("the word", id="r"), message("a word", id="m")])
    vectors.add([VectorRow(key=p.key, vectors=np.ones((2, 4), np.float32)) for p in vectors.pending(10)])
    return records[0]


@pytest.mark.parametrize("kind", MAKE)
def test_the_same_words_keep_number_terms_vectors_and_what_is_in_memory(database, store, vectors, kind):
    record = fill(store, vectors, MAKE[kind])
    held, before = in_memory(database, store, vectors), numbers(database)
    changed = replace(record, **SMALL[kind])
    for _ in range(2):
        assert store.put([changed]) == [changed]
        assert store.find(Query(scope=ANA, kinds=(kind,))) == [changed]
        assert numbers(database) == before
        again = in_memory(database, store, vectors)
        assert [a is b for a, b in zip(again, held, strict=True)] == [True, True], "nothing is read again"
        assert [part.size for part in again] == [part.size for part in held]
    assert Store(database).amend(ANA, kind, [Amendment(id="r", pinned=True, confidence=0.2)]) == 1
    assert numbers(database) == before
    assert in_memory(database, store, vectors)[0] is held[0]


@pytest.mark.parametrize("kind", MAKE)
def test_another_date_or_scope_keeps_the_number_and_is_read_again(database, store, vectors, kind):
    record = fill(store, vectors, MAKE[kind])
    held, before = in_memory(database, store, vectors), numbers(database)
    later = replace(record, created_at=record.created_at + timedelta(days=1))
    moved = replace(later, scope=Scope(user_id="ana", agent_id="ops"))
    for changed in (later, moved):
        store.put([changed])
        assert numbers(database)[:3] == before[:3]
        again = in_memory(database, store, vectors)
        assert again[0] is not held[0]
        held = again
    assert by_words(store, replace(WORD, scope=moved.scope)) == ["r"]
    assert by_words(store, replace(WORD, since=later.created_at, kinds=(kind,))) == ["r"]


@pytest.mark.parametrize("kind", MAKE)
def test_other_words_are_another_document(database, store, vectors, kind):
    fill(store, vectors, MAKE[kind])
    in_memory(database, store, vectors)
    docs, _, parts, _ = numbers(database)
    store.put([MAKE[kind]("a lamp", id="r")])
    assert by_words(store, WORD) == ["m"]
    assert by_words(store, replace(WORD, text="lamp")) == ["r"]
    assert [m.id for m in vectors.nearest(WORD, NEAR)] == ["m"]
    new, terms, left, _ = numbers(database)
    assert new[f"{kind}r"] not in docs.values()
    assert terms == sorted(new.values())
    assert {doc for _, doc in left} == {docs["messagem"]}
    assert len(left) == len(parts) - 2
    assert store.count(Query(scope=ANA))["vectors_pending"] == 1
    database.check()


def test_sources_are_rows_of_the_owner_without_doubles_and_go_with_the_record(database, store):
    store.put([fact(id="f", sources=("a", "b", "a", "half \ud800", "nul\0", ""))])
    store.put([knowledge(id="k", source_episodes=("e",)), fact(id="f", user="ben", sources=("a",))])

    def rows():
        with database.read() as db:
            return db.raw.execute("SELECT owner, source FROM sources ORDER BY 1, 2").fetchall()

    assert rows() == [(1, "a"), (1, "b"), (1, "e"), (2, "a")]
    assert store.find(Query(scope=ANA, kinds=("fact",)))[0].sources[3:] == ("half \ud800", "nul\0", "")
    store.put([fact(id="f", sources=("c",))])
    assert rows() == [(1, "c"), (1, "e"), (2, "a")]
    store.delete(Query(scope=ANA))
    assert rows() == [(2, "a")]
