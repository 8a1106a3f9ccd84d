"""What every store promises about rows, scopes and transactions; see `jiyi.storage.Store`."""

from dataclasses import replace
from datetime import timedelta

import pytest
from refusing import refused
from samples import ANA, AWKWARD, BEN, START, by_words, episode, fact, full, knowledge, message, task
from taken_out import KINDS as EVERY
from taken_out import MAKE, find, ids

from jiyi.errors import BadQuery, BadScope, DuplicateId, InputError, NaiveDatetime, NotFound
from jiyi.records import Query, Scope, Session, Step


def kind_of(record):
    return type(record).__name__.lower()


def step_of(job, description, **fields):
    return Step(scope=job.scope, task_id=job.id, description=description, **fields)


@pytest.mark.parametrize("text", AWKWARD.values(), ids=AWKWARD.keys())
def test_every_kind_comes_back_as_it_went_in(store, text):
    records = full(text)
    stored = store.put(records)
    places = iter(range(3 + 1))
    assert stored == [replace(r, seq=next(places)) if kind_of(r) == "message" else r for r in records]
    step = next(r for r in records if kind_of(r) == "step")
    for record in stored:
        expected = replace(record, steps=(step,)) if kind_of(record) == "task" else record
        assert find(store, kind_of(record), ids=(record.id,)) == [expected]


@pytest.mark.slow
def test_a_megabyte_comes_back_too(store):
    text = "nginx 502 重启\n" * 60_000
    records = store.put([message(text), episode("e", outcome_summary=text), task(text)])
    assert find(store, "message", "episode", "task") == records


def test_messages_come_in_the_order_of_their_session_whatever_their_dates(store):
    stored = store.put([message(f"m{i}", at=-i) for i in range(10)])
    assert [m.seq for m in stored] == list(range(10))
    scope = ANA.in_session("s")
    assert find(store, "message", scope=scope) == stored
    assert find(store, "message", scope=scope, newest_first=True, limit=3) == stored[:6:-1]
    assert find(store, "message", scope=scope, after_seq=2, before_seq=6) == stored[3:6]
    last_two = find(store, "message", scope=scope, before_seq=5, newest_first=True, limit=2)
    assert last_two == [stored[4], stored[3]]


def test_without_a_session_records_come_by_age(store):
    said = store.put([message("b", session="two", at=2), message("a", session="one", at=1)])
    past, lesson, job = store.put([episode(at=3), knowledge(at=0), task(at=4)])
    assert ids(find(store, *EVERY)) == [lesson.id, said[1].id, said[0].id, past.id, job.id]
    assert ids(find(store, *EVERY, newest_first=True, limit=2)) == [job.id, past.id]


def test_tasks_and_steps_can_be_listed_together(store):
    (job,) = store.put([task()])
    done, to_come = step_of(job, "a", started_at=START + timedelta(seconds=5)), step_of(job, "b")
    store.put([done, to_come])
    assert ids(find(store, "step", "task")) == [job.id, done.id, to_come.id]


def test_tasks_come_with_their_steps_in_order(store):
    first, second = store.put([task("one"), task("two", at=1)])
    stored = store.put([step_of(job, f"{i}") for i in range(12) for job in (first, second)])
    found = find(store, "task")
    assert [t.request for t in found] == ["one", "two"]
    assert list(found[0].steps) == stored[::2]
    assert [s.seq for s in found[1].steps] == list(range(12))
    assert find(store, "step", task_id=second.id) == stored[1::2]


def test_a_retry_changes_nothing(store):
    given = message("hello", extra={"odd": [1.0, {"a": None}]})
    (stored,) = store.put([given])
    assert store.put([given]) == [stored]
    assert store.put([stored, given]) == [stored, stored]
    counts = store.count(Query(scope=ANA, kinds=("message", "session")))
    assert counts == {"message": 1, "session": 1, "vectors_pending": 1}
    given = message("two halves \ud83d\ude00", extra={"pair": (1, 2)})
    (stored,) = store.put([given])
    assert ids(store.put([given])) == [stored.id], "whatever JSON writes otherwise"
    assert find(store, "message")[1].text == "two halves \U0001f600"


OTHERWISE = {"text": "different", "session": "other", "agent": "ops", "role": "assistant", "extra": {"a": 1}}


@pytest.mark.parametrize("other", OTHERWISE)
def test_an_id_taken_by_another_message_is_refused_and_nothing_is_written(store, other):
    (stored,) = store.put([message("first", id="same")])
    taken = message(**({"text": "first", "id": "same"} | {other: OTHERWISE[other]}))
    refused(DuplicateId, r"same.*ana", store.put, [message("before"), taken, message("after")])
    assert find(store, "message") == [stored]
    assert store.count(Query(scope=ANA, kinds=("session",)))["session"] == 1


def test_an_id_twice_in_one_put_is_one_message_or_an_error(store):
    twin = message("a", id="x")
    assert ids(store.put([twin, twin])) == ["x", "x"]
    assert len(find(store, "message")) == 1
    refused(DuplicateId, "'y' is taken", store.put, [message("b", id="y"), message("c", id="y")])
    assert ids(find(store, "message")) == ["x"]


@pytest.mark.parametrize("make", [episode, knowledge, fact, task])
def test_records_of_a_known_id_are_replaced_whole(store, make):
    old = make("old words", id="r", scope=Scope(user_id="ana", agent_id="a", session_id="one"))
    new = make("new words", id="r", at=60, scope=Scope(user_id="ana", agent_id="b", session_id="two"))
    store.put([old])
    store.put([new])
    assert find(store, kind_of(new)) == [new]
    if make is not task:
        assert by_words(store, Query(scope=ANA, text="old")) == []
        assert by_words(store, Query(scope=ANA, text="new")) == ["r"]


def test_a_replaced_step_keeps_its_place_and_its_task(store):
    job, other = store.put([task(), task("other")])
    steps = store.put([step_of(job, d) for d in "abc"])
    changed = replace(steps[0], status="completed", result="done", seq=None)
    assert store.put([changed]) == [replace(changed, seq=0)]
    assert [s.description for s in find(store, "step")] == ["a", "b", "c"]
    refused(DuplicateId, "another task", store.put, [replace(changed, task_id=other.id)])
    assert find(store, "task", ids=(other.id,))[0].steps == ()


def test_what_a_record_needs_is_checked(store):
    scope = ANA.in_session("s")
    session = Session(scope=scope, started_at=START, last_active_at=START, messages=1, next_seq=1)
    homeless = [replace(message(), scope=None), replace(message(), scope=ANA)]
    for bad in homeless:
        refused(BadScope, "session_id", store.put, [message("good"), bad])
    refused(BadQuery, "sessions", store.put, [session])
    refused(NotFound, "no task", store.put, [Step(scope=ANA, task_id="nowhere", description="x")])
    assert store.count(Query(scope=ANA, kinds=EVERY))["message"] == 0


@pytest.mark.parametrize("bad", ["", "nul\0", "half \ud800"])
def test_ids_that_could_not_be_found_again_are_refused(store, bad):
    for make in (episode, knowledge, fact, task):
        refused(InputError, "id", store.put, [make(id=bad)])
    for name in ("supersedes", "superseded_by"):
        refused(InputError, name, store.put, [fact(**{name: bad})])
    refused(InputError, "id", message, id=bad)
    for kind in (*EVERY, "step", "session"):
        assert find(store, kind, ids=(bad,)) == []


def test_times_without_a_zone_never_reach_a_store():
    of_fact = [(fact(), name) for name in ("created_at", "valid_from", "valid_to", "last_accessed_at")]
    of_others = [(task(), "started_at"), (step_of(task(), "x"), "completed_at")]
    of_others += [(episode(), "last_accessed_at"), (knowledge(), "updated_at")]
    for record, name in of_fact + of_others:
        refused(NaiveDatetime, name, replace, record, **{name: START.replace(tzinfo=None)})


def test_two_users_with_the_same_ids_and_words_never_meet(store):
    twins = {"ana": ANA, "ben": BEN}
    for user, scope in twins.items():
        store.put([make("the word", user=user, id="1") for make in MAKE.values()])
        store.put([Step(scope=scope, task_id="1", description=user, id="1")])
    for user, scope in twins.items():
        assert {r.scope.user_id for r in find(store, *EVERY, "step", "session", scope=scope)} == {user}
        assert [s.description for s in find(store, "task", scope=scope)[0].steps] == [user]
        assert len(by_words(store, Query(scope=scope, text="word", limit=100))) == 5
    assert store.delete(Query(scope=ANA, kinds=EVERY, limit=100)) == dict.fromkeys(EVERY, 1)
    assert find(store, *EVERY) == []
    assert len(find(store, *EVERY, scope=BEN)) == 6
    assert len(by_words(store, Query(scope=BEN, text="word", limit=100))) == 5
    assert by_words(store, Query(scope=ANA, text="word")) == []


def test_agents_and_sessions_narrow(store):
    a1 = message("x one", agent="a", session="1")
    b1 = message("x two", agent="b", session="1")
    b2 = message("x three", agent="b", session="2")
    job = task(scope=Scope(user_id="ana", agent_id="b", session_id="2"))
    past = episode("x four", scope=Scope(user_id="ana", agent_id="b", session_id="2"))
    store.put([a1, b1, b2, job, past])
    agent_b = Scope(user_id="ana", agent_id="b")
    assert ids(find(store, "message", scope=agent_b)) == [b1.id, b2.id]
    assert {*by_words(store, Query(scope=agent_b, text="x"))} == {b1.id, b2.id, past.id}
    assert {*by_words(store, Query(scope=agent_b.in_session("2"), text="x"))} == {b2.id, past.id}
    assert ids(find(store, "session", scope=Scope(user_id="ana", agent_id="a"))) == ["1"]
    assert ids(find(store, "task", scope=Scope(user_id="ana", agent_id="a"))) == []
    some = {"message": 2, "episode": 1, "task": 1, "vectors_pending": 3}
    assert store.count(Query(scope=agent_b, kinds=EVERY)) == dict.fromkeys(EVERY, 0) | some


def test_delete_removes_exactly_what_find_returns(store):
    store.put([message(f"word m{i}", at=-i) for i in range(6)])
    store.put([episode("word", at=-1), task(at=-2)])
    for query in (
        Query(scope=ANA.in_session("s"), kinds=("message",), limit=2),
        Query(scope=ANA.in_session("s"), kinds=("message",), limit=1, newest_first=True),
        Query(scope=ANA, kinds=EVERY, limit=2),
    ):
        found, before = store.find(query), find(store, *EVERY)
        assert sum(store.delete(query).values()) == len(found)
        assert ids(find(store, *EVERY)) == [r.id for r in before if r.id not in ids(found)]
    left = find(store, "message")
    assert {*by_words(store, Query(scope=ANA, text="word", kinds=("message",)))} == {*ids(left)} != set()
    (session,) = find(store, "session")
    assert session.messages == len(left)
    assert session.started_at == min(m.created_at for m in left)
    assert session.last_active_at == max(m.created_at for m in left)


def test_sessions_follow_their_messages(store):
    store.put([message(session="a", at=5), message(session="a", at=1), message(session="b", at=3)])
    a, b = find(store, "session", newest_first=True)
    assert (a.id, a.messages, b.id) == ("a", 2, "b")
    assert (a.started_at, a.last_active_at) == (START + timedelta(seconds=1), START + timedelta(seconds=5))
    store.delete(Query(scope=ANA.in_session("b"), kinds=("message",)))
    assert ids(find(store, "session")) == ["a"]
    for kind in ("session", "step"):
        refused(BadQuery, "sessions go", store.delete, Query(scope=ANA, kinds=(kind,)))


def test_a_deleted_id_is_free_again(store):
    store.put([message("one", id="x"), message("two", id="y")])
    assert store.delete(Query(scope=ANA, kinds=("message",), ids=("x",))) == {"message": 1}
    assert store.delete(Query(scope=ANA, kinds=("message",), ids=("x",))) == {"message": 0}
    (again,) = store.put([message("three", id="x")])
    assert again.seq == 2
    assert by_words(store, Query(scope=ANA, text="one")) == []


def test_a_task_goes_with_its_steps(store):
    (job,) = store.put([task()])
    store.put([step_of(job, "x")])
    assert store.delete(Query(scope=ANA, kinds=("task",))) == {"task": 1}
    left = store.count(Query(scope=ANA, kinds=("task", "step")))
    assert left == {"task": 0, "step": 0, "vectors_pending": 0}
