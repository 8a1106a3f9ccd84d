"""The metrics against values computed by hand, against slow ways to compute them, and their properties."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import literals, read_tables

from jiyi.evaluate import METRICS, Question
from jiyi.evaluate.metrics import (
    Outcome,
    as_of_ok,
    auroc,
    current_ok,
    measure,
    percentile,
    reciprocal_rank,
    share_found,
)

TABLES = read_tables(__file__)
LETTERS = "abcdefghijklmnopqrst"
RANKINGS = st.permutations(LETTERS)
SOME = st.sets(st.sampled_from(LETTERS), min_size=1, max_size=6)
MAYBE = st.sets(st.sampled_from(LETTERS), max_size=4)


def question(**fields) -> Question:
    return Question(**{"id": "q", "text": "?", "asked_at": datetime(2026, 1, 1, tzinfo=UTC)} | fields)


def outcome(ranking="", sessions="", evidence_sessions="S", nothing_relevant=None, **fields) -> Outcome:
    return Outcome(
        question=question(**fields),
        ranking=tuple(ranking),
        sessions=tuple(sessions),
        evidence_sessions=tuple(evidence_sessions),
        nothing_relevant=nothing_relevant,
    )


@pytest.mark.parametrize(("wanted", "k", "one_is_enough", "share"), literals(TABLES["recall"]))
def test_recall(wanted, k, one_is_enough, share):
    assert share_found("abcde"[:k], wanted, one_is_enough=one_is_enough) == share


def test_reciprocal_rank_and_auroc_by_hand():
    assert reciprocal_rank("abc", "a") == 1
    assert reciprocal_rank("abc", "cx") == pytest.approx(1 / 3)
    assert reciprocal_rank("abc", "x") == 0
    assert auroc([0.1, 0.2], [0.3]) == 1
    assert auroc([0.3], [0.1, 0.2]) == 0
    assert auroc([0.5], [0.5]) == 0.5
    assert auroc([0.1, 0.4], [0.3, 0.4]) == pytest.approx((1 + 1 + 0 + 0.5) / 4)
    assert auroc([], [0.5]) is None
    assert auroc([0.5], []) is None


@pytest.mark.parametrize(("ranking", "evidence", "stale", "ok"), literals(TABLES["current ok"]))
def test_current_ok(ranking, evidence, stale, ok):
    """The tenth counts, the eleventh does not; one of the evidence above everything stale is enough."""
    assert current_ok(ranking, evidence, stale) is ok


@pytest.mark.parametrize(("ranking", "evidence", "stale", "one_enough", "ok"), literals(TABLES["as of ok"]))
def test_as_of_ok(ranking, evidence, stale, one_enough, ok):
    assert as_of_ok(ranking, evidence, stale, one_is_enough=one_enough) is ok


@given(
    st.lists(st.integers(0, 6).map(lambda n: n / 6), min_size=1, max_size=30),
    st.lists(st.integers(0, 6).map(lambda n: n / 6), min_size=1, max_size=30),
)
def test_auroc_is_the_share_of_pairs_in_order(low, high):
    pairs = [1.0 if a < b else 0.5 if a == b else 0.0 for a in low for b in high]
    assert auroc(low, high) == pytest.approx(sum(pairs) / len(pairs))
    assert auroc(low, high) + auroc(high, low) == pytest.approx(1)


@given(RANKINGS, SOME)
def test_recall_grows_with_depth_and_one_is_easier_than_all(ranking, wanted):
    before = 0.0
    for k in range(1, len(ranking) + 1):
        now = share_found(ranking[:k], wanted)
        assert before <= now <= 1
        assert share_found(ranking[:k], wanted, one_is_enough=True) == float(now > 0)
        before = now
    assert before == 1
    assert share_found(set(ranking), wanted) == 1


@given(RANKINGS, SOME, MAYBE)
def test_change_metrics_are_what_they_say(ranking, evidence, stale):
    stale -= evidence
    place = {id_: n for n, id_ in enumerate(ranking)}
    bound = min([place[id_] for id_ in stale] + [10])
    good = [id_ for id_ in evidence if place[id_] < bound]
    assert current_ok(ranking, evidence, stale) is bool(good)
    assert as_of_ok(ranking, evidence, stale, one_is_enough=True) is bool(good)
    assert as_of_ok(ranking, evidence, stale) is (len(good) == len(evidence))


def test_measure_averages_what_applies():
    figures = measure(
        [
            outcome("abcdef", "ST", "S", evidence=("a", "f"), category="x"),
            outcome("abcdef", "ST", "U", evidence=("x",), category="x"),
            outcome("abcdef", "ST", "SU", evidence=("x", "b"), one_is_enough=True),
            outcome("abcdef", "ST", abstain=True),
            outcome("abcdef", "ST", abstain=False),  # no evidence is known: no part of recall
        ]
    )
    assert list(figures) == list(METRICS)
    assert figures["recall@5"] == pytest.approx((0.5 + 0 + 1) / 3)
    assert figures["recall@10"] == figures["recall@20"] == pytest.approx((1 + 0 + 1) / 3)
    assert figures["strict@10"] == pytest.approx(2 / 3)
    assert figures["session_recall@5"] == figures["session_strict@5"] == pytest.approx(2 / 3)
    assert figures["mrr"] == pytest.approx((1 + 0 + 0.5) / 3)
    assert figures["hit@5"] == pytest.approx(2 / 3)
    assert (figures["abstention_auroc"], figures["current_ok"], figures["as_of_ok"]) == (None, None, None)


def test_session_recall_is_a_share_strict_wants_all_and_of_nothing_there_is_none():
    figures = measure([outcome("a", "STUVW", "SX", evidence=("a",))])
    assert (figures["session_recall@5"], figures["session_strict@5"]) == (0.5, 0)
    assert set(measure([]).values()) == {None}
    assert percentile([], 50) is None
    assert percentile([1.0, 2.0, 3.0], 50) == 2
    assert percentile([0.0, 10.0], 95) == pytest.approx(9.5)


def test_change_metrics_are_those_of_their_kinds():
    figures = measure(
        [
            outcome("es", evidence=("e",), stale=("s",), kind="current"),
            outcome("se", evidence=("e",), stale=("s",), kind="current"),
            outcome("se", evidence=("e",), stale=("s",), kind="as_of"),
            outcome("se", evidence=("e",), stale=("s",), kind="history"),
        ]
    )
    assert (figures["current_ok"], figures["as_of_ok"]) == (0.5, 0)


def test_abstention_needs_the_systems_word_on_every_question():
    sure = outcome("a", evidence=("a",), nothing_relevant=0.2)
    unsure = outcome("a", evidence=("a",), nothing_relevant=0.9)
    none = outcome("a", abstain=True, nothing_relevant=0.9)
    silent = outcome("a", evidence=("a",))
    assert measure([sure, unsure, none])["abstention_auroc"] == pytest.approx(0.75)
    assert measure([sure, none, silent])["abstention_auroc"] is None
    assert measure([sure, unsure])["abstention_auroc"] is None
