"""Passages: what was said around a hit comes with it, once, from its session, within the scope."""

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import ANA, BEN, episode, knowledge, message

from jiyi.long_term.finding import add_surroundings
from jiyi.records import Hit, Query, Scope, new_id


def hits(*records):
    return [Hit(record=record, kind=type(record).__name__.lower(), score=1.0) for record in records]


def talk(store, count=9, session="s", user="ana", **fields):
    fields |= {"session": session, "user": user}
    return store.put([message(f"{i}", id=f"{session}{i}", at=i, **fields) for i in range(count)])


def around(store, found, steps, scope=ANA):
    passages = add_surroundings(store, scope, found, steps, store.snapshot(scope.user_id))
    return [[m.id for m in hit.around] for hit in passages]


def test_a_message_comes_with_those_before_and_behind_it_and_a_deleted_one_leaves_a_gap(store):
    said = talk(store)
    assert around(store, hits(said[4]), 1) == [["s3", "s5"]]
    assert around(store, hits(said[4]), 2) == [["s2", "s3", "s5", "s6"]]
    (whole,) = add_surroundings(store, ANA, hits(said[4]), 1, store.snapshot("ana"))
    assert whole.around == (said[3], said[5])
    assert replace(whole, around=()) == hits(said[4])[0], "nothing else of the hit changes"
    store.delete(Query(scope=ANA, ids=("s3",)))
    assert around(store, hits(said[4]), 1) == [["s5"]]
    assert around(store, hits(said[4]), 2) == [["s2", "s5", "s6"]]


def test_the_surroundings_of_many_hits_are_asked_for_at_once(store):
    class Counting:
        snapshot = store.snapshot
        asked = 0

        def find_by_keys(self, *asked):
            self.asked += 1
            return store.find_by_keys(*asked)

    said = [m for session in "stu" for m in talk(store, 30, session)]
    counting = Counting()
    found = around(counting, hits(said[3], said[40], said[70], said[77]), 1)
    assert found == [["s2", "s4"], ["t9", "t11"], ["u9", "u11"], ["u16", "u18"]]
    assert counting.asked == 1
    assert sum(len(ids) for ids in around(counting, hits(*said[::4]), 1)) == 23 * 2 - 2
    found = around(counting, hits(said[0], said[30]), 4_999)
    assert ([len(ids) for ids in found], counting.asked) == ([29, 29], 3)


def test_what_two_hits_share_the_better_one_has_and_a_hit_is_nobodys_neighbour(store):
    said = talk(store)
    assert around(store, hits(said[5], said[3]), 1) == [["s4", "s6"], ["s2"]]
    assert around(store, hits(said[3], said[5]), 1) == [["s2", "s4"], ["s6"]]
    assert around(store, hits(said[3], said[6]), 2) == [["s1", "s2", "s4", "s5"], ["s7", "s8"]]
    assert around(store, hits(said[4], said[5]), 1) == [["s3"], ["s6"]]
    assert around(store, hits(said[5], said[4], said[6]), 2) == [["s3", "s7"], ["s2"], ["s8"]]


def test_episodes_and_knowledge_have_no_surroundings_and_keep_their_place(store):
    said = talk(store)
    past, lesson = store.put([episode(id="s3"), knowledge(id="k")])
    got = add_surroundings(store, ANA, hits(past, said[4], lesson), 1, store.snapshot("ana"))
    assert [hit.id for hit in got] == ["s3", "s4", "k"]
    assert [[m.id for m in hit.around] for hit in got] == [[], ["s3", "s5"], []]
    assert add_surroundings(store, ANA, [], 3, store.snapshot("ana")) == []


def test_neighbours_lie_within_the_scope(store):
    talk(store, user="ben")
    store.put([message(f"{i}", id=f"s{i}", at=i, agent="ab"[i % 2]) for i in range(9)])
    said = store.find(Query(scope=ANA, kinds=("message",), limit=20))
    agent = Scope(user_id="ana", agent_id="a")
    assert around(store, hits(said[4]), 2, agent) == [["s2", "s6"]]
    assert around(store, hits(said[4]), 2, agent.in_session("s")) == [["s2", "s6"]]
    assert around(store, hits(said[4]), 1) == [["s3", "s5"]]
    (whole,) = add_surroundings(store, ANA, hits(said[4]), 8, store.snapshot("ana"))
    assert {m.scope.user_id for m in whole.around} == {"ana"}
    of_ben = around(store, hits(said[4]), 2, BEN)
    assert of_ben == [["s2", "s3", "s5", "s6"]], "the scope decides, not the hit"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(lengths=st.lists(st.integers(1, 8), min_size=1, max_size=3), steps=st.integers(1, 4), data=st.data())
def test_no_message_is_shown_twice_and_each_is_near_its_hit(store, lengths, steps, data):
    user = new_id()
    said = [m for i, count in enumerate(lengths) for m in talk(store, count, f"t{i}", user)]
    chosen = data.draw(st.lists(st.sampled_from(said), unique_by=lambda m: m.id, max_size=6))
    got = add_surroundings(store, Scope(user_id=user), hits(*chosen), steps, store.snapshot(user))
    shown = [m.id for hit in got for m in (hit.record, *hit.around)]
    assert len(shown) == len(set(shown))
    assert [hit.id for hit in got] == [m.id for m in chosen]
    near = {m.id for m in said for hit in chosen if m.scope == hit.scope and abs(m.seq - hit.seq) <= steps}
    assert set(shown) == near
    for hit in got:
        places = [m.seq for m in hit.around]
        assert places == sorted(places)
        assert all(m.scope == hit.record.scope and abs(m.seq - hit.record.seq) <= steps for m in hit.around)
