"""What a text does: the signs, in both languages, and what must not set them off."""

import pytest

from jiyi.text import Mode, modes

SHOWN = [
    (Mode.ASKED, ["部署窗口是哪天？", "这个还在用吗", "Which rack is it in?"]),
    (
        Mode.HYPOTHETICAL,
        ["如果将来上双向 TLS，端口还得挪", "说不定会换成 Go", "If we ever move, the desk goes too"],
    ),
    (Mode.NEGATED, ["没这回事，谣言", "That's not true, nobody said so."]),
    (
        Mode.REPORTED,
        ["部署文档上写着端口是 8443", "新人手册里还印着老地址", "听说要涨价", "The wiki still says 14.11."],
    ),
    (
        Mode.CHANGED,
        [
            "提醒改成 8:10",
            "从今天起由小冉负责",
            "换到二楼办公",
            "The office moved to Lyon.",
            "From now on it's 5.",
        ],
    ),
    (
        Mode.CORRECTED,
        ["我写错了，是 8444", "看错了一位", "I misread a digit.", "I had the wrong letter yesterday."],
    ),
    (
        Mode.RETRACTED,
        [
            "算了，那条别记了",
            "把口令删掉",
            "当我没说",
            "Forget that.",
            "Scratch Lisbon, please.",
            "Delete the key.",
        ],
    ),
    (Mode.REVERTED, ["退回最早那套", "恢复原来的设置", "Back to JSON.", "It is round-robin once more."]),
    (
        Mode.TEMPORARY,
        ["只有这周改到周三", "这三天换我爸去接", "Until Friday it's Dmitri.", "This week only."],
    ),
    (
        Mode.PLANNED,
        ["打算下个月搬家", "下周起执行新规", "We plan to drop 3.9.", "From May 10 it runs on 1.31."],
    ),
]


@pytest.mark.parametrize(
    ("mode", "text"), [(mode, text) for mode, texts in SHOWN for text in texts], ids=lambda v: str(v)[:20]
)
def test_a_sign_shows_what_a_text_does(mode, text):
    assert mode in modes(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "edge-02 网关监听 8443。",
        "我爸的生日是 9 月 12 日。",
        "The rack holding db-west is D14.",
        "My sister lives in Lyon.",
        "GET /items?page=2 returned 200",
    ],
)
def test_a_plain_statement_shows_nothing(text):
    assert modes(text) == Mode(0)


def test_of_a_long_text_the_beginning_decides():
    assert modes("x " * 1_500 + "Forget that.") == Mode(0)
