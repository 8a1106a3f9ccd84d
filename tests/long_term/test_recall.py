"""Recall: words, meaning and what stands around, all kinds in one ranking, within one scope."""

from datetime import timedelta

import pytest
from recalling import search, talk, texts
from refusing import refused
from samples import ANA, START, episode, knowledge, message, task
from tables import read_tables

from jiyi.embeddings import E5Embedder
from jiyi.errors import BadQuery
from jiyi.long_term import Indexer, Recall
from jiyi.records import Query, Scope

TABLES = read_tables(__file__)


def test_every_kind_is_found_in_one_ranking_and_kinds_narrow(recall, keep):
    kinds = ("message", "episode", "knowledge")
    records = keep([*(make("disk full") for make in (message, episode, knowledge)), task("disk full")])
    found = search(recall, "disk")
    assert {h.id for h in found} == {r.id for r in records[:3]}
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
    for record, kind in zip(records, kinds, strict=False):
        assert [h.id for h in search(recall, "disk", kinds=(kind,))] == [record.id]
    for kinds in (("task",), ("message", "session")):
        refused(BadQuery, "can be searched", search, recall, "disk", kinds=kinds)


def test_limits_of_kinds_hold_for_each_by_itself(store, recall, keep):
    store.put([message(f"disk report {i}", at=i) for i in range(20)])
    store.put([episode(f"disk alarm {i}", at=i) for i in range(20)])
    keep([knowledge("disks fail", id="k")])
    query = Query(scope=ANA, text="disk")
    found = recall.search(query, {"message": 3, "episode": 5, "knowledge": 2})
    kinds = [h.kind for h in found]
    assert {kind: kinds.count(kind) for kind in kinds} == {"message": 3, "episode": 5, "knowledge": 1}
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
    assert [h.kind for h in recall.search(query, {"knowledge": 1})] == ["knowledge"]
    assert {h.kind for h in recall.search(query, {"message": 0, "episode": 1})} == {"episode"}


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_question_is_refused(recall, text):
    refused(BadQuery, "empty", search, recall, text)


def test_scope_and_filters_hold_for_both_indexes(recall, keep):
    for i in range(40):
        keep([message("disk report", session=f"s{i % 2}", agent="ab"[i % 2], at=i, id=f"{i}")])
    for scope in (ANA.in_session("s1"), Scope(user_id="ana", agent_id="b")):
        found = search(recall, "disk", scope=scope, limit=100)
        assert {int(h.id) for h in found} == set(range(1, 40, 2))
    found = search(recall, "disk", since=START + timedelta(seconds=10), until=START + timedelta(seconds=13))
    assert {h.id for h in found} == {"10", "11", "12"}
    assert list(search(recall, "disk", roles=("assistant",))) == []
    none = search(recall, "disk", pinned=True)
    assert (list(none), none.nothing_relevant) == ([], 1)


def test_limit_and_order(recall, keep):
    keep([message(f"disk report number {i}", at=i) for i in range(60)])
    hits = search(recall, "disk report", limit=7)
    assert (len(hits), [h.score for h in hits]) == (7, sorted((h.score for h in hits), reverse=True))
    assert [h.id for h in hits] == [h.id for h in search(recall, "disk report", limit=7)]
    assert len(search(recall, "disk report", limit=500)) == 60


@pytest.mark.parametrize("limit", [1, 10])
def test_a_word_only_one_record_has_brings_it_first(store, recall, keep, limit):
    store.put([message(f"what was the error of the gateway yesterday, take {i}") for i in range(60)])
    (needle,) = keep([message("ERR4711 " + "entirely other things about gardens and tea " * 5)])
    assert search(recall, "ERR4711", limit=limit)[0].id == needle.id


@pytest.mark.parametrize(("lines", "question", "answer"), TABLES["lines, question, answer"], ids=["en", "zh"])
def test_an_answer_is_found_through_the_question_before_it(store, recall, flush, lines, question, answer):
    talk(store, *lines.split(" / "))
    flush()
    found = search(recall, question)
    answers = [text for text in texts(found) if f"Ben: {text}" in lines.split(" / ")]
    assert answers[0] == answer
    assert found[texts(found).index(answer)].why["before"] > 0


def test_the_speaker_who_is_asked_about_comes_first(store, recall, flush):
    lines = ["Melanie: I went camping at the lake", "Ben: I went camping at the dunes"]
    talk(store, *lines, "Melanie: the tent was new", "Ben: mine was an old one")
    flush()
    for name, place in (("Melanie", "lake"), ("Mel", "lake"), ("Ben", "dunes")):
        found = search(recall, f"Where did {name} go camping?")
        assert place in found[0].text
        other = found[texts(found).index(lines[place == "lake"].split(": ")[1])]
        assert found[0].why["speaker"] > 0 > other.why["speaker"]


def test_a_name_in_the_question_is_not_searched_by_meaning(store, recall, flush, embedder):
    """It would find what was said to somebody of that name."""
    talk(store, "Melanie: hello", "Ben: hi Melanie")
    flush()
    search(recall, "What did Melanie cook?")
    assert embedder.asked[-1] == ("query", ["What did cook?"])
    search(recall, "Melanie?")
    assert embedder.asked[-1] == ("query", ["Melanie?"])


def test_what_was_said_long_after_the_question_counts_for_little(recall, keep):
    keep([message("the port is 8443", id="old"), message("the port is 9443", at=10 * 86_400, id="new")])
    assert search(recall, "which port", asked_at=START + timedelta(days=1))[0].id == "old"
    assert search(recall, "which port", asked_at=START + timedelta(days=20))[0].id == "new"


def test_pinned_important_and_certain_records_win_ties(store, recall, keep):
    """Of equal ones the newer wins; here the older ones have more for them."""
    for i, share in enumerate([(4 - i) / 4 for i in range(5)]):
        said = {"name": f"n{i}", "session": f"s{i}", "at": i}
        store.put([message("the disk of web-7 is full", id=f"m{i}", pinned=i == 0, **said)])
        store.put([message("backups run", id=f"b{i}", importance=share, **said)])
        keep([knowledge("certificates", id=f"k{i}", confidence=share, at=i)])
    first = search(recall, "disk full")[0]
    assert first.id == "m0"
    assert first.why["pinned"] > 0
    assert [h.id for h in search(recall, "backups run", limit=5)] == ["b0", "b1", "b2", "b3", "b4"]
    lessons = search(recall, "certificates", kinds=("knowledge",))
    assert [h.id for h in lessons] == ["k0", "k1", "k2", "k3", "k4"]


def test_they_are_no_more_than_tie_breakers(store, recall, keep):
    kept = message("gardens and tea", pinned=True, importance=1.0, id="kept")
    store.put([kept, message("ERR4711", id="hit")])
    keep([message(f"filler about things {i}", name=f"n{i}") for i in range(10)])
    assert search(recall, "ERR4711")[0].id == "hit"


def test_repeats_stand_behind(store, recall, keep):
    store.put([message("the disk is full", id=f"r{i}", at=i) for i in range(3)])
    keep([message("the disk is full", id="other", role="assistant"), message("clean up, disk!", id="c")])
    assert [h.id for h in search(recall, "disk full", limit=3)][-1] != "r1"
    got = [h.id for h in search(recall, "disk full")]
    assert sorted(got) == sorted(["r0", "r1", "r2", "other", "c"])
    assert set(got[:3]) == {"r2", "other", "c"}


@pytest.mark.parametrize("around", [-1, True, 1.5, "2", None, 1_001, 10**30])
def test_what_is_no_number_of_messages_is_refused(store, recall, around):
    store.put([message("disk")])
    refused(BadQuery, r"around=.* from 0 to 1,000", search, recall, "disk", around=around)
    assert len(search(recall, "disk", around=1_000)) == 1


@pytest.mark.parametrize("tongue", ["en", "zh"])
def test_with_the_bundled_model_what_shares_no_word_with_the_question_comes_first(store, vectors, tongue):
    embedder = E5Embedder()
    talk(store, *TABLES[f"said {tongue}"])
    Indexer(vectors, embedder).flush()
    recall = Recall(store, vectors, embedder)
    for question, word in TABLES[f"asked {tongue}, and a word of what comes first"]:
        assert word in search(recall, question, asked_at=START + timedelta(days=1))[0].text, question
