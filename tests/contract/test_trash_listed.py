"""What every backend promises about looking through the trash and emptying it; see `jiyi.storage.Trash`."""

from datetime import timedelta

import pytest
from samples import ANA, BEN, START, episode, knowledge, message, task
from taken_out import KINDS, discard, find, lying

from jiyi.records import SEARCHABLE, Query, Scope


def test_users_are_walled_off(one_of_each):
    store, _, trash, _ = one_of_each
    keys = [(kind, kind) for kind in KINDS]
    nobody = Scope(user_id="nobody")
    assert discard(trash, *keys, scope=nobody) == {}
    anas = find(store)
    assert discard(trash, *keys, scope=BEN) == dict.fromkeys(KINDS, 1)
    assert find(store) == anas
    for other in (ANA, nobody):
        assert lying(trash, other) == []
        assert trash.walk(Query(scope=other, kinds=KINDS)).records == ()
        assert trash.restore(other, keys) == []
        assert trash.erase(other) == trash.erase(other, keys=keys) == 0
        assert trash.erase(other, before=START + timedelta(days=9)) == 0
    discard(trash, *keys)
    assert trash.erase(ANA) == len(KINDS)
    assert len(trash.restore(BEN, keys)) == len(KINDS)
    assert len(find(store, scope=BEN)) == len(anas)


def test_the_trash_is_listed_by_scope_kind_id_and_moment_newest_first(store, trash):
    scopes = [Scope(user_id="ana", agent_id=a, session_id=s) for a in "ab" for s in "12"]
    for i, scope in enumerate(scopes):
        store.put([episode(id=f"e{i}", scope=scope), task(id=f"t{i}", scope=scope)])
        discard(trash, ("episode", f"e{i}"), ("task", f"t{i}"), at=START + timedelta(hours=i), reason=f"r{i}")
    store.put([knowledge(id="k")])
    discard(trash, ("knowledge", "k"), at=START - timedelta(hours=1))

    def listed(**parts):
        return [(e.record.id, e.reason) for e in lying(trash, **parts)]

    assert [id_ for id_, _ in listed()] == ["e3", "t3", "e2", "t2", "e1", "t1", "e0", "t0", "k"]
    assert listed(limit=1) == [("e3", "r3")]
    assert listed(kinds=("task",), limit=2) == [("t3", "r3"), ("t2", "r2")]
    assert [id_ for id_, _ in listed(kinds=SEARCHABLE)] == ["e3", "e2", "e1", "e0", "k"]
    assert listed(ids=("t1", "x")) == [("t1", "r1")]
    assert listed(ids=()) == []
    assert listed(kinds=("step", "session")) == []
    assert [id_ for id_, _ in listed(scope=Scope(user_id="ana", agent_id="a"))] == ["e1", "t1", "e0", "t0"]
    assert [id_ for id_, _ in listed(scope=ANA.in_session("2"))] == ["e3", "t3", "e1", "t1"]
    assert [id_ for id_, _ in listed(scope=scopes[2])] == ["e2", "t2"]
    moment = START + timedelta(hours=1)
    assert [id_ for id_, _ in listed(since=moment)] == ["e3", "t3", "e2", "t2", "e1", "t1"]
    assert [id_ for id_, _ in listed(until=moment)] == ["e0", "t0", "k"]


@pytest.mark.parametrize("size", [1, 3, 10, 11])
def test_a_walk_gives_everything_once_whatever_goes_meanwhile(store, trash, size):
    store.put([message(f"{i}", id=f"{i}") for i in range(20)])
    discard(trash, *[("message", f"{i}") for i in range(10)])
    seen, after, step = [], 0, 0
    while after is not None:
        page = trash.walk(Query(scope=ANA, limit=size), after)
        seen += [e.record.id for e in page.records]
        after = page.next
        if step < 2:  # one that was seen goes, one comes
            trash.erase(ANA, keys=[("message", seen[0])])
            discard(trash, ("message", f"{10 + step}"))
            trash.scrub()
        step += 1
    assert len(seen) == len({*seen})
    assert {f"{i}" for i in range(10)} <= {*seen}


def test_erasing_is_narrowed_by_all_that_is_given(store, trash):
    for i in range(6):
        scope = Scope(user_id="ana", agent_id="ab"[i % 2], session_id=f"{i % 3}")
        said = message(f"{i}", id=f"{i}", session=scope.session_id, agent=scope.agent_id)
        store.put([said, task(id=f"{i}", scope=scope)])
        discard(trash, ("message", f"{i}"), ("task", f"{i}"), at=START + timedelta(days=i))
    later = START + timedelta(days=3)
    agent_a, in_b0 = (Scope(user_id="ana", agent_id="a"), Scope(user_id="ana", agent_id="b", session_id="0"))
    assert trash.erase(agent_a, keys=[("message", "1"), ("task", "1")]) == 0
    assert trash.erase(agent_a, keys=[("message", "2"), ("task", "x")]) == 1
    assert trash.erase(ANA, keys=[]) == 0
    assert trash.erase(ANA, keys=[("task", "3"), ("task", "4")], before=later) == 0
    assert trash.erase(in_b0) == 2
    left = [f"{e.kind} {e.record.id}" for e in lying(trash, until=later)]
    assert left == ["task 2", "message 1", "task 1", "message 0", "task 0"]
    assert trash.erase(ANA, before=later, limit=3) == 3
    assert trash.erase(ANA, before=later, limit=3) == 2
    assert trash.erase(ANA, before=later) == 0
    assert trash.restore(ANA, [("message", "0")]) == []
    store.put([message(id="b", user="ben")])
    discard(trash, ("message", "b"), scope=BEN, at=START)
    assert trash.erase(BEN, before=later) == 1
    assert trash.erase(ANA) == 4
    assert lying(trash) == lying(trash, BEN) == []
