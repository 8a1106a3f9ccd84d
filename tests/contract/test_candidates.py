"""What every store promises about candidates: exact scores, neighbours and walls; see `Store.match`."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from candidate_rows import naive_bm25, rows_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import ANA, BEN, START, by_words, episode, knowledge, message
from tables import read_tables

from jiyi.clock import to_micros
from jiyi.records import Query, Scope, new_id
from jiyi.text import Trait, analyse, query_terms, traits

WORDS = ["disk", "nginx", "certificate", "restart", "restarted", "backup", "full", "the", "of", "web-7"]
WORDS += ["磁盘", "重启", "备份", "满了", "午饭", "502", "lunch", "ok"]
SAID = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india"]


def ask(store, text="", near=(), scope=ANA, **parts):
    return store.match(Query(scope=scope, text=text, **parts), near)


def keys(*ids, kind="message"):
    return [(kind, id_) for id_ in ids]


def talk(count, session="s", user="ana", **fields):
    """Messages of one session, whose ids are session and place; each says its word of `SAID`."""
    own = {"session": session, "user": user, **fields}
    return [message(SAID[i], id=f"{session}{i}", at=i, **own) for i in range(count)]


def check_scores(found, records, question):
    idf, wanted = naive_bm25(records, question)
    assert found.terms == tuple(idf)
    assert found.idf == pytest.approx(np.array([*idf.values()]), rel=1e-5)
    assert found.words.shape == (len(found), len(idf))
    for (_, id_), text, words in zip(found.keys, found.text, found.words, strict=True):
        assert text == pytest.approx(wanted[id_][0], rel=1e-5, abs=1e-6)
        assert words == pytest.approx(np.array(wanted[id_][1]), rel=1e-5, abs=1e-6)
    return {id_: score for id_, (score, _) in wanted.items()}


texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(said=st.lists(texts, max_size=25), question=texts, limit=st.integers(1, 30))
def test_scores_are_those_of_the_formula(store, said, question, limit):
    user = new_id()
    records = store.put([message(text, user=user, id=f"{i}", at=i) for i, text in enumerate(said)])
    found = ask(store, question, scope=Scope(user_id=user), limit=limit)
    wanted = check_scores(found, records, question)
    scores = sorted((score for score in wanted.values() if score > 0), reverse=True)
    best = by_words(store, Query(scope=Scope(user_id=user), text=question, limit=limit))
    assert [wanted[id_] for id_ in best] == pytest.approx(scores[:limit], rel=1e-5)
    assert found.terms == tuple(query_terms(question))


def test_columns_say_what_the_records_say(store):
    said = message("Did you see Anna's note from 3 May?", id="m", at=7, name="Bob")
    past = episode("the disk was full", id="e", at=9)
    answer = message("yes", id="a", at=8, role="assistant", agent="ops")
    output = message("ok", id="t", at=8.5, role="tool", name="book_room")
    store.put([said, answer, output, past])
    found = ask(store, "note disk", keys("m", "a", "t") + keys("e", kind="episode"))
    rows = rows_of(found)
    assert set(found.keys) == {("message", "m"), ("message", "a"), ("message", "t"), ("episode", "e")}
    speakers = {"m": "Bob", "a": "assistant", "t": "tool", "e": None}
    assert {id_: rows[id_].speaker for id_ in rows} == speakers
    assert (rows["m"].role, rows["a"].role, rows["e"].role) == ("user", "assistant", None)
    assert rows["m"].traits == traits(said.search_text) == Trait(int(rows["m"].traits))
    assert Trait.QUESTION | Trait.DATE in rows["m"].traits
    for record in (said, answer, past):
        assert rows[record.id].created_at == to_micros(record.created_at)
        assert rows[record.id].length == len(analyse(record.search_text))
    assert rows["m"].session == rows["a"].session == rows["e"].session >= 0
    assert (rows["e"].previous, rows["e"].following) == (None, None)
    assert found.total == 4
    assert sorted(found.speakers) == ["Bob", "assistant", "tool"]


def test_the_best_of_each_kind_come(store):
    kinds = {"message": message, "episode": episode, "knowledge": knowledge}
    for kind, make in kinds.items():
        store.put([make("disk " * i, id=f"{kind}{i}", at=i) for i in range(1, 6)])
    found = ask(store, "disk", limit=2, kinds=("episode", "knowledge"))
    assert {id_ for _, id_ in found.keys} == {"episode4", "episode5", "knowledge4", "knowledge5"}
    found = ask(store, "disk", limit=1)
    assert {"message5", "episode5", "knowledge5"} <= {id_ for _, id_ in found.keys}
    assert {kind for kind, _ in found.keys} == set(kinds)


def test_what_was_said_around_comes_along_two_steps_each_way(store):
    store.put([*talk(9), *talk(3, "t")])
    rows = rows_of(ask(store, "echo"))
    assert list(rows) == ["s4", "s6", "s5", "s3", "s2"]
    assert [row.text > 0 for row in rows.values()] == [True, False, False, False, False]
    assert all(row.eligible for row in rows.values())
    assert (rows["s4"].previous, rows["s4"].following) == ("s3", "s5")
    assert (rows["s2"].previous, rows["s6"].following) == (None, None)
    assert {row.session for row in rows.values()} == {0}


def test_neighbours_lie_in_the_same_session_only(store):
    for i in range(6):  # the sessions take turns
        store.put([message(f"a{i}", session="a", id=f"a{i}"), message(f"b{i}", session="b", id=f"b{i}")])
    rows = rows_of(ask(store, near=keys("a2", "b5")))
    assert set(rows) == {"a0", "a1", "a2", "a3", "a4", "b3", "b4", "b5"}
    assert rows["a2"].session != rows["b5"].session
    assert (rows["a2"].previous, rows["b5"].previous, rows["b5"].following) == ("a1", "b4", None)


def test_near_records_have_exact_scores_and_neighbours_too(store):
    records = store.put([*talk(8), message("disk full", id="d", session="x"), episode("full", id="e")])
    found = ask(store, "disk full of delta", keys("s3") + keys("e", kind="episode"), limit=1)
    check_scores(found, records, "disk full of delta")
    assert found.keys[0] == ("message", "d")
    assert {id_ for _, id_ in found.keys} == {"d", "e", "s1", "s2", "s3", "s4", "s5"}
    assert found.text[found.keys.index(("episode", "e"))] > 0


def test_unknown_and_repeated_near_keys_are_passed_over(store):
    store.put([*talk(3), knowledge("k", id="s1")])
    near = [*keys("s1", "nobody", "s1", ""), ("episode", "s1"), ("task", "s1"), ("message", "\ud800")]
    assert [key for key in ask(store, near=near).keys if key[1] == "s1"] == [("message", "s1")]
    assert ask(store, near=keys("s1", kind="knowledge")).keys == (("knowledge", "s1"),)


@pytest.mark.parametrize(("parts", "allowed"), read_tables(__file__)["conditions, and whom they leave"])
def test_conditions_decide_what_is_eligible_and_neighbours_stay(store, parts, allowed):
    said = [message("word", id=f"{i}", at=i, role="assistant" if i % 3 == 1 else "user") for i in range(6)]
    store.put([*(replace(m, pinned=m.id == "2") for m in said), episode("word", id="e", at=5)])
    found = ask(store, "word", keys(*"012345") + keys("e", kind="episode"), **eval(parts))
    rows, allowed = rows_of(found), {*allowed.split()}
    assert {id_ for id_, row in rows.items() if row.eligible} == allowed
    numbers = {int(id_) for id_ in allowed - {"e"}}
    around = {str(i) for n in numbers for i in range(n - 2, n + 3) if 0 <= i < 6}
    assert set(rows) == allowed | around
    assert found.total == 7


def test_scopes_are_walls(store):
    store.put([message("secret word", user="ben", id="1"), episode("secret word", user="ben", id="2")])
    mixed = [message("secret word", agent="ab"[i % 2], session="s", id=f"x{i}") for i in range(6)]
    store.put([*mixed, message("secret word", agent="a", session="t", id="y")])
    everything = keys("1", "y", *(f"x{i}" for i in range(6))) + keys("2", kind="episode")

    def seen(scope, limit=100):
        found = ask(store, "secret word", everything, scope=scope, limit=limit)
        assert len(found) <= found.total
        return {id_ for _, id_ in found.keys}

    agent_a = Scope(user_id="ana", agent_id="a")
    assert seen(BEN) == {"1", "2"}
    assert seen(ANA) == {"y", *(f"x{i}" for i in range(6))}
    assert seen(agent_a) == {"x0", "x2", "x4", "y"}
    assert seen(agent_a.in_session("s"), limit=1) == {"x0", "x2", "x4"}
    assert seen(ANA.in_session("t")) == {"y"}
    assert seen(Scope(user_id="cy")) == seen(Scope(user_id="ana", agent_id="c")) == set()
    assert seen(ANA.in_session("nowhere")) == set()
    rows = rows_of(ask(store, "secret", scope=agent_a))
    assert rows["x2"].previous is rows["x2"].following is None, "what another agent said is not here"
    (mine,), (agents,), (theirs,) = (ask(store, "secret", scope=s).idf for s in (ANA, agent_a, BEN))
    assert mine == agents != theirs


def test_an_empty_memory_and_an_empty_question(store):
    for found in (ask(store, "word", keys("x")), ask(store)):
        assert len(found) == found.total == 0
        assert found.keys == found.speakers == ()
        assert found.text.dtype == found.words.dtype == np.float32
        assert found.words.shape == (0, len(found.terms))
    store.put(talk(3))
    assert len(ask(store, " \n!?")) == 0
    found = ask(store, "", keys("s0"))
    assert [id_ for _, id_ in found.keys] == ["s2", "s1", "s0"]
    assert found.terms == ()
    assert found.words.shape == (3, 0)
    assert not found.text.any()


def test_of_a_question_with_very_many_terms_the_ends_count(store):
    records = store.put([message(f"w{i}", id=f"{i}") for i in (0, 127, 128, 171, 172, 299)])
    question = " ".join(f"w{i}" for i in range(300))
    found = ask(store, question)
    check_scores(found, records, question)
    assert len(found.terms) == 256
    assert set(by_words(store, Query(scope=ANA, text=question))) == {"0", "127", "172", "299"}


def test_two_messages_before_and_behind_are_those_still_there(store):
    store.put(talk(9))
    store.delete(Query(scope=ANA, ids=("s3", "s6", "s7")))
    rows = rows_of(ask(store, "echo"))
    assert set(rows) == {"s2", "s4", "s5"}, "at most two places away"
    assert rows["s4"].previous == "s2"
    rows = rows_of(ask(store, near=keys("s5", "s8")))
    assert rows["s5"].following == "s8"


def test_changes_are_seen_at_once(backend):
    (store, _), (other, _) = backend.open(), backend.open()
    lesson = knowledge("clean the logs", id="k", scope=Scope(user_id="ana", agent_id="a"))
    store.put([lesson, message("about logs", id="m")])
    for _ in range(2):
        assert ask(store, "logs").total == ask(other, "logs").total == 2
    before = ask(store, "logs")
    store.put([replace(lesson, access_count=3, pinned=True)])
    assert rows_of(ask(store, "logs")) == rows_of(before), "of other fields"
    assert by_words(store, Query(scope=ANA, text="logs", pinned=True)) == ["k"]
    moved = replace(lesson, scope=Scope(user_id="ana", agent_id="b"), pinned=True)
    other.put([moved])
    assert by_words(store, Query(scope=lesson.scope, text="logs")) == []
    assert by_words(store, Query(scope=moved.scope, text="logs", pinned=True)) == ["k"]
    other.put([replace(moved, created_at=START + timedelta(days=9))])
    assert by_words(store, Query(scope=ANA, text="logs", since=START + timedelta(days=1))) == ["k"]
    other.put([replace(moved, content="sweep the floor")])
    assert by_words(store, Query(scope=ANA, text="logs")) == ["m"]
    assert by_words(store, Query(scope=ANA, text="sweep")) == ["k"]
    other.delete(Query(scope=ANA, ids=("m",)))
    assert ask(store, "logs").total == 1
    assert ask(store, "logs").idf.tolist() == ask(other, "logs").idf.tolist()


def _random_step(store, scope, rng, records):
    """Put, replace or delete something; ``records`` follow."""
    user, choice = scope.user_id, rng.integers(10)
    text = " ".join(rng.choice(WORDS, rng.integers(0, 8)))
    if choice < 6 or not records:
        rest = [(f"s{rng.integers(3)}", "AB"[rng.integers(2)]) for _ in range(rng.integers(1, 4))]
        said = [message(text, user=user, session=session, id=new_id(), name=name) for session, name in rest]
        records |= {record.id: record for record in store.put(said)}
    elif choice < 8:
        id_ = str(rng.choice(["e1", "e2", "e3"]))
        (records[id_],) = store.put([episode(text, user=user, id=id_, at=int(rng.integers(9)))])
    else:
        gone = str(rng.choice(list(records)))
        store.delete(Query(scope=scope, ids=(gone,)))
        del records[gone]


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(seed=st.integers(0, 10**6))
def test_what_grew_step_by_step_equals_what_is_read_again(backend, seed):
    (store, _), rng, records = backend.open(), np.random.default_rng(seed), {}
    scope = Scope(user_id=new_id())
    for _ in range(25):
        _random_step(store, scope, rng, records)
        question = " ".join(rng.choice(WORDS, 3))
        near = [(type(r).__name__.lower(), id_) for id_, r in list(records.items())[::3]]
        found = ask(store, question, near, scope=scope, limit=5)
        check_scores(found, list(records.values()), question)
        assert found.total == len(records)
    (fresh, _) = backend.open()
    again = ask(fresh, question, near, scope=scope, limit=5)
    assert again.keys == found.keys
    np.testing.assert_allclose(again.text, found.text, rtol=1e-6)
    old, new = rows_of(found), rows_of(again)
    for rows in (old, new):
        rows.update({id_: replace(row, text=0) for id_, row in rows.items()})
    assert new == old
    assert again.idf.tolist() == found.idf.tolist()
    for opened in (store, fresh):
        opened.close()


@pytest.mark.slow
def test_asking_while_others_write(store):
    store.put([message("the first word", id="first")])

    def write(number):
        for i in range(40):
            store.put([message(f"word {number} {i}", session=f"s{number}", id=f"{number}-{i}")])
            if i % 8 == 7:
                store.delete(Query(scope=ANA, ids=(f"{number}-{i}",)))

    def look(_):
        sizes = []
        for _ in range(60):
            found = ask(store, "first word", keys("first", "0-1"), limit=50)
            rows = rows_of(found)
            assert found.keys[0] == ("message", "first")
            assert len(rows) == len(found) <= found.total
            for id_, row in rows.items():
                if row.previous:
                    assert rows[row.previous].following == id_
                    assert rows[row.previous].session == row.session
            sizes.append(found.total)
        return sizes

    with ThreadPoolExecutor(5) as pool:
        writing = [pool.submit(write, number) for number in range(2)]
        looking = list(pool.map(look, range(3)))
        for work in writing:
            work.result()
    assert all(sizes[0] <= max(sizes) for sizes in looking)
    found = ask(store, "word", limit=200)
    assert found.total == 1 + 2 * (40 - 5)
    assert rows_of(found)["0-8"].previous == "0-6"
