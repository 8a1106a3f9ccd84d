"""Salience: what matters ranks above what does not, in both languages; and sentences lose nothing."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import read_tables

from jiyi.text import salience, sentences

TABLES = read_tables(__file__)


def between(low, texts, high):
    return [pytest.param(text, low, high, id=text) for text in texts]


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        *between(1.0, TABLES["key"], 1.0),
        *between(0.9, TABLES["open"], 0.95),
        *between(0.65, TABLES["detail"], 0.8),
        *between(0.4, TABLES["ordinary"], 0.55),
        *between(0.1, TABLES["small talk"], 0.3),
        *between(0, ["", " \n", "\x00" * 0], 0),
    ],
)
def test_each_kind_of_text_has_its_place(text, low, high):
    assert low <= salience(text) <= high


def test_more_kinds_of_detail_are_worth_more_and_a_question_decides_nothing():
    plain, one, three = "看一下日志", "看一下 8080 端口", "看一下 8080 端口，/var/log/app.log 里有超时"
    assert salience(plain) < salience(one) < salience(three)
    assert salience("look at it") < salience("look at port 8080") < salience("port 8080 timed out in app.log")
    assert salience("你还记得我们决定了什么吗？") < 0.6
    assert salience("Do you remember what we decided?") < 0.6


@given(st.text(max_size=300))
def test_any_text_has_a_worth_and_always_the_same(text):
    worth = salience(text)
    assert 0 <= worth <= 1
    assert salience(text) == worth
    assert (worth == 0) == (not text.strip())


@pytest.mark.parametrize("text", [*(sign * 200_000 for sign in "a=好/'"), "a_" * 100_000])
def test_a_long_text_costs_no_more_than_its_beginning(text):
    started = time.thread_time()
    salience(text)
    assert time.thread_time() - started < 0.5


def test_sentences_of_both_languages_are_found_and_code_is_one_piece():
    text = "Dr. Smith said v1.2.3 is out. 看这里！“好的。”他说。See a.py? Yes."
    text += "\n1. first\n- b: http://x.y/z?q=1 ok"
    assert sentences(text) == TABLES["sentences of both languages"]
    text = "Run this:\n```py\nx = 1. \nprint('a. b')\n```\nDone. 好。"
    assert sentences(text) == ["Run this:", "```py\nx = 1. \nprint('a. b')\n```", "Done.", "好。"]
    assert sentences("open\n```\nnever. closed") == ["open", "```\nnever. closed"]


@given(st.text(alphabet="ab .。！?!\n`”\"'1好 \t；etcDr", max_size=200))
def test_sentences_lose_nothing_but_white_space(text):
    found = sentences(text)
    assert "".join("".join(one.split()) for one in found) == "".join(text.split())
    assert all(one == one.strip() and one for one in found)


@pytest.mark.parametrize("text", ["a. " * 100_000, "```\n" * 50_000, "“" * 200_000, "." * 200_000])
def test_cutting_is_linear(text):
    started = time.thread_time()
    sentences(text)
    assert time.thread_time() - started < 3
