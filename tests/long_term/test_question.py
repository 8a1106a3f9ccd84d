"""Questions taken apart: each sign where it is meant and not where it only looks like it."""

import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import AWKWARD

from jiyi.clock import to_micros
from jiyi.long_term.recall.question import named_speakers, read_question, without_names
from jiyi.text import analyse, query_terms

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)  # a Wednesday

HAVE = {
    "when": [
        "When did we move to Boston?",
        "what day was the party",
        "Which year did she graduate?",
        "How long have I had the cat?",
        "how many weeks ago was the race",
        "你什么时候去的杭州？",
        "合同哪天到期",
        "他们几月结婚",
        "修了多久",
    ],
    "how_many": [
        "How many cats does she have?",
        "how much did the bike cost",
        "How often do we meet?",
        "How old is your son?",
        "一共花了多少钱",
        "家里养了几只猫",
        "他儿子多大了",
    ],
    "own": [
        "What did I order?",
        "where is my bike",
        "who told us",
        "When do we leave?",
        "我的车停在哪",
        "咱们订的哪家酒店",
    ],
    "you_said": [
        "What did you recommend for dinner?",
        "which book have you mentioned",
        "What was your advice about the loan?",
        "the hotel suggested by you",
        "你推荐的餐厅叫什么",
        "您上次建议我看哪本书",
        "你的建议是什么",
        "你给的链接在哪",
        "Can you tell me what you recommended?",
        "你能告诉我你推荐过什么吗",
    ],
    "i_said": [
        "What did I say about the budget?",
        "which city have I mentioned",
        "I told you a number, which one?",
        "我之前说过什么",
        "我跟大家提到过哪个城市",
    ],
}
HAVE_NOT = {
    "when": ["Where did we move?", "whenever, who came?", "怎么去杭州", "上周三谁来了"],
    "how_many": ["How did it go?", "Which cat is it?", "几乎没人来是为什么", "怎么走"],
    "own": ["What did Anna order?", "How big is the US market?", "他的车停在哪"],
    "you_said": [
        "What do you like?",
        "Is this your bike?",
        "你住在哪",
        "他推荐的餐厅叫什么",
        "你喜欢我说的那家吗",
        "Can you tell me the time?",
        "Could you suggest a film?",
        "你能推荐一本书吗",
        "您可以告诉他吗",
    ],
    "i_said": ["What did Ana say?", "Where am I?", "我住在哪", "我喜欢你推荐的哪家"],
}


def flags(cases):
    return [(flag, text) for flag, texts in cases.items() for text in texts]


@pytest.mark.parametrize(("flag", "text"), flags(HAVE))
def test_a_question_asks_for(flag, text):
    assert getattr(read_question(text, NOW), flag)


@pytest.mark.parametrize(("flag", "text"), flags(HAVE_NOT))
def test_a_question_does_not_ask_for(flag, text):
    assert not getattr(read_question(text, NOW), flag)


def test_the_question_itself_stays_as_it_was_asked():
    asked = read_question("  Which port does pay-gw use?\n", NOW)
    assert asked.text == "  Which port does pay-gw use?\n"
    assert asked.terms == tuple(query_terms(asked.text))
    assert asked.asked_at == to_micros(NOW)
    assert asked.ranges == ()


@pytest.mark.parametrize(
    ("text", "marked", "plain"),
    [
        ("Did we meet Anna Smith in Boston?", "Anna Smith Boston", "meet"),
        ("Which version of Kubernetes 1.29 is it?", "Kubernetes 1.29", "version"),
        ("who drove 300 miles", "300", "drove miles"),
        ('Who wrote "the long way home"?', "long way home", "wrote"),
        ("Tell me about the Lord of the Rings please", "Lord Rings", ""),
        ("谁推荐了《百年孤独》这本书", "百年孤独", "推荐 本书"),
        ("“老地方”餐厅在哪条路", "老地方", "餐厅"),
        ("我买的MacBook花了多少钱", "MacBook", "花了"),
        ("网关报502错误怎么修好", "502", "网关 错误"),
        ("我在2023年去过哪家医院", "2023", "医院"),
    ],
)
def test_names_titles_and_numbers_are_its_entities(text, marked, plain):
    found = read_question(text, NOW).entities
    assert set(analyse(marked)) <= found
    assert not set(analyse(plain)) & found if plain else found == set(analyse(marked))


@pytest.mark.parametrize(
    "text", ["Hiking is where?", "Where's lunch? Anything new. Anyone!", "谁会来", "", "Which one? What for?"]
)
def test_the_first_word_of_a_sentence_is_no_name(text):
    assert read_question(text, NOW).entities == frozenset()


def test_a_name_of_two_words_is_one_at_the_begin_too():
    assert read_question("Anna Smith likes what?", NOW).entities == set(analyse("Anna Smith"))


def days(first, last, zone=UTC):
    """From the begin of the first day to the end of the last, days of March 2026 (0: last of February)."""
    begin, after = (datetime(2026, 2, 28, tzinfo=zone) + timedelta(days=d) for d in (first, last + 1))
    return to_micros(begin), to_micros(after)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What did I eat yesterday?", [(3, 3)]),
        ("昨天吃了什么", [(3, 3)]),
        ("Who called last Friday?", [(-1, -1)]),
        ("上周五谁打了电话", [(-1, -1)]),
        ("between 2026-03-01 and 2026-03-02, who came?", [(1, 2)]),
        ("3月1日或3月3日谁来了", [(1, 1), (3, 3)]),
        ("Who called?", []),
    ],
)
def test_times_are_seen_from_when_it_is_asked(text, expected):
    assert list(read_question(text, NOW).ranges) == [days(*span) for span in expected]


def test_a_day_is_a_day_of_the_zone():
    shanghai = ZoneInfo("Asia/Shanghai")
    late = datetime(2026, 3, 4, 20, tzinfo=UTC)  # the 5th in Shanghai
    assert read_question("昨天谁来了", late, shanghai).ranges == (days(4, 4, shanghai),)
    assert read_question("昨天谁来了", late).ranges == (days(3, 3),)


SPEAKERS = ["Melanie", "Anna Smith", "user", "AI", "王小明", "José García", "Will", "Project Manager", " "]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("What did Melanie cook?", ["Melanie"]),
        ("What did melanie cook?", ["Melanie"]),
        ("What is Mel's favourite dish?", ["Melanie"]),
        ("Did Anna call?", ["Anna Smith"]),
        ("Did Ms Smith call?", ["Anna Smith"]),
        ("Did Anna Smith call Melanie?", ["Melanie", "Anna Smith"]),
        ("What does José play?", ["José García"]),
        ("Where does Will live?", ["Will"]),
        ("what did the project manager say", ["Project Manager"]),
        ("王小明喜欢什么", ["王小明"]),
        ("Melanie喜欢吃什么", ["Melanie"]),
        ("上周Mel做了什么菜", ["Melanie"]),
    ],
)
def test_speakers_are_named_by_any_of_their_names(text, named):
    assert [SPEAKERS[place] for place in named_speakers(text, SPEAKERS)] == named


@pytest.mark.parametrize(
    "text",
    [
        "What will happen tomorrow?",
        "Will it rain?",
        "It is over. Will they come?",
        "Is the melody new?",
        "Did Jo or An win?",
        "did mel call?",
        "Did Melanies call?",
        "Did Annabel call?",
        "What did the user say to the AI, and the User to it?",
        "小明喜欢什么",
        "",
    ],
)
def test_what_only_looks_like_a_name_names_nobody(text):
    assert named_speakers(text, SPEAKERS) == []


def test_function_words_are_names_only_where_they_are_written_like_one():
    names = ["May", "Don", "Queen of Hearts"]
    assert named_speakers("May I know what may be of use? Don't you, or I don't", names) == []
    assert named_speakers("What did May and Don say of the Queen?", names) == [0, 1, 2]


@pytest.mark.parametrize(
    "role", ["user", "User", "assistant", "tool", "system", "Bot", "用户", "助手", "机器人"]
)
def test_roles_are_no_names(role):
    assert named_speakers(f"What did {role} say, {role}?", [role]) == []
    assert named_speakers(f"{role}说了什么", [role]) == []


@pytest.mark.parametrize(
    ("text", "names", "rest"),
    [
        ("What does Melanie cook?", ["Melanie"], "What does cook?"),
        ("What is Mel's favourite dish?", ["Melanie"], "What is favourite dish?"),
        ("Is it Melanie’s dish, or Annabel's?", ["Melanie", "Anna"], "Is it dish, or Annabel's?"),
        ("Did Anna Smith call?", ["Anna Smith"], "Did call?"),
        ("What will Will cook?", ["Will"], "What will cook?"),
        ("王小明的生日是哪天", ["王小明"], "的生日是哪天"),
        ("Tom的生日是哪天", ["Tom"], "的生日是哪天"),
        ("Who cooks?", ["Melanie"], "Who cooks?"),
        ("Who cooks?", [], "Who cooks?"),
        ("Melanie?", ["Melanie"], "Melanie?"),
        ("王小明！", ["王小明"], "王小明！"),
        ("Mel and Anna", ["Melanie", "Anna"], "and"),
    ],
)
def test_names_are_taken_off_and_something_stays(text, names, rest):
    assert without_names(text, names) == rest


anything = st.text() | st.sampled_from(
    [*AWKWARD.values(), "a" * 5_000, "5 " * 3_000, "“" * 3_000, "你说" * 2_000]
)
anybody = st.lists(st.text(max_size=12) | st.sampled_from(SPEAKERS), max_size=5)


@given(text=anything, names=anybody, asked_at=st.datetimes(timezones=st.just(UTC)))
def test_any_text_is_fine(text, names, asked_at):
    asked = read_question(text, asked_at)
    assert asked.text == text
    assert all(begin < end for begin, end in asked.ranges)
    named = named_speakers(text, names)
    assert named == sorted(set(named))
    assert all(0 <= place < len(names) for place in named)
    rest = without_names(text, names)
    assert rest == text or any(letter.isalnum() for letter in rest)


@given(text=anything)
def test_without_names_to_take_off_only_white_space_changes(text):
    assert without_names(text, []).split() == text.split()


@pytest.mark.parametrize("text", ["word 1 ", "网关502错误", "A ", "“", "you said ", " ", "ü"])
def test_a_huge_question_is_read_in_good_time(text):
    huge = (text * 100_000)[:100_000]
    began = time.thread_time()
    read_question(huge, NOW)
    named_speakers(huge, ["Melanie"] * 20)
    without_names(huge, ["Melanie"] * 20)
    assert time.thread_time() - began < 10
