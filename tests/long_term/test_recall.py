"""Recall: words and meaning together, within one scope, and words alone when the embedder fails."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from embedders import Moody, unreachable
from samples import ANA, BEN, START, episode, knowledge, message, task

from jiyi.errors import BadQuery, StorageError
from jiyi.long_term import Indexer, Recall, recall_blocks
from jiyi.records import Query, Scope
from jiyi.storage import SqliteDatabase, SqliteStore, SqliteVectors
from jiyi.testing import HashEmbedder
from jiyi.text import counter_for


@pytest.fixture
def embedder():
    return Moody()


@pytest.fixture
def vectors(path):
    database = SqliteDatabase(path)
    yield SqliteVectors(database)
    database.close()


@pytest.fixture
def store(vectors):
    return SqliteStore(vectors._db)


@pytest.fixture
def flush(vectors, embedder):
    return Indexer(vectors, embedder).flush


@pytest.fixture
def recall(store, vectors, embedder):
    return Recall(store, vectors, embedder)


def search(recall, text, scope=ANA, **parts):
    return recall.search(Query(scope=scope, text=text, **parts))


def test_a_record_is_found_by_its_words_before_its_vector_is_there(store, recall, flush):
    (said,) = store.put([message("nginx 又 502 了")])
    before = search(recall, "502")
    assert [(h.id, set(h.why)) for h in before] == [(said.id, {"text"})]
    assert flush() == 1
    after = search(recall, "502")
    assert [(h.id, set(h.why)) for h in after] == [(said.id, {"text", "vector"})]
    assert (after[0].record, after[0].kind, after[0].text) == (said, "message", said.content)
    assert after.notes == ()


def test_every_kind_is_found_and_kinds_narrow(store, recall, flush):
    records = store.put(
        [message("disk full"), episode("disk full"), knowledge("disk full"), task("disk full")]
    )
    flush()
    assert {h.id for h in search(recall, "disk")} == {r.id for r in records[:3]}
    for record, kind in zip(records, ("message", "episode", "knowledge"), strict=False):
        assert [h.id for h in search(recall, "disk", kinds=(kind,))] == [record.id]
    for kinds in (("task",), ("message", "session")):
        with pytest.raises(BadQuery, match="can be searched"):
            search(recall, "disk", kinds=kinds)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_question_is_refused(recall, text):
    with pytest.raises(BadQuery, match="empty"):
        search(recall, text)


def test_nothing_of_another_user_is_ever_found(store, recall, flush):
    store.put([message("the secret word is rhubarb", user="ben", id=f"{i}") for i in range(5)])
    store.put([message("the secret word is tea", id="1")])
    flush()
    assert [h.record.scope.user_id for h in search(recall, "secret rhubarb", limit=100)] == ["ana"]
    assert len(search(recall, "secret rhubarb", scope=BEN, limit=100)) == 5
    assert list(search(recall, "secret", scope=Scope(user_id="cy"))) == []


def test_scope_and_filters_hold_for_both_indexes(store, recall, flush):
    for i in range(40):
        store.put([message("disk report", session=f"s{i % 2}", agent="ab"[i % 2], at=i, id=f"{i}")])
    flush()
    for scope in (ANA.in_session("s1"), Scope(user_id="ana", agent_id="b")):
        found = search(recall, "disk", scope=scope, limit=100)
        assert {int(h.id) for h in found} == set(range(1, 40, 2))
    found = search(recall, "disk", since=START + timedelta(seconds=10), until=START + timedelta(seconds=13))
    assert {h.id for h in found} == {"10", "11", "12"}


def test_limit_and_order(store, recall, flush):
    store.put([message(f"disk report number {i}") for i in range(60)])
    flush()
    hits = search(recall, "disk report", limit=7)
    assert len(hits) == 7
    assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)
    assert [h.id for h in hits] == [h.id for h in search(recall, "disk report", limit=7)]


@pytest.mark.parametrize("limit", [1, 10])
def test_a_word_only_one_record_has_brings_it_first(store, recall, flush, limit):
    """The text index found one record: being the only one must count, not cancel out."""
    store.put([message(f"what was the error of the gateway yesterday, take {i}") for i in range(60)])
    (needle,) = store.put([message("ERR4711 " + "entirely other things about gardens and tea " * 5)])
    flush()
    assert search(recall, "ERR4711", limit=limit)[0].id == needle.id


def test_words_answer_alone_when_the_embedder_fails(store, recall, flush, embedder):
    (said,) = store.put([message("nginx 502")])
    flush()
    embedder.error = unreachable()
    hits = search(recall, "502")
    assert [h.id for h in hits] == [said.id]
    assert len(hits.notes) == 1
    assert "text search only" in hits.notes[0]
    assert "refused the connection" in hits.notes[0]
    embedder.error = None
    assert search(recall, "502").notes == ()


def test_data_re_embedded_by_another_process_is_noticed(store, recall, flush, vectors):
    store.put([message("nginx 502")])
    flush()
    Indexer(vectors, HashEmbedder(dims=64 * 2)).reembed()
    hits = search(recall, "502")
    assert len(hits) == 1
    assert "jiyi reembed" in hits.notes[0]


def test_a_closed_store_is_not_taken_for_a_failing_embedder(store, recall):
    store.close()
    with pytest.raises(StorageError):
        search(recall, "502")


def blocks(recall, text, **options):
    chosen = {"counter": counter_for(), "language": "en", "longest": 1000} | options
    return recall_blocks(recall, Query(scope=ANA, text=text), **chosen)


def test_blocks_say_where_they_are_from(store, recall, flush):
    said, past, lesson = store.put(
        [
            message("disk full on web-7", name="Ana"),
            episode("disk alarm", outcome_summary="deleted logs"),
            knowledge("check the disk first", key_points=("df -h",)),
        ]
    )
    flush()
    zone = timezone(timedelta(hours=8))
    found, notes = blocks(recall, "disk", zone=zone)
    by_section = {b.section: b for b in found}
    assert notes == []
    assert by_section["recalled"].text == "[2026-03-01 20:00 · user Ana · s]\ndisk full on web-7"
    assert by_section["recalled"].source_id == said.id
    assert by_section["episodes"].text == "[success] disk alarm -> deleted logs (2026-03-01 20:00)"
    assert by_section["knowledge"].text == "**disks** (2026-03-01 20:00)\ncheck the disk first\n- df -h"
    assert [by_section[s].kind for s in ("episodes", "knowledge")] == ["episode", "knowledge"]
    assert {past.id, lesson.id} < {b.source_id for b in found}
    assert "成功" in {b.section: b for b in blocks(recall, "disk", language="zh")[0]}["episodes"].text


def test_long_records_are_shown_as_the_excerpt_that_serves_the_question(store, recall, flush):
    store.put([message("filler line of a log\n" * 300 + "disk full here\n" + "more of it\n" * 300)])
    flush()
    counter = counter_for()
    ((block,), _) = blocks(recall, "disk", longest=60)
    assert "disk full here" in block.text
    head, _, body = block.text.partition("\n")
    assert counter.count_text(body) <= 60
    assert block.note.startswith("excerpt, ")
    assert head.startswith("[2026")


def test_old_system_prompts_and_the_question_itself_are_not_recalled(store, recall, flush):
    store.put(
        [message("disk rules", role="system", id="sys"), message("disk?", id="q"), message("disk", id="a")]
    )
    flush()
    found, _ = blocks(recall, "disk", without="q")
    assert [b.source_id for b in found] == ["a"]
    assert blocks(recall, "  ") == ([], [])


def test_dates_at_the_edge_of_the_calendar_are_shown(store, recall):
    last = datetime.max.replace(tzinfo=UTC)
    store.put([type(message())(role="user", content="disk", scope=message().scope, created_at=last)])
    ((block,), _) = blocks(recall, "disk", zone=timezone(timedelta(hours=8)))
    assert "9999-12-31" in block.text


def test_notes_of_a_failing_embedder_reach_the_window_once(store, recall, embedder):
    store.put([message("disk")])
    embedder.error = unreachable()
    found, notes = blocks(recall, "disk")
    assert len(found) == 1
    assert len(notes) == 1
