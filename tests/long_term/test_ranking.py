"""Ranking: a weighted sum that explains itself, and a word on whether anything answers at all."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from candidate_tables import Row, at_random, question, questions, table, tables
from hypothesis import given
from hypothesis import strategies as st
from samples import START

import jiyi
from jiyi.embeddings import E5Embedder
from jiyi.long_term.recall.features import NAMES, Features, measure
from jiyi.long_term.recall.ranking import SIGNALS, nothing_relevant, rank, signals
from jiyi.long_term.recall.weights import CONFIDENCE, WEIGHTS


def features(matrix, cover=None, named=False):
    wide = np.zeros((len(matrix), len(NAMES)), np.float32)
    for row, given_values in enumerate(matrix):
        for name, value in given_values.items():
            wide[row, NAMES.index(name)] = value
    share = np.zeros(len(matrix), np.float32) if cover is None else np.array(cover, np.float32)
    return Features(matrix=wide, cover=share, named=named, question=question())


def only(**weights):
    return dict.fromkeys(NAMES, 0.0) | weights


any_features = (
    tables()
    .flatmap(
        lambda found: st.tuples(
            st.just(found),
            st.lists(
                st.lists(st.floats(-50, 50, width=32), min_size=len(NAMES), max_size=len(NAMES)),
                min_size=len(found),
                max_size=len(found),
            ),
            st.lists(st.floats(0, 1, width=32), min_size=len(found), max_size=len(found)),
            st.booleans(),
        )
    )
    .map(
        lambda drawn: (
            drawn[0],
            Features(
                matrix=np.array(drawn[1], np.float32),
                cover=np.array(drawn[2], np.float32),
                named=drawn[3],
                question=question(),
            ),
        )
    )
)


@given(any_features)
def test_scores_are_weighted_sums_and_their_shares_explain_them(drawn):
    found, given_features = drawn
    ranked = rank(given_features, found)
    weights = np.array([WEIGHTS[name] for name in NAMES])
    assert ranked.scores == pytest.approx(given_features.matrix @ weights, rel=1e-3, abs=1e-2)
    for row in range(len(found)):
        why = ranked.why(row)
        assert set(why) <= set(NAMES)
        assert sum(why.values()) == pytest.approx(ranked.scores[row], rel=1e-4, abs=1e-2)
        strengths = [abs(share) for share in why.values()]
        assert strengths == sorted(strengths, reverse=True)
        assert all(strengths)


@given(any_features)
def test_only_rows_that_may_be_returned_are_ranked_best_first(drawn):
    found, given_features = drawn
    ranked = rank(given_features, found)
    assert sorted(ranked.rows.tolist()) == np.flatnonzero(found.eligible).tolist()
    scores = ranked.scores[ranked.rows]
    assert (scores[:-1] >= scores[1:]).all()


def test_a_weight_counts():
    found = table(Row(), Row(), Row())
    given_features = features([{"words": 2}, {"meaning": 2}, {"words": 1, "meaning": 1}])
    assert rank(given_features, found, only(words=2, meaning=1)).rows.tolist() == [0, 2, 1]
    assert rank(given_features, found, only(words=1, meaning=2)).rows.tolist() == [1, 2, 0]
    assert rank(given_features, found, only(words=-1)).rows.tolist()[-1] == 0
    assert rank(given_features, found, only(words=2, meaning=1)).why(2) == {"words": 2, "meaning": 1}


def test_the_newer_of_equal_ones_comes_first():
    found = table(*[Row(at=days) for days in (2, 9, 1, 3)])
    ranked = rank(features([{"words": 1}] * 4), found, only(words=1))
    assert ranked.rows.tolist() == [1, 3, 0, 2]


def test_why_leaves_out_what_moved_nothing():
    given_features = features([{"words": 0.5, "meaning": 0.00001, "asks": -2, "length": 1}])
    ranked = rank(given_features, table(Row()), only(words=1, meaning=1, asks=1))
    assert ranked.why(0) == {"asks": -2.0, "words": 0.5}
    assert list(ranked.why(0)) == ["asks", "words"]


def test_signals_are_those_of_the_best_row():
    found = table(*[Row(eligible=place != 1) for place in range(4)])
    matrix = [
        {"words": 1, "apart": 0.2},
        {"words": 9, "apart": 0.9},
        {"words": 4, "apart": 0.4},
        {"words": 1},
    ]
    given_features = features(matrix, cover=[0.1, 0.9, 0.5, 0.2])
    got = signals(given_features, rank(given_features, found, only(words=1)))
    assert dict(zip(SIGNALS, got, strict=True)) == pytest.approx(
        {"best": 4, "lead": 2, "cover": 0.5, "meaning": 0.4, "of_the_named": 0, "named": 0}
    )


@pytest.mark.parametrize(("mine", "ahead"), [(3, 1), (1, -1)])
def test_a_question_about_the_wrong_person_finds_its_answer_with_the_other(mine, ahead):
    found = table(Row(), Row(), Row())
    matrix = [{"words": mine, "speaker": 1}, {"words": 2, "speaker": -1}, {"words": 9}]
    given_features = features(matrix, named=True)
    got = signals(given_features, rank(given_features, found, only(words=1, speaker=5)))
    assert got[SIGNALS.index("of_the_named")] == pytest.approx(ahead), "as if speakers did not count"
    assert got[SIGNALS.index("named")] == 1


@given(any_features)
def test_the_probability_of_nothing_is_one(drawn):
    found, given_features = drawn
    chance = nothing_relevant(given_features, rank(given_features, found))
    assert 0 <= chance <= 1
    if not found.eligible.any():
        assert chance == 1


@given(tables(), questions, st.integers(0, 2**32))
def test_it_is_one_for_whatever_was_measured(found, asked, seed):
    for about in (None, at_random(seed, len(found), pending=0.3)):
        measured = measure(asked, found, about)
        ranked = rank(measured, found)
        assert np.isfinite(ranked.scores).all()
        assert 0 <= nothing_relevant(measured, ranked) <= 1


def test_it_follows_the_signals():
    """Each signal moves it the way its weight says."""
    found = table(Row())
    base = features([{}], cover=[0.3])
    plain = nothing_relevant(base, rank(base, found))
    covered = replace(base, cover=np.array([0.9], np.float32))
    assert (nothing_relevant(covered, rank(covered, found)) < plain) == (CONFIDENCE["cover"] < 0)
    asked = replace(base, named=True)
    assert (nothing_relevant(asked, rank(asked, found)) > plain) == (CONFIDENCE["named"] > 0)
    assert nothing_relevant(base, rank(base, table(Row(eligible=False)))) == 1


TALK = {
    "en": [
        ("Ana", "We finally moved into the new flat in Lisbon on Saturday."),
        ("Ben", "Congratulations! How big is it?"),
        ("Ana", "Two bedrooms, 68 square metres, and a balcony that looks over the river."),
        ("Ben", "My sister Clara starts at the veterinary clinic next week."),
        ("Ana", "Does she still play the cello?"),
        ("Ben", "Every Thursday, in the orchestra of the university."),
        ("Ana", "I am allergic to peanuts, so no satay for me, please."),
        ("Ben", "Noted. I will book the Greek restaurant instead, for eight o'clock."),
        ("Ana", "My bicycle was stolen outside the library, the lock was cut."),
        ("Ben", "Did you report it to the police?"),
        ("Ana", "Yes, and the insurance pays 400 euros."),
    ],
    "zh": [
        ("小安", "我们周六终于搬进了里斯本的新公寓。"),
        ("老贝", "恭喜！有多大？"),
        ("小安", "两个卧室，六十八平米，阳台正对着河。"),
        ("老贝", "我妹妹下周开始在宠物医院上班。"),
        ("小安", "她还拉大提琴吗？"),
        ("老贝", "每周四都去大学的乐团排练。"),
        ("小安", "我对花生过敏，所以沙爹我不能吃。"),
        ("老贝", "记下了，那我改订希腊餐厅，晚上八点。"),
        ("小安", "我的自行车在图书馆外面被偷了，锁被剪断了。"),
        ("老贝", "你报警了吗？"),
        ("小安", "报了，保险赔四百欧元。"),
    ],
}
ANSWERED = {
    "en": [
        "How many square metres is the new flat in Lisbon?",
        "What is Ana allergic to?",
        "Where was the bicycle stolen?",
        "How much does the insurance pay for the bicycle?",
    ],
    "zh": ["里斯本的新公寓有多少平米？", "小安对什么过敏？", "自行车是在哪里被偷的？", "保险赔了多少欧元？"],
}
ELSEWHERE = {
    "en": [
        "Which programming language does the payment gateway use?",
        "When does the train to Vienna leave?",
        "What was the score of the football match?",
        "Who painted the portrait in the museum?",
    ],
    "zh": [
        "支付网关用的是哪种编程语言？",
        "去维也纳的火车几点开？",
        "足球比赛的比分是多少？",
        "博物馆里的肖像是谁画的？",
    ],
}


@pytest.mark.parametrize("tongue", ["en", "zh"])
def test_with_the_bundled_model_an_answered_question_is_told_from_one_about_something_else(path, tongue):
    with jiyi.open(path, user_id="ana", embedder=E5Embedder(), background=False) as memory:
        for place, (name, text) in enumerate(TALK[tongue]):
            said = {"role": "user", "name": name, "content": text}
            memory.save_message("s", said, created_at=START + timedelta(minutes=place))
        memory.flush()
        chances = {
            group: [
                memory.search(text, asked_at=START + timedelta(days=1)).nothing_relevant
                for text in texts[tongue]
            ]
            for group, texts in {"answered": ANSWERED, "elsewhere": ELSEWHERE}.items()
        }
    assert max(chances["answered"]) < 0.5 < min(chances["elsewhere"])
