"""Traits: each sign where it is meant, and not where it only looks like it; any text, and fast."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jiyi.text import Trait, traits

HAVE = {
    Trait.QUESTION: [
        "Where did we leave the car?",
        "你去过九寨沟吗",
        "那我们明天呢？",
        "要不要一起去吃饭呢……",
        "really？",
    ],
    Trait.NUMBER: [
        "It costs 40 dollars",
        "she has three cats",
        "买了两本书",
        "第一次去",
        "二十多公里",
        "半年没见",
    ],
    Trait.DATE: [
        "We met on Monday",
        "it was in May 2023",
        "that was two weeks ago",
        "I moved last year",
        "I'm leaving next month",
        "released 2024-03-01",
        "on the 3rd",
        "昨天去了医院",
        "上周三交房租",
        "3月5日到期",
        "十月结婚",
        "三天前",
        "上个月换的",
    ],
    Trait.NAME: [
        "Yesterday I met Anna at the gym",
        "we are moving to Boston",
        "昨晚看了《泰坦尼克号》",
        'have you read "Dune" yet',
        "他说的“老地方”是哪里",
    ],
    Trait.FIRST_PERSON: ["I like tea", "that's my bike", "we're late", "I’m tired", "我喜欢喝茶", "咱们走吧"],
    Trait.SECOND_PERSON: ["do you like tea", "is this your bike", "You’re right", "你喜欢吗", "您好，请问"],
    Trait.NEGATION: [
        "I do not smoke",
        "she never called",
        "don’t wait",
        "no milk please",
        "我不喝牛奶",
        "还没到",
        "别删",
    ],
    Trait.DECISION: [
        "Remember to water the plants",
        "please note that the port is 8443",
        "We decided to use Go",
        "From now on reply in English",
        "记住我对花生过敏",
        "记一下，端口是 8443",
        "以后都用 pip",
        "我们决定买下来",
    ],
    Trait.GREETING: [
        "Hi!",
        "Good morning :)",
        "Thank you so much!",
        "ok, thanks",
        "You're welcome.",
        "你好呀！",
        "好的，谢谢你。",
        "收到",
        "嗯嗯，知道了",
        "ok 收到",
    ],
    Trait.ASKS_LAST: [
        "It was late. Where did we leave the car?",
        "really？！",
        'He asked: "are you coming?"',
        "我到了，你去过九寨沟吗",
    ],
    Trait.MOSTLY_ASKS: ["Is it still 8443?", "他不是早上吃药吗？我都给他摆好了。", "那条地铁能直接到吗？"],
    Trait.SUPPOSES: ["If we ever move, the desk would go too.", "如果将来上双向 TLS，说不定要挪端口。"],
    Trait.REPORTS: ["The wiki still says it is 14.11.", "部署文档上写着端口是 8443。", "听说要涨价。"],
    Trait.CHANGES: [
        "Rehearsals moved to the sailing club.",
        "提醒改成 8:10 吧。",
        "从今天起 authn 由小冉接。",
    ],
    Trait.CORRECTS: ["I had the wrong letter yesterday, it is D14.", "我写错了，实际开的是 8444。"],
    Trait.RETRACTS: ["Scratch that, please.", "算了，那条别记了。", "Delete the key you hold."],
    Trait.REVERTS: ["Bus events return to JSON.", "退回最早那套。"],
    Trait.TEMPORARY: ["Until 17 October Dmitri signs off.", "只有这周改到周三。", "这三天换我爸去。"],
    Trait.PLANS: ["We plan to drop 3.9.", "打算下个月搬家。"],
}
LACK = {
    Trait.QUESTION: ["I left the car at home.", "吗啡是一种药", "他呢子大衣很好看"],
    Trait.NUMBER: ["no figures here", "我们一起去", "一样的东西"],
    Trait.DATE: ["may I come in", "the last one was better", "how long does it last", "我们一起去吃饭"],
    Trait.NAME: ["I think I'm fine", "See you on Monday", "The weather is nice", "OK I am here", "你好"],
    Trait.FIRST_PERSON: ["the mind is weak", "he sees it", "他喜欢喝茶"],
    Trait.SECOND_PERSON: ["young people", "he sees it", "他喜欢喝茶"],
    Trait.NEGATION: ["a notable knot", "差不多了", "对不起", "特别好", "没错"],
    Trait.DECISION: ["do you remember the port?", "a noteworthy mind", "他记得很清楚"],
    Trait.GREETING: [
        "Hi, where is the key?",
        "thanks to the rain the trip was cancelled",
        "你",
        "",
        "!!!",
        "好的，端口改成 8443",
    ],
    Trait.ASKS_LAST: ["Where is it? I looked everywhere.", "你去哪了？我找了你半天。", "He left"],
    Trait.MOSTLY_ASKS: [
        "The fitting is rebooked to 6 May at 14:40, same dentist. Shall I confirm?",
        "He left",
    ],
    Trait.SUPPOSES: [
        "The night shift moved to Mia from the 16th, and if she is back we'd talk.",
        "改成五点了。",
    ],
    Trait.REPORTS: ["I misread the sheet, it says 2026.", "端口是 8443。"],
    Trait.CHANGES: ["The rack holding db-west is D14.", "端口是 8443。"],
    Trait.CORRECTS: ["The rack is D14.", "端口是 8444。"],
    Trait.RETRACTS: ["Don't forget the milk.", "门锁换了电池。"],
    Trait.REVERTS: ["My back hurts.", "端口是 8443。"],
    Trait.TEMPORARY: ["I run on Tuesdays.", "每周二跑步。"],
    Trait.PLANS: ["It is 1.29.6.", "搬家改到下个月了。"],
}


@pytest.mark.parametrize("sign", list(Trait), ids=lambda sign: sign.name)
def test_signs_are_where_they_are_meant(sign):
    for text in HAVE[sign]:
        assert sign in traits(text), text
    for text in LACK[sign]:
        assert sign not in traits(text), text


def test_a_text_can_carry_several_and_none():
    found = traits("Do you remember what I decided on 3 May about Anna?")
    assert found == (
        Trait.QUESTION
        | Trait.ASKS_LAST
        | Trait.SECOND_PERSON
        | Trait.FIRST_PERSON
        | Trait.DECISION
        | Trait.NUMBER
        | Trait.DATE
        | Trait.NAME
        | Trait.MOSTLY_ASKS
    )
    assert traits("rain in the north") == traits("") == Trait(0)


def test_the_numbers_stored_keep_their_meaning():
    assert {sign.name: sign.value for sign in Trait} == {
        "QUESTION": 1,
        "NUMBER": 2,
        "DATE": 4,
        "NAME": 8,
        "FIRST_PERSON": 16,
        "SECOND_PERSON": 32,
        "NEGATION": 64,
        "DECISION": 128,
        "GREETING": 256,
        "ASKS_LAST": 512,
        "MOSTLY_ASKS": 1024,
        "SUPPOSES": 2048,
        "REPORTS": 4096,
        "CHANGES": 8192,
        "CORRECTS": 16384,
        "RETRACTS": 32768,
        "REVERTS": 65536,
        "TEMPORARY": 131072,
        "PLANS": 262144,
    }


@given(st.text())
def test_any_text_has_traits(text):
    assert 0 <= traits(text).value < 2**19
    assert traits(text) == traits(text)


def test_a_megabyte_costs_no_more_than_its_beginning():
    for text in ("nginx 502 重启\n" * 60_000, "a" * 10**6, "'" * 10**6, "《" * 10**6, "last " * 200_000):
        began = time.thread_time()
        traits(text)
        assert time.thread_time() - began < 0.1
