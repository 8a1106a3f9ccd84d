"""The stored summaries of sessions, by one writer and by several at once."""

import multiprocessing
import time

import pytest
from conversations import user
from refusing import refused
from session_tools import NOON, SCOPE, save
from taken_out import ids

from jiyi.errors import BadQuery, BadScope, InputError, NotFound
from jiyi.records import Query, Scope
from jiyi.short_term.summaries import Summaries
from jiyi.short_term.summary import Summarized
from jiyi.storage import SqliteDatabase, Store
from jiyi.testing import ManualClock

OPS = Scope(user_id="ana", agent_id="ops", session_id="s-1")


@pytest.fixture
def summaries(store):
    return Summaries(store, clock=ManualClock(NOON))


def fold(summaries, messages, text="they spoke", scope=SCOPE, **fields):
    after = fields.pop("after", summaries.latest(scope))
    covers, upto = tuple(m.id for m in messages), messages[-1].seq
    made = Summarized(text=text, covers=covers, upto_seq=upto, method="extractive", **fields)
    return summaries.add(scope, made, after)


def test_versions_build_on_each_other(store, summaries):
    said = save(store, *[user(f"m{n}") for n in range(6)])
    assert summaries.latest(SCOPE) is None
    assert summaries.versions(SCOPE) == []
    one = fold(summaries, said[:2], "two", language="en", tokens=3)
    two = fold(summaries, said[2:4], "four")
    assert (one.version, one.previous, one.covers, one.upto_seq) == (1, None, tuple(ids(said[:2])), 1)
    assert (two.version, two.previous, two.covers, two.upto_seq) == (2, one.id, tuple(ids(said[2:4])), 3)
    assert (one.scope, one.language, one.tokens, one.created_at) == (SCOPE, "en", 3, NOON)
    assert summaries.latest(SCOPE) == two
    assert summaries.versions(SCOPE) == [one, two]
    assert summaries.unfolded(SCOPE, two.upto_seq) == said[4:]


def test_sessions_agents_and_users_apart(store, summaries):
    (said,) = save(store, user("hi"))
    (agents,) = save(store, user("ho"), scope=OPS)
    of_agent = fold(summaries, [agents], scope=OPS)
    assert summaries.latest(SCOPE) is None, "an agent's summary is not that of the session"
    assert summaries.versions(SCOPE) == []
    whole = fold(summaries, [said, agents])
    assert (summaries.latest(SCOPE), summaries.latest(OPS)) == (whole, of_agent)
    assert (summaries.versions(SCOPE), summaries.versions(OPS)) == ([whole], [of_agent])
    for scope in (
        Scope(user_id="ana", session_id="s-2"),
        Scope(user_id="ben", session_id="s-1"),
        Scope(user_id="ana", agent_id="other", session_id="s-1"),
    ):
        assert summaries.latest(scope) is None


def test_unfolded_messages_come_in_order_in_pieces(store, summaries):
    said = save(store, *[user(f"m{n}") for n in range(7)])
    agents = save(store, user("of an agent"), scope=OPS)
    assert summaries.unfolded(SCOPE) == [*said, *agents]
    assert summaries.unfolded(SCOPE, 2, limit=2) == said[3:5]
    assert summaries.unfolded(SCOPE, 2, upto_seq=5) == said[3:6]
    assert summaries.unfolded(SCOPE, 7) == []
    assert summaries.unfolded(OPS) == agents
    refused(BadQuery, "limit", summaries.unfolded, SCOPE, limit=0)


def test_without_a_session_it_is_refused(summaries):
    nowhere = Scope(user_id="ana")
    for ask in (
        summaries.latest,
        summaries.versions,
        summaries.unfolded,
        lambda scope: summaries.add(scope, Summarized(text="x", covers=(), upto_seq=0, method="llm")),
    ):
        refused(BadScope, "session_id", ask, nowhere)


def test_what_is_no_summary_is_refused(store, summaries):
    said = save(store, user("hi"), user("ho"))
    refused(InputError, "text", fold, summaries, said, "  ")
    made = fold(summaries, said)
    refused(InputError, "lies before 1", fold, summaries, said[:1])
    assert summaries.versions(SCOPE) == [made]


def test_the_slower_of_two_gets_what_the_faster_stored(store, summaries):
    said = save(store, *[user(f"m{n}") for n in range(4)])
    before = fold(summaries, said[:1])
    faster = fold(summaries, said[1:3], "faster", after=before)
    assert fold(summaries, said[1:4], "slower", after=before) == faster
    assert summaries.versions(SCOPE) == [before, faster]
    assert fold(summaries, said[:1], "from the start", after=None) == faster
    assert fold(summaries, said[3:4]).version == 3


def test_what_was_forgotten_while_it_was_written_is_not_stored(store, summaries):
    said = save(store, *[user(f"m{n}") for n in range(3)])
    before = fold(summaries, said[:1])
    store.delete(Query(scope=SCOPE, kinds=("message",), ids=(said[1].id,)))
    refused(NotFound, r"message it covers.*fold again", fold, summaries, said[1:])
    assert summaries.versions(SCOPE) == [before]
    store.delete(Query(scope=SCOPE, kinds=("summary",)))
    refused(NotFound, "summary it builds on", fold, summaries, said[2:], after=before)
    assert summaries.latest(SCOPE) is None
    assert fold(summaries, said[2:]).version == 1


def test_a_version_that_went_leaves_the_one_before(store, summaries):
    said = save(store, *[user(f"m{n}") for n in range(3)])
    one, two = fold(summaries, said[:1]), fold(summaries, said[1:2])
    store.delete(Query(scope=SCOPE, kinds=("summary",), ids=(two.id,)))
    assert fold(summaries, said[2:], after=two) == one, "what stands, not what is built on air"
    assert summaries.versions(SCOPE) == [one]


def _folding(path, name, ready, go):
    """Fold one message after the other, whatever others do meanwhile."""
    store = Store(SqliteDatabase(path))
    summaries = Summaries(store)
    ready.put(name)
    go.wait()
    while True:
        standing = summaries.latest(SCOPE)
        rest = summaries.unfolded(SCOPE, standing.upto_seq if standing else -1, limit=1)
        if not rest:
            break
        fold(summaries, rest, f"{standing.text if standing else ''}{rest[0].text},", after=standing)
    store.close()


@pytest.mark.slow
def test_two_processes_fold_at_once_and_nothing_is_lost_or_twice(store, summaries, path):
    save(store, *[user(f"{n}") for n in range(60)])
    context = multiprocessing.get_context("spawn")
    ready, go = context.Queue(), context.Event()
    workers = [context.Process(target=_folding, args=(path, n, ready, go)) for n in range(2)]
    for worker in workers:
        worker.start()
    assert {ready.get(timeout=60) for _ in workers} == {0, 1}
    go.set()
    for worker in workers:
        worker.join(timeout=60)
        assert worker.exitcode == 0
    made = summaries.versions(SCOPE)
    assert [s.version for s in made] == list(range(1, 61))
    assert made[-1].text == "".join(f"{n}," for n in range(60))
    assert [s.previous for s in made] == [None, *ids(made[:-1])]


def test_the_latest_is_had_at_once_however_many_there_are(store, summaries):
    for message in save(store, *[user(f"m{n}") for n in range(300)]):
        fold(summaries, [message], "x" * 2_000)
    best = []
    for _ in range(300):
        began = time.thread_time()
        summaries.latest(SCOPE)
        best.append(time.thread_time() - began)
    assert min(best) < 0.0005, "0.1 ms on a quiet machine"
