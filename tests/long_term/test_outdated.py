"""What is in force: signs of statements, pairs of them, the order they make, and whether anything answers."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from candidate_tables import Row, at_random, compared, evidence, question, questions, table, tables
from hypothesis import given
from hypothesis import strategies as st
from samples import START
from tables import read_tables

import jiyi
from jiyi.embeddings import E5Embedder
from jiyi.long_term.recall.features import compute_features
from jiyi.long_term.recall.outdated import MAX_COMPARED, MAYBE, SURE, compare_messages
from jiyi.long_term.recall.ranking import rank
from jiyi.long_term.recall.unanswerable import nothing_relevant

TABLES = read_tables(__file__)
WORDS = [*TABLES["statements"], ""]


@pytest.mark.slow
@given(tables(), questions, st.integers(0, 2**32), st.permutations(WORDS))
def test_whatever_was_found_only_the_order_of_the_first_ten_changes(found, asked, seed, texts):
    for about in (None, at_random(seed, len(found), pending=0.3)):
        ranked, best = compared(found, asked, about, texts)
        assert len(best.rows) <= MAX_COMPARED
        before = ranked.scores[best.rows].astype(np.float64)
        assert sorted(best.scores[:10]) == pytest.approx(sorted(before[:10]))
        assert best.scores[10:] == pytest.approx(before[10:])
        assert ((best.outdated >= 0) & (best.outdated <= 1)).all()
        for earlier, later in best.successor_rows(MAYBE).items():
            assert found.created_at[later] > found.created_at[earlier]
        assert not set(best.successor_rows(SURE)) & set(best.successor_rows(MAYBE, SURE))
        assert 0 <= nothing_relevant(ranked, best) <= 1


@given(tables(), st.integers(0, 2**32))
def test_where_no_time_is_asked_about_the_order_stays_and_nothing_is_marked(found, seed):
    ranked, best = compared(found, question("why is the disk full?"), at_random(seed, len(found)), WORDS)
    assert best.scores == pytest.approx(ranked.scores[best.rows])
    assert not best.successor_rows(0.0)


def test_nothing_said_after_the_time_asked_about_takes_a_place():
    found = table(Row(at=0, words=(1,)), Row(at=90, words=(1,)))
    about = evidence([[1, 0.1, 0], [1, 0.2, 0]])
    texts = ["the port is 8443", "the port is now 9443"]
    _, later = compared(found, question("which port is it?", days=100), about, texts)
    assert later.outdated[later.rows.tolist().index(0)] > 0
    _, earlier = compared(found, question("which port is it?", days=10), about, texts)
    assert not earlier.outdated.any()
    assert earlier.scores[earlier.rows.tolist().index(0)] == earlier.scores.max()


def test_what_says_many_things_neither_replaces_nor_is_replaced():
    found, about = table(Row(at=0, words=(1,)), Row(at=90, words=(1,))), evidence([[1, 0.1, 0], [1, 0.2, 0]])
    short = ["the port is 8443", "the port is now 9443"]
    long = short[0] + "\neth0: up" * 40
    for texts, replaced in ((short, True), ([long, short[1]], False), ([short[0], long], False)):
        _, best = compared(found, question("which port is it?", days=100), about, texts)
        assert best.outdated.any() == replaced


@pytest.mark.parametrize(("lead", "first"), [(1.0, 1), (6.0, 0)])
def test_what_hardly_matches_the_question_moves_above_nothing(lead, first):
    found = table(Row(at=0, words=(1,)), Row(at=90, words=(1,)))
    asked, about = question("which port is it?", days=100), evidence([[1, 0.1, 0], [1, 0.2, 0]])
    measured = compute_features(asked, found, about)
    ranked = replace(rank(measured, found), rows=np.array([0, 1]), scores=np.array([lead, 0], np.float32))
    best = compare_messages(ranked, {0: "the port is 8443", 1: "the port is now 9443"})
    assert best.rows[best.scores.argmax()] == first


CHANGES = {tongue: TABLES[tongue] for tongue in ("en", "zh")}


@pytest.mark.parametrize("tongue", CHANGES)
def test_with_the_bundled_model_what_changed_stands_first(path, tongue):
    with jiyi.open(path, user_id="ana", embedder=E5Embedder(), background=False, learn_facts=False) as memory:
        for place, (old, new, _) in enumerate(CHANGES[tongue]):
            for month, text in ((0, old), (60, new)):
                at = START + timedelta(days=month, minutes=place)
                memory.save_message(f"s{place}-{month}", {"role": "user", "content": text}, created_at=at)
                reply = {"role": "assistant", "content": "Noted." if tongue == "en" else "记下了。"}
                memory.save_message(f"s{place}-{month}", reply, created_at=at + timedelta(seconds=5))
        memory.flush()
        asked = START + timedelta(days=90)
        first = [memory.search(question, asked_at=asked)[0].text for _, _, question in CHANGES[tongue]]
    right = [new == found for (_, new, _), found in zip(CHANGES[tongue], first, strict=True)]
    assert sum(right) >= 5, first
