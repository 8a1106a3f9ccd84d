"""What every store promises about summaries: versions on top of each other, and their messages."""

from dataclasses import replace

import pytest
from refusing import refused
from samples import ANA, AWKWARD, BEN, START, message, summary
from taken_out import ids, pages

from jiyi.errors import BadQuery, DuplicateId, InputError
from jiyi.records import Query, Scope

S = ANA.in_session("s")
OPS = Scope(user_id="ana", agent_id="ops", session_id="s")


def find(store, scope=S, **parts):
    return store.find(Query(scope=scope, kinds=("summary",), **({"limit": 10_000} | parts)))


def chain(store, count, **fields):
    """So many versions, each of one message more."""
    (standing,) = store.put([summary(None, ["m0"], 0, "part 0", **fields)])
    made = [standing]
    for n in range(1, count):
        made += store.put([summary(made[-1], [f"m{n}"], n, f"part {n}", at=n)])
    return made


@pytest.mark.parametrize("text", [t for t in AWKWARD.values() if t.strip()])
def test_it_comes_back_as_it_went_in(store, text):
    first = summary(None, ["m1", "消息 2"], 3, text, language="zh", tokens=12)
    second = summary(first, [], 3, text, method="llm", at=1)
    assert store.put([first, second]) == [first, second]
    assert find(store) == [first, second]
    assert find(store, ids=(second.id,)) == [second]
    assert find(store, newest_first=True, limit=1) == [second]


def test_a_retry_changes_nothing_an_id_is_taken_once_and_a_date_is_needed(store):
    (standing,) = store.put([summary(None, ["m0"])])
    assert store.put([standing, standing]) == [standing, standing]
    refused(DuplicateId, "taken by another summary", store.put, [replace(standing, text="other words")])
    refused(InputError, "created_at", store.put, [replace(summary(standing), created_at=None)])
    assert find(store) == [standing]


def test_only_the_next_version_goes_in(store):
    one, two = chain(store, 2)
    wrong = {
        "a second first": summary(None, ["x"], 9),
        "a second second": summary(one, ["x"], 9),
        "one too far": summary(summary(two, ["x"], 9), ["y"], 9),
        "on top of a stranger": replace(summary(two, ["x"], 9), previous="nobody"),
        "less far": summary(two, ["x"], 0),
    }
    for why, bad in wrong.items():
        refused(DuplicateId, "does not go on from version 2", store.put, [message("before"), bad])
        assert find(store) == [one, two], why
    assert store.count(Query(scope=ANA, kinds=("message",)))["message"] == 0, "all or none"
    three = summary(two, ["x"], 9)
    assert store.put([three]) == [three]


def test_of_a_session_of_its_agents_and_of_other_users(store):
    whole = chain(store, 2)
    of_agent = chain(store, 3, scope=OPS)
    elsewhere = chain(store, 1, scope=ANA.in_session("two"))
    theirs = store.put([replace(whole[0], scope=BEN.in_session("s"))])
    assert find(store) == [*whole, *of_agent]
    assert find(store, newest_first=True) == [*whole[::-1], *of_agent[::-1]]
    assert find(store, OPS) == of_agent
    assert find(store, OPS, newest_first=True, limit=1) == of_agent[-1:]
    assert find(store, Scope(user_id="ana", agent_id="ops")) == of_agent
    assert find(store, ANA.in_session("two")) == elsewhere
    assert {*ids(find(store, ANA))} == {*ids([*whole, *of_agent, *elsewhere])}
    assert find(store, BEN) == theirs
    assert store.count(Query(scope=S, kinds=("summary",))) == {"summary": 5, "vectors_pending": 0}
    assert store.count(Query(scope=BEN, kinds=("summary",)))["summary"] == 1


def test_a_page_of_a_user_comes_by_age(store):
    chain(store, 3)
    late = store.put([summary(None, at=9, scope=ANA.in_session("two"))])
    early = store.put([summary(None, at=-9, scope=ANA.in_session("three"))])
    assert find(store, ANA, limit=1) == early
    assert find(store, ANA, newest_first=True, limit=1) == late
    assert store.find(Query(scope=ANA, kinds=("summary", "message"), limit=2))[:1] == early


def test_versions_are_found_by_the_messages_they_cover(store):
    made = chain(store, 4)
    of_agent = store.put([summary(None, ["m2", "m2", "other"], 1, scope=OPS)])
    assert find(store, ANA, sources=("m1",)) == [made[1]]
    assert {*ids(find(store, ANA, sources=("m2", "m0")))} == {made[0].id, made[2].id, of_agent[0].id}
    assert find(store, OPS, sources=("m2",)) == of_agent
    assert find(store, BEN, sources=("m1",)) == []
    assert find(store, ANA, sources=()) == []
    assert find(store, ANA, sources=("half \ud800", "nul\0")) == []
    assert store.count(Query(scope=ANA, kinds=("summary",), sources=("m2",)))["summary"] == 2


def test_filters_of_other_kinds_find_none(store):
    chain(store, 2)
    others = {"roles": ("user",), "pinned": True, "after_seq": 0, "target": "x", "subject": "x"}
    others |= {"task_id": "t", "status": "failed", "until": START}
    for part, value in others.items():
        assert find(store, **{part: value}) == [], part
    assert len(find(store, since=START, pinned=False)) == 2


def test_no_search_finds_it(store):
    store.put([message("they spoke of disks"), summary(None)])
    for kinds in (("summary",), ("summary", "message")):
        found = store.match(Query(scope=ANA, kinds=kinds, text="disks"))
        assert all(kind == "message" for kind, _ in found.keys)
        assert any(found.eligible) == ("message" in kinds)
    assert store.count(Query(scope=ANA, kinds=("summary",)))["vectors_pending"] == 0


def test_deleting(store):
    made = chain(store, 3)
    store.put([replace(made[0], scope=BEN.in_session("s"))])
    assert store.delete(Query(scope=ANA, kinds=("summary",), ids=(made[2].id, "x"))) == {"summary": 1}
    assert find(store) == made[:2]
    assert find(store, ANA, sources=("m2",)) == []
    (again,) = store.put([summary(made[1], ["m2"], 2, "again")])
    assert find(store, newest_first=True, limit=1) == [again]
    assert store.delete(Query(scope=S, kinds=("summary",), limit=100)) == {"summary": 3}
    assert find(store) == []
    assert len(find(store, BEN)) == 1


def test_deleting_messages_leaves_it(store):
    said = store.put([message(f"m{n}", id=f"m{n}") for n in range(3)])
    made = chain(store, 3)
    store.delete(Query(scope=ANA, kinds=("message",), ids=("m1",)))
    assert find(store) == made
    store.delete(Query(scope=S, kinds=("message",), limit=100))
    assert find(store) == made
    assert store.find(Query(scope=ANA, kinds=("session",))) == []
    assert find(store, sources=(said[1].id,)) == [made[1]]


def test_what_is_said_after_all_messages_are_gone_comes_behind_it(store):
    said = store.put([message(f"m{n}") for n in range(5)])
    store.put([summary(None, ids(said), 4), summary(None, upto=7, scope=OPS)])
    assert store.put([message("in between")])[0].seq == 8, "the summary speaks of places up to 7"
    store.delete(Query(scope=S, kinds=("message",), limit=100))
    assert [m.seq for m in store.put([message("new"), message("newer")])] == [8, 9]
    assert store.put([message("elsewhere", session="two")])[0].seq == 0
    assert store.put([message("of another", user="ben")])[0].seq == 0


def test_a_summary_of_a_session_that_is_not_there_yet(store):
    store.put([summary(None, ["gone"], 4)])
    assert store.put([message("first")])[0].seq == 5


def test_a_scan_goes_through_all_as_they_were_stored(every):
    store = every.store
    one = store.put([summary(None, at=50)])[0]
    two = store.put([summary(one, at=-50)])[0]
    more = chain(store, 3, scope=ANA.in_session("two"))
    store.put([replace(one, scope=BEN.in_session("s"))])
    seen = [record for page in pages(store, Query(scope=ANA, kinds=("summary",), limit=2)) for record in page]
    assert seen == [one, two, *more], "a version never comes before the one it builds on"
    assert list(store.scan(Query(scope=ANA, kinds=("summary",), sources=("m1",))).records) == [more[1]]


def test_a_message_that_comes_back_to_a_place_it_speaks_of_takes_the_versions_without_it(every):
    said = every.store.put([message(f"m{n}", id=f"m{n}", agent="ops" if n == 2 else None) for n in range(4)])
    with_it = summary(None, ["m0"], 0)
    without = summary(with_it, ["m1", "m3"], 3)
    of_agent = summary(None, ["m2"], 2, scope=OPS)
    of_other = summary(None, ["x"], 3, scope=Scope(user_id="ana", agent_id="other", session_id="s"))
    every.store.put([with_it, without, of_agent, of_other])
    every.trash.discard(ANA, [("message", "m2")], reason="old", at=START)
    assert find(every.store) == [with_it, without, of_agent, of_other]
    assert every.trash.restore(ANA, [("message", "m2")]) == [said[2]]
    assert find(every.store) == [with_it, of_agent, of_other]


@pytest.mark.parametrize("fields", [{"role": "system"}, {"pinned": True}])
def test_system_and_pinned_messages_that_come_back_are_in_none_anyway(every, fields):
    every.store.put([message("rules", id="m0", **fields), message("hi", id="m1")])
    (standing,) = every.store.put([summary(None, ["m1"], 1)])
    every.trash.discard(ANA, [("message", "m0")], reason="old", at=START)
    every.trash.restore(ANA, [("message", "m0")])
    assert find(every.store) == [standing]


def test_it_is_no_record_for_the_trash(every):
    (standing,) = every.store.put([summary(None)])
    with pytest.raises(BadQuery, match="summary cannot be taken out"):
        every.trash.discard(ANA, [("summary", standing.id)], reason="x", at=START)
    refused(BadQuery, "amend one of", every.store.amend, ANA, "summary", [])
