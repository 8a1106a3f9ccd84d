"""Ranking: a weighted sum that explains itself, repeats last, and whether anything answers at all."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from candidate_tables import Row, question, table, tables
from hypothesis import given
from hypothesis import strategies as st
from samples import START, episode, fact, knowledge, message
from tables import read_tables

import jiyi
from jiyi.embeddings import E5Embedder
from jiyi.evaluate.metrics import auroc
from jiyi.long_term.recall.features import FEATURE_NAMES, Features, compute_features
from jiyi.long_term.recall.hits import mark_repeats, score_records, text_keys
from jiyi.long_term.recall.outdated import compare_messages
from jiyi.long_term.recall.ranking import rank
from jiyi.long_term.recall.weights import PLAIN, WEIGHTS


def made(matrix, cover, named=False):
    nothing, vectors = np.zeros(len(matrix), np.float32), np.zeros((len(matrix), 1), np.float32)
    by_meaning = {"similarity": nothing, "vectors": vectors, "vector_count": 0, "nearness": nothing}
    asked = {"distance": 0.0, "is_dialogue": True, "names_speaker": named, "question": question()}
    return Features(matrix=matrix, cover=cover, **by_meaning, **asked)


def features(matrix, cover=None, named=False):
    wide = np.zeros((len(matrix), len(FEATURE_NAMES)), np.float32)
    for row, given_values in enumerate(matrix):
        for name, value in given_values.items():
            wide[row, FEATURE_NAMES.index(name)] = value
    share = np.zeros(len(matrix), np.float32) if cover is None else np.array(cover, np.float32)
    return made(wide, share, named=named)


def only(**weights):
    return dict.fromkeys(FEATURE_NAMES, 0.0) | weights


@st.composite
def any_features(draw):
    found = draw(tables())
    wide = st.lists(st.floats(-50, 50, width=32), min_size=len(FEATURE_NAMES), max_size=len(FEATURE_NAMES))
    matrix = draw(st.lists(wide, min_size=len(found), max_size=len(found)))
    cover = draw(st.lists(st.floats(0, 1, width=32), min_size=len(found), max_size=len(found)))
    return found, made(np.array(matrix, np.float32), np.array(cover, np.float32), named=draw(st.booleans()))


@pytest.mark.slow
@given(any_features())
def test_rows_that_may_be_returned_are_ranked_by_weighted_sums_that_their_shares_explain(drawn):
    found, given_features = drawn
    ranked = rank(given_features, found)
    weights = np.array([WEIGHTS.get(name, 0.0) for name in FEATURE_NAMES])
    assert ranked.scores == pytest.approx(given_features.matrix @ weights, rel=1e-3, abs=1e-2)
    for row in range(len(found)):
        why = ranked.why([row])[0]
        assert set(why) <= set(FEATURE_NAMES)
        assert sum(why.values()) == pytest.approx(ranked.scores[row], rel=1e-4, abs=1e-2)
        strengths = [abs(share) for share in why.values()]
        assert strengths == sorted(strengths, reverse=True)
        assert all(strengths)
    assert sorted(ranked.rows.tolist()) == np.flatnonzero(found.eligible).tolist()
    scores = ranked.scores[ranked.rows]
    assert (scores[:-1] >= scores[1:]).all()


def test_a_weight_counts_and_the_newer_of_equal_ones_comes_first():
    found = table(Row(), Row(), Row())
    given_features = features([{"words": 2}, {"meaning": 2}, {"words": 1, "meaning": 1}])
    assert rank(given_features, found, only(words=2, meaning=1)).rows.tolist() == [0, 2, 1]
    assert rank(given_features, found, only(words=1, meaning=2)).rows.tolist() == [1, 2, 0]
    assert rank(given_features, found, only(words=-1)).rows.tolist()[-1] == 0
    assert rank(given_features, found, only(words=2, meaning=1)).why([2])[0] == {"words": 2, "meaning": 1}
    found = table(*[Row(at=days) for days in (2, 9, 1, 3)])
    assert rank(features([{"words": 1}] * 4), found, only(words=1)).rows.tolist() == [1, 3, 0, 2]


def test_why_leaves_out_what_moved_nothing():
    given_features = features([{"words": 0.5, "meaning": 0.00001, "asks": -2, "length": 1}])
    ranked = rank(given_features, table(Row()), only(words=1, meaning=1, asks=1))
    assert ranked.why([0])[0] == {"asks": -2.0, "words": 0.5}
    assert list(ranked.why([0])[0]) == ["asks", "words"]


def test_notes_are_ranked_by_the_plain_sum():
    found = table(Row(), Row())
    notes = replace(features([{"words": 2, "tells_time": 50}, {"words": 1, "meaning": 2}]), is_dialogue=False)
    assert rank(notes, found, only(words=1, tells_time=1)).rows.tolist() == [1, 0]
    plain = [2 * PLAIN["words"], PLAIN["words"] + 2 * PLAIN["meaning"]]
    assert rank(notes, found).scores == pytest.approx(plain)


TABLES = read_tables(__file__)


@pytest.mark.parametrize("tongue", ["en", "zh"])
def test_with_the_bundled_model_an_answered_question_is_told_from_one_about_something_else(path, tongue):
    with jiyi.open(path, user_id="ana", embedder=E5Embedder(), background=False) as memory:
        for place, (name, text) in enumerate(TABLES[f"said {tongue}"]):
            said = {"role": "user", "name": name, "content": text}
            memory.save_message("s", said, created_at=START + timedelta(minutes=place))
        memory.flush()
        asked = START + timedelta(days=1)
        answered, elsewhere = (
            [memory.search(text, asked_at=asked).nothing_relevant for text in TABLES[f"{group} {tongue}"]]
            for group in ("answered", "elsewhere")
        )
    assert auroc(answered, elsewhere) >= 0.9
    right = [*(chance < 0.5 for chance in answered), *(chance > 0.5 for chance in elsewhere)]
    assert sum(right) >= 6, (answered, elsewhere)


records = st.lists(
    st.builds(
        lambda text, name, make: make(text, name=name) if make is message else make(text),
        st.sampled_from(["disk full", "Disk  full", "disk\nFULL ", "disk not full", "磁盘满了", ""]),
        st.sampled_from([None, "Ana", "Ben"]),
        st.sampled_from([message, message, knowledge, episode]),
    ),
    max_size=12,
)


def repeats_last(found, question=""):
    said = text_keys([(record, record.search_text) for record in found], question)
    return sorted(range(len(found)), key=mark_repeats(said).__getitem__)


@given(records)
def test_each_record_keeps_a_place_and_those_that_repeat_nothing_their_order(found):
    order = repeats_last(found)
    assert sorted(order) == list(range(len(found)))
    seen, first, again = set(), [], []
    for place, record in enumerate(found):
        who = getattr(record, "name", None) or getattr(record, "role", None)
        words = "".join(c if c.isalnum() else " " for c in record.search_text.lower()).split()
        said = (" ".join(words), who)
        (again if said in seen else first).append(place)
        seen.add(said)
    assert order == first + again


@pytest.mark.parametrize("again", ["disk full", "Disk FULL", " disk\n\tfull ", "disk full!", "-disk- full?"])
def test_a_repeat_stands_after_all_others(again):
    found = [message("disk full"), message(again), message("the disk is full"), message("disk not full")]
    assert repeats_last(found) == [0, 2, 3, 1]


@pytest.mark.parametrize(("question", "again"), TABLES["a question, and the same in other words"])
def test_a_question_that_was_asked_before_counts_once(question, again):
    again = again.split(" / ")
    found = [message(text) for text in [*again, "7341, ask Ana for the door code 蓝色门的密码 7341"]]
    assert repeats_last(found, question) == [0, 3, 1, 2]
    more = [message(f"{text} 7341?") for text in again]
    assert repeats_last(more, question) == [0, 1, 2], "each says a number besides"


def test_the_same_words_of_another_one_are_no_repeat_and_several_repeats_keep_their_order():
    yes = [*(message("yes", name=name) for name in ("Ana", "Ben", None)), message("yes", role="tool")]
    assert repeats_last(yes) == [0, 1, 2, 3]
    assert repeats_last([*yes, message("Yes", name="Ben")]) == [0, 1, 2, 3, 4]
    assert repeats_last([yes[0], message("YES", name="Ana"), *yes[1:]]) == [0, 2, 3, 4, 1]
    assert repeats_last([message(text) for text in ("a", "b", "a", "b", "c", "a")]) == [0, 1, 4, 2, 3, 5]
    assert repeats_last([]) == []


def test_a_superseded_fact_stands_below_its_successor_that_was_not_fetched():
    found = table(Row(kind="fact", words=(2.0,)), Row(kind="fact", words=(0.5,)), Row(words=(1.0,)))
    ranked = rank(compute_features(question("what is the disk now?"), found, None), found)
    old = replace(fact(), status="superseded", superseded_by="1")
    scored = score_records({0: (old, "x"), 2: (message("2"), "y")}, ranked, compare_messages(ranked, {}))
    assert ranked.rows.tolist()[0] == 0
    assert {item.row: item.score for item in scored}[0] < ranked.scores[1] < ranked.scores[2]
