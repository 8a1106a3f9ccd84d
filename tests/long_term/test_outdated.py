"""Messages compared in pairs: what takes whose place, and the order that comes of it."""

import numpy as np
import pytest
from candidate_tables import Row, question, table, tables
from hypothesis import given
from hypothesis import strategies as st

from jiyi.long_term.recall.features import measure
from jiyi.long_term.recall.judging import judge
from jiyi.long_term.recall.outdated import JUDGED, PAIR_SIGNS, compare, judged_rows, lifted, successors
from jiyi.long_term.recall.ranking import rank
from jiyi.text import traits

NOW = "Which port is it?"


def judged(*said, asked=NOW, days=30.0):
    """Compare (text, days, parts of a `Row`), each in a session of its own."""
    rows = [
        Row(**({"words": (1.0, 1.0), "session": place, "at": at, "traits": int(traits(text))} | parts))
        for place, (text, at, parts) in enumerate(said)
    ]
    found = table(*rows)
    features = measure(question(asked, days), found, None)
    ranked = rank(features, found)
    words = [text for text, _, _ in said]
    rows = list(range(len(said)))
    scores = ranked.scores.astype(np.float64)
    return compare(found, features, scores, rows, words), scores


def chance(pairs, below, above):
    return pairs.logits()[below, above]


def sign(pairs, name, below, above):
    return pairs.signs[below, above, PAIR_SIGNS.index(name)]


def test_a_later_message_that_changes_something_is_likelier_to_take_the_place():
    plain, _ = judged(("the port is 8443", 0, {}), ("the port is 9000", 9, {}))
    changed, _ = judged(("the port is 8443", 0, {}), ("the port moved to 9000", 9, {}))
    corrected, _ = judged(("the port is 8443", 0, {}), ("I had the wrong port, it is 9000", 9, {}))
    assert chance(changed, 0, 1) > chance(plain, 0, 1)
    assert chance(corrected, 0, 1) > chance(plain, 0, 1)


@pytest.mark.parametrize("late", ["is the port 8443?", "the wiki still says the port is 8443"])
def test_a_late_question_or_report_takes_no_place_and_loses_its_own(late):
    late_one, _ = judged(("the port moved to 9000", 0, {}), (late, 9, {}))
    plain, _ = judged(("the port moved to 9000", 0, {}), ("the port is 8443", 9, {}))
    assert chance(late_one, 0, 1) < chance(plain, 0, 1)
    assert chance(late_one, 1, 0) > chance(plain, 1, 0)


def test_what_held_for_a_while_falls_behind_when_it_is_over():
    week = "until 10 March the port is 9000"
    over, _ = judged(("the port is 8443", 0, {}), (week, 1, {}), days=30)
    running, _ = judged(("the port is 8443", 0, {}), (week, 1, {}), days=5)
    assert sign(over, "later: held for a while", 0, 1) == 1
    assert sign(running, "later: holds for a while", 0, 1) == 1
    assert chance(over, 1, 0) > chance(running, 1, 0)
    assert chance(over, 0, 1) < chance(running, 0, 1)


def test_a_retraction_of_another_session_marks_what_it_takes_back():
    pairs, _ = judged(("the port is 8443", 0, {}), ("forget that port", 3, {}), ("the port is red", 5, {}))
    assert sign(pairs, "later: other is retracted", 0, 2) == 1
    same, _ = judged(
        ("the port is 8443", 0, {"session": 1}),
        ("forget that port", 3, {"session": 1}),
        ("the port is red", 5, {}),
    )
    assert sign(same, "later: other is retracted", 0, 2) == 0


def test_what_was_said_after_a_time_gone_by_belongs_below_what_was_said_by_then():
    pairs, _ = judged(
        ("the port is 8443", 0, {}),
        ("the port moved to 9000", 60, {}),
        asked="What was the port in March?",
        days=90,
    )
    assert sign(pairs, "after: other is", 1, 0) == 1
    assert pairs.logits()[0, 1] == -np.inf


def test_a_message_goes_just_above_the_one_whose_place_it_took():
    scores = np.array([5.0, 4.0, 1.0])
    logits = np.full((3, 3), -np.inf)
    logits[0, 2] = 2.0
    found = lifted(scores, logits)
    assert np.argsort(-found).tolist() == [2, 0, 1]
    assert found[[0, 1]].tolist() == [5.0, 4.0]


def test_messages_lifted_above_the_same_one_keep_their_order():
    scores = np.array([5.0, 4.0, 3.0, 1.0])
    logits = np.full((4, 4), -np.inf)
    logits[0, 1:] = 1.0, 3.0, 2.0
    assert np.argsort(-lifted(scores, logits)).tolist() == [1, 2, 3, 0]


def test_lifts_follow_on_each_other_and_contradictions_go_to_the_likelier():
    scores = np.array([5.0, 4.0, 3.0])
    chain = np.full((3, 3), -np.inf)
    chain[0, 1], chain[1, 2] = 1.0, 2.0
    assert np.argsort(-lifted(scores, chain)).tolist() == [2, 1, 0]
    both = np.full((3, 3), -np.inf)
    both[0, 1], both[1, 0] = 1.0, 3.0
    assert lifted(scores, both).tolist() == scores.tolist()


@given(
    st.lists(st.floats(-9, 9), min_size=1, max_size=8).flatmap(
        lambda scores: st.tuples(
            st.just(np.array(scores)),
            st.lists(
                st.lists(st.floats(-9, 9), min_size=len(scores), max_size=len(scores)),
                min_size=len(scores),
                max_size=len(scores),
            ).map(np.array),
        )
    )
)
def test_nothing_is_put_down_and_nothing_ends_above_all_by_more_than_a_hair(drawn):
    scores, logits = drawn
    found = lifted(scores, logits)
    assert (found >= scores).all()
    assert found.max() <= scores.max() + 0.1


def test_a_successor_is_later_likely_and_of_the_same_point():
    pairs, _ = judged(
        ("the port is 8443", 0, {}),
        ("the port moved to 9000", 9, {}),
        ("it moved", 12, {"words": (0.0, 0.0)}),
    )
    logits = np.full((3, 3), 5.0)
    assert successors(pairs, logits)[0] == 1, "the third shares no word"
    assert successors(pairs, logits)[1:] == [None, None], "nothing later shares their words"
    assert successors(pairs, np.zeros((3, 3))) == [None, None, None], "too unsure"


@given(tables())
def test_any_messages_can_be_judged(found):
    features = measure(question(NOW), found, None)
    ranked = rank(features, found)
    rows = judged_rows(found, ranked)
    assert len(rows) <= JUDGED
    assert all(found.keys[row][0] == "message" and found.eligible[row] for row in rows)
    verdict = judge(found, features, ranked, dict.fromkeys(rows, "the port is 8443"))
    assert 0 <= verdict.unanswered <= 1
    assert set(verdict.lifts) <= set(rows)
    assert all(found.created_at[j] > found.created_at[i] for i, j in verdict.outdated.items())


def test_a_question_without_a_time_is_not_judged():
    found = table(Row(words=(1.0,)), Row(words=(1.0,)))
    features = measure(question("Why is the disk full?"), found, None)
    verdict = judge(found, features, rank(features, found), {0: "a", 1: "b"})
    assert (verdict.lifts, verdict.outdated, verdict.unanswered) == ({}, {}, 0.0)
