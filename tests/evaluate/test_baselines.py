"""The baselines: their orders by hand, ties at random, and what their windows hold."""

import math
from datetime import UTC, datetime, timedelta
from random import Random

import numpy as np
import pytest

from jiyi.errors import BudgetTooSmall, InputError
from jiyi.evaluate import BASELINES, Conversation, Question, SessionLog
from jiyi.evaluate.baselines import bm25, by_date, check_baselines, dense, make_baseline, rank_places
from jiyi.records import Message
from jiyi.testing import HashEmbedder
from jiyi.text import counter_for

START = datetime(2026, 1, 1, tzinfo=UTC)
TEXTS = ["nginx is down", "lunch is noodles", "nginx nginx again", "the disk is full"]
COUNTER = counter_for("gpt-4o")


def conversation(texts=TEXTS) -> Conversation:
    messages = tuple(
        Message(role="user", content=text, id=str(i), created_at=START + timedelta(hours=i))
        for i, text in enumerate(texts)
    )
    return Conversation(id="c", sessions=(SessionLog(id="s", messages=messages),), questions=())


def asked(text="nginx?", id="q") -> Question:
    return Question(id=id, text=text, asked_at=START)


def made(name, texts=TEXTS, seed=0):
    return make_baseline(
        name,
        conversation(texts),
        embedder=HashEmbedder(),
        counter=COUNTER,
        random=Random(seed),
        progress=lambda done: None,
    )


def test_bm25_by_hand():
    scores = bm25(["red red blue", "blue", "green"])("red blue")
    idf_red, idf_blue = math.log(1 + 2.5 / 1.5), math.log(1 + 1.5 / 2.5)

    def part(often, length):
        return often * 2.2 / (often + 1.2 * (0.25 + 0.75 * length / (5 / 3)))

    assert scores[0] == pytest.approx(idf_red * part(2, 3) + idf_blue * part(1, 3))
    assert scores[1] == pytest.approx(idf_blue * part(1, 1))
    assert scores[2] == -math.inf


def test_bm25_reads_chinese_counts_a_word_of_the_question_once_and_survives_no_words():
    scorer = bm25(["路由器密码换了", "今天吃面"])
    assert scorer("密码是多少？")[0] > 0
    assert scorer("密码是多少？")[1] == -math.inf
    assert scorer("nginx nginx")[0] == scorer("nginx")[0]
    assert list(scorer("密码 密码")) == list(scorer("密码"))
    assert list(bm25(["", "?"])("anything")) == [-math.inf, -math.inf]


def test_dense_is_the_cosine_and_tells_how_far_it_is():
    embedder = HashEmbedder()
    scores = dense(TEXTS, embedder, lambda done: None)("nginx")
    vector = embedder.embed(["nginx"], "query")[0]
    assert scores == pytest.approx([float(row @ vector) for row in embedder.embed(TEXTS, "passage")])
    told = []
    dense([f"text {i}" for i in range(40)], HashEmbedder(), told.append)
    assert told == [16, 32, 40]


def test_orders_of_time_and_of_ties_which_are_broken_by_seed_and_never_by_place():
    dates = [START, START + timedelta(days=2), START + timedelta(days=1)]
    assert rank_places(by_date(dates, newest_first=True)("?"), Random(0)) == [1, 2, 0]
    assert rank_places(by_date(dates, newest_first=False)("?"), Random(0)) == [0, 2, 1]
    scores = np.array([1.0, 2.0, 1.0, 1.0, -math.inf])
    orders = {tuple(rank_places(scores, Random(seed))) for seed in range(60)}
    assert len(orders) == 6
    assert all(order[0] == 1 and sorted(order) == [0, 1, 2, 3] for order in orders)
    assert rank_places(scores, Random(7)) == rank_places(scores, Random(7))


def test_rankings_by_hand_pass_over_a_message_that_does_not_fit():
    assert made("bm25").rank(asked(), 10).ids == ("2", "0")
    assert set(made("dense").rank(asked(), 2).ids) == {"0", "2"}
    assert made("recent").rank(asked(), 10).ids == ("3", "2", "1", "0")
    assert made("full").rank(asked(), 10).ids == ("0", "1", "2", "3")
    assert made("full").rank(asked(), 3).ids == ("0", "1", "2")
    assert made("full").rank(asked(), 3).nothing_relevant is None
    assert made("recent", ["small", "words " * 500]).window(asked(), 100).ids == {"0"}


def test_the_same_question_has_one_order_however_deep_it_is_asked():
    system = made("bm25", ["nginx"] * 30)
    question = asked()
    short = system.rank(question, 5).ids
    assert system.rank(question, 20).ids[:5] == short
    assert len({system.rank(asked(id=str(i)), 5).ids for i in range(10)}) > 5


def test_windows_are_full_and_not_over_full():
    question = asked()
    base = COUNTER.count_all([Message(role="user", content=question.text)])
    cost = [COUNTER.count(message) for message in conversation().messages]
    assert made("full").window(question, base + sum(cost)).ids == {"0", "1", "2", "3"}
    assert made("full").window(question, base + sum(cost) - 1).ids == {"1", "2", "3"}
    assert made("full").window(question, base + cost[3]).ids == {"3"}
    assert made("recent").window(question, base + cost[3] + cost[2]).ids == {"2", "3"}
    assert made("bm25").window(question, base + cost[2]).ids == {"2"}
    assert made("bm25").window(question, 10_000).ids == {"0", "2"}
    assert made("bm25").window(question, base).ids == frozenset()
    with pytest.raises(BudgetTooSmall) as refused:
        made("bm25").window(question, base - 1)
    assert (refused.value.needed, refused.value.available) == (base, base - 1)


def test_unknown_baselines():
    assert check_baselines(["full", "bm25", "full"]) == ("full", "bm25")
    assert check_baselines(list(BASELINES)) == BASELINES
    with pytest.raises(InputError, match="no baseline 'google'; there are bm25, dense, recent, full"):
        check_baselines(["bm25", "google"])
