"""Recall when something is in the way: a failing embedder, deleted records, odd and huge questions."""

import threading
import time
from datetime import UTC, datetime

import pytest
from embedders import unreachable
from recalling import search, talk
from refusing import refused
from samples import AWKWARD, episode, knowledge, message
from tables import read_tables

from jiyi.errors import StorageError
from jiyi.long_term import Indexer, Recall
from jiyi.one_thread import one_blas_thread
from jiyi.records import Query
from jiyi.storage import Store
from jiyi.testing import HashEmbedder

TABLES = read_tables(__file__)
MEANING = {"meaning", "apart", "first_by_meaning"}


def test_words_answer_alone_when_the_embedder_fails(store, recall, keep, embedder):
    (said,) = store.put([message("nginx 502")])
    keep([message("entirely different")])
    embedder.error = unreachable()
    hits = search(recall, "502", limit=1)
    assert ([h.id for h in hits], len(hits.notes)) == ([said.id], 1)
    assert "text search only" in hits.notes[0]
    assert "refused the connection" in hits.notes[0]
    assert not MEANING & set(hits[0].why)
    embedder.error = None
    assert search(recall, "502").notes == ()


def test_data_re_embedded_by_another_process_is_noticed(recall, keep, vectors):
    keep([message("nginx 502")])
    Indexer(vectors, HashEmbedder(dims=64 * 2)).reembed()
    hits = search(recall, "502")
    assert len(hits) == 1
    assert "jiyi reembed" in hits.notes[0]


def test_a_search_that_waits_for_storage_keeps_no_other_from_computing(store, vectors, embedder, keep):
    free = []

    class Waiting(Store):
        """Another thread wants to compute while this one reads."""

        def match(self, query, near=(), *, snapshot=None):
            other = threading.Thread(target=_compute, args=(computed := threading.Event(),), daemon=True)
            other.start()
            free.append(computed.wait(10))
            return super().match(query, near, snapshot=snapshot)

    keep([message("nginx 502")])
    assert len(search(Recall(Waiting(store._db), vectors, embedder), "502")) == 1
    assert free
    assert all(free)


def _compute(computed):
    with one_blas_thread():
        computed.set()


def test_a_closed_store_is_not_taken_for_a_failing_embedder(store, recall):
    store.close()
    refused(StorageError, "is closed", search, recall, "502")


class Forgetful(Store):
    """Another process deletes records just after they were found."""

    gone = ()

    def match(self, query, near=(), *, snapshot=None):
        found = super().match(query, near, snapshot=snapshot)
        if self.gone:
            self.delete(Query(scope=query.scope, ids=self.gone, limit=100))
        return found


def test_what_is_deleted_between_finding_and_fetching_is_left_out(database, vectors, embedder):
    store = Forgetful(database)
    store.put([message(f"disk report {i}", id=f"{i}", at=i) for i in range(6)])
    Indexer(vectors, embedder).flush()
    recall = Recall(store, vectors, embedder)
    search(recall, "disk")
    store.gone = ("1", "4")
    assert {h.id for h in search(recall, "disk", limit=10, around=1)} == {"0", "2", "3", "5"}
    store.gone = ("0", "2", "3", "5")
    found = search(recall, "disk")
    assert list(found) == []
    assert 0 <= found.nothing_relevant <= 1


@pytest.mark.slow
def test_limits_beyond_what_one_listing_may_hold(store, recall, keep):
    """Three times the limit is looked at; a listing gives 10,000 records at most."""
    keep([message("disk") for _ in range(60)])
    store.put([message("disk") for _ in range(10_000)] + [episode("disk"), knowledge("disk")])
    found = search(recall, "disk", limit=10_000)
    assert len(found) == 10_000, "those by words and 60 more by meaning"
    assert {hit.kind for hit in found} == {"message", "episode", "knowledge"}


ODD = [*TABLES["odd questions"], "\ud83d", "\udc00 disk 磁盘", *filter(str.strip, AWKWARD.values())]


@pytest.mark.parametrize("text", ODD)
def test_odd_questions_are_answered(store, recall, keep, text):
    talk(store, "Ana: disk full 🎉", "Ben: 磁盘满了", "Ana: ok")
    keep([episode("清理 disk"), knowledge("磁盘")])
    found = search(recall, text, limit=5, around=2)
    assert (found.notes, len(found)) == ((), 5)
    assert 0 <= found.nothing_relevant <= 1


@pytest.mark.slow
@pytest.mark.parametrize(("text", "first"), TABLES["what is repeated, and what comes first"])
def test_a_huge_question_is_answered_in_good_time(store, recall, flush, text, first):
    text = text.strip("_")
    talk(store, "Ana: the disk of web-7 is full", "Ben: 磁盘又满了", "Ana: 🎉 2026-03-01", "Ben: xxx")
    flush()
    began = time.monotonic()
    found = search(recall, (text * 100_000)[:100_000])
    assert time.monotonic() - began < 20
    assert len(found) == 4
    assert first in ("", found[0].text)


@pytest.mark.parametrize("edge", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
def test_questions_at_the_edges_of_the_calendar(recall, keep, edge):
    keep([message("disk", id="1")])
    for text in ("disk yesterday and tomorrow, last Friday, next year", "磁盘 disk 昨天 明天 上周五 明年"):
        assert [h.id for h in search(recall, text, asked_at=edge)] == ["1"]
