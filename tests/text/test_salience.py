"""Salience: what matters ranks above what does not, in both languages; and sentences lose nothing."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jiyi.text import salience, sentences

KEY = [
    "记住：生产库不要在白天重启",
    "我们决定用 PostgreSQL",
    "好的，以后都用中文回答",
    "别忘了我对花生过敏",
    "这个必须在周五之前做完",
    "Please remember: never restart prod by day",
    "We decided to go with Postgres.",
    "From now on all deploys go through Anna.",
    "Note that the API key expires in May",
    "This is important: back up first.",
]
OPEN = [
    "待办：给小王发合同",
    "还需要续一下证书",
    "TODO: write the migration",
    "We still need to renew the certificate",
]
DETAIL = [
    "nginx 报 502，upstream timed out",
    "端口是 8080",
    "负责人是小王",
    "我叫李雷，住在杭州",
    "配置在 /etc/nginx/nginx.conf 里",
    "run docker restart nginx",
    "The build failed with exit code 1",
    "IndexError: list index out of range",
    "I met Anna in Boston",
    "set max_connections in postgresql.conf",
]
ORDINARY = [
    "那个文件我看了一下，大概是这样",
    "你觉得怎么样",
    "以后再说吧",
    "知道了以后告诉我",
    "I think it looks fine in general",
    "What do you think about it?",
    "I remember when we were kids",
    "We haven't decided yet",
    "Nice weather here.",
    "Hey, can you look at it?",
    "ok so what now?",
    "你好，能帮我看一下吗？",
]
SMALL_TALK = [
    "好的",
    "收到，马上处理",
    "好的，已经记下了。",
    "谢谢你",
    "没问题，我这就去办",
    "希望对你有帮助！",
    "早上好",
    "你好，有什么可以帮你的？",
    "Hello, how can I help?",
    "ok",
    "thanks!",
    "Hey Caroline!",
    "Got it, will do.",
    "Sounds good, thanks for letting me know!",
    "Let me know if you need anything else!",
]


def between(low, texts, high):
    return [pytest.param(text, low, high, id=text) for text in texts]


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        *between(1.0, KEY, 1.0),
        *between(0.9, OPEN, 0.95),
        *between(0.65, DETAIL, 0.8),
        *between(0.4, ORDINARY, 0.55),
        *between(0.1, SMALL_TALK, 0.3),
        *between(0, ["", " \n", "\x00" * 0], 0),
    ],
)
def test_each_kind_of_text_has_its_place(text, low, high):
    assert low <= salience(text) <= high


def test_more_kinds_of_detail_are_worth_more():
    plain, one, three = "看一下日志", "看一下 8080 端口", "看一下 8080 端口，/var/log/app.log 里有超时"
    assert salience(plain) < salience(one) < salience(three)
    assert salience("look at it") < salience("look at port 8080") < salience("port 8080 timed out in app.log")


def test_a_question_decides_nothing():
    assert salience("你还记得我们决定了什么吗？") < 0.6
    assert salience("Do you remember what we decided?") < 0.6


@given(st.text(max_size=300))
def test_any_text_has_a_worth_and_always_the_same(text):
    worth = salience(text)
    assert 0 <= worth <= 1
    assert salience(text) == worth
    assert (worth == 0) == (not text.strip())


@pytest.mark.parametrize(
    "text", ["a" * 200_000, "=" * 200_000, "好" * 200_000, "a_" * 100_000, "/" * 200_000, "'" * 200_000]
)
def test_a_long_text_costs_no_more_than_its_beginning(text):
    started = time.thread_time()
    salience(text)
    assert time.thread_time() - started < 0.5


def test_sentences_of_both_languages():
    text = "Dr. Smith said v1.2.3 is out. 看这里！“好的。”他说。See a.py? Yes."
    text += "\n1. first\n- b: http://x.y/z?q=1 ok"
    assert sentences(text) == [
        "Dr. Smith said v1.2.3 is out.",
        "看这里！",
        "“好的。”",
        "他说。",
        "See a.py?",
        "Yes.",
        "1. first",
        "- b: http://x.y/z?q=1 ok",
    ]


def test_code_is_one_piece():
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
