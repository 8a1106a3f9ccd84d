"""Standing instructions to the assistant: which are read, how well, and what becomes of them as facts."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jiyi.extraction import Statement, extract
from jiyi.long_term.facts.memory import FactMemory
from jiyi.records import Message, Scope
from jiyi.storage import SqliteDatabase, Store

LABELLED = Path(__file__).parents[2] / "bench" / "data" / "rules.txt"
ANA = Scope(user_id="ana", session_id="s")
BOUNDS = {"en": (0.9, 0.75), "zh": (0.8, 0.45)}  # precision and recall of what nothing was tuned on


def rules(text: str) -> list[Statement]:
    read = extract(text, speaker="Ana", role="user", said_at=datetime(2026, 6, 1, tzinfo=UTC), zone=UTC)
    return [one for one in read if one.category == "rule"]


def labelled(part: str) -> Iterator[tuple[str, str]]:
    here = ""
    for line in LABELLED.read_text("utf-8").splitlines():
        if line.startswith("part: "):
            here = line.removeprefix("part: ")
        elif "=>" in line and not line.startswith("#") and here == part:
            text, label = line.split("=>")
            yield text.strip(), label.split()[0] if label.strip() else ""


@pytest.mark.parametrize("language", BOUNDS)
def test_what_was_not_tuned_on_is_read_well_enough(language):
    right = given = wanted = 0
    for text, label in labelled("unseen"):
        if (re.search("[\u4e00-\u9fff]", text) is not None) != (language == "zh"):
            continue
        found = rules(text)
        kind = "" if not found else "rule" if any(one.object for one in found) else "back"
        right += bool(kind) and kind == label
        given += bool(kind)
        wanted += bool(label)
    precision, recall = BOUNDS[language]
    assert wanted >= 40
    assert right / given >= precision
    assert right / wanted >= recall


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("Always answer in German.", "answer language"),
        ("请一直用英文回答我", "回答语言"),
        ("keep your answers short", "answer length"),
        ("从现在起单位都用公制", "单位"),
        ("From now on, use metric units.", "units"),
        ("Always address me as Dr. Okafor", "form of address"),
        ("Don't use bullet points", "rule"),
        ("When you write code, use type hints.", "rule"),
        ("Don't ever push to main directly", "rule"),
        ("I don't want you to touch the prod database", "rule"),
        ("Under no circumstances delete rows in prod", "rule"),
        ("Never skip the review", "rule"),
        ("Don't deploy on Fridays", "rule"),
        ("千万别动生产库", "规则"),
        ("千万别在周五下午发版", "规则"),
        ("记住，代码注释都用英文写", "规则"),
        ("不要叫我先生", "规则"),
    ],
)
def test_a_rule_is_its_own_words_and_names_its_point(text, predicate):
    (rule,) = rules(text)
    assert (rule.predicate, rule.object, rule.action) == (predicate, text.rstrip("."), "state")


@pytest.mark.parametrize(
    "text",
    [
        "Please answer this one in English",
        "I told him to always answer in German",
        "she said: from now on metric units",
        "Should I always use type hints?",
        "we always use metric units at work",
        "the linter never suggests Java",
        "Don't ever change!",
        "I don't want you to worry about me",
        "Don't push yourself too hard",
        "don't merge anything until Anna is back",
        "Don't commit yet.",
        "千万别告诉我妈",
        "以后都用它",
        "What is a quark? Answer in one sentence.",
        "以后我每天跑步",
        "用英文翻译一下这句",
        "把这段话用英文写一遍",
        "老师说以后作业都用英文写",
    ],
)
def test_what_is_no_rule(text):
    assert rules(text) == []


@pytest.mark.parametrize("role", ["assistant", "tool", "system"])
def test_only_users_give_rules(role):
    said = extract(
        "Always answer in German.",
        speaker=None,
        role=role,
        said_at=datetime(2026, 6, 1, tzinfo=UTC),
        zone=UTC,
    )
    assert not any(one.category == "rule" for one in said)


@pytest.fixture
def say(path):
    database = SqliteDatabase(path)
    store = Store(database)
    now = [datetime(2026, 6, 1, 9, tzinfo=UTC)]
    memory = FactMemory(store, clock=lambda: now[0])

    def said(*texts: str) -> list[str]:
        for text in texts:
            message = Message(role="user", name="Ana", content=text, created_at=now[0], scope=ANA)
            with store.transaction():
                memory.learn([one for one in store.put([message]) if isinstance(one, Message)])
            now[0] += timedelta(days=1)
        return [fact.object for fact in memory.facts(ANA, limit=1_000)]

    yield said
    database.close()


@pytest.mark.parametrize(
    ("rule", "back"),
    [
        ("以后都用英文回答我", "不用再用英文回答了"),
        ("Always answer in German.", "You can answer in English again"),
        ("以后都用德语回答", "You can answer in English again"),
        ("不要再推荐 Java 了", "可以推荐 Java 了"),
        ("Never suggest Java to me.", "you can suggest Java again"),
        ("Stop using emojis", "emojis are fine again"),
        ("回答的时候不要用表情", "emojis are fine again"),
        ("Always answer in German.", "forget the rule about German"),
        ("以后都用德语回答", "forget the rule about German"),
        ("Always answer in German.", "Forget what I said about answering in German"),
        ("以后回答简短一点", "回答不用那么短了"),
        ("keep your answers short", "you don't have to keep it short any more"),
    ],
)
def test_a_rule_is_taken_back_and_nothing_else_is(say, rule, back):
    others = ["Don't use tables", "I live in Leiden"]
    before = say(*others)
    assert len(say(rule)) == len(before) + 1
    assert say(back) == before


def test_what_is_no_longer_asked_ends_the_rule_and_stays_itself(say):
    say("Always answer in German.")
    assert say("Don't answer in German any more") == ["Don't answer in German any more"]
    assert say("以后都用德语回答") == ["以后都用德语回答"]


@pytest.mark.parametrize(
    ("rule", "back"),
    [
        ("Always answer in German.", "You can answer in German again"),
        ("Always answer in German.", "不用再用英文回答了"),
        ("不要再推荐 Java 了", "可以推荐 Python 了"),
        ("Don't use bullet points", "emojis are fine again"),
        ("keep your answers short", "回答不用那么详细了"),
        ("Always answer in German.", "forget the rule about emojis"),
    ],
)
def test_what_takes_back_something_else_leaves_a_rule(say, rule, back):
    assert say(rule) == say(back)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Always answer in German.", "reply in French from now on"),
        ("Always answer in German.", "以后用中文回答"),
        ("以后都用英文回答我", "speak to me in Italian"),
        ("keep your answers short", "以后回答都详细一点"),
        ("From now on, use metric units.", "以后单位一律用英制"),
        ("Always address me as Dr. Okafor", "以后请称呼我老王"),
    ],
)
def test_a_newer_rule_about_the_same_point_takes_the_place_of_the_older(say, older, newer):
    say("Don't use tables", older)
    assert say(newer) == ["Don't use tables", newer]


def test_the_same_rule_again_makes_it_surer(say):
    assert say("Always answer in German.", "以后都用德语回答") == ["Always answer in German"]
    assert len(say("Don't use tables", "never use emojis")) == 3
