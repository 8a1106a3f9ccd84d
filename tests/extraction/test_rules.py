"""Standing instructions to the assistant: which are read, how well, and what becomes of them as facts."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from said import read
from tables import read_tables

from jiyi.extraction import Statement
from jiyi.records import Scope

LABELLED = Path(__file__).parents[2] / "bench" / "data" / "rules.txt"
TABLES = read_tables(__file__)
ANA = Scope(user_id="ana", session_id="s")
BOUNDS = {"en": (0.9, 0.75), "zh": (0.8, 0.45)}  # precision and recall of what nothing was tuned on


def rules(text: str, **options: str) -> list[Statement]:
    return [one for one in read(text, **options) if one.category == "rule"]


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


@pytest.mark.parametrize(("text", "predicate"), TABLES["rules and their points"])
def test_a_rule_is_its_own_words_and_names_its_point(text, predicate):
    (rule,) = rules(text)
    assert (rule.predicate, rule.object, rule.action) == (predicate, text.rstrip("."), "state")


@pytest.mark.parametrize("text", TABLES["no rules"])
def test_what_is_no_rule(text):
    assert rules(text) == []


@pytest.mark.parametrize("role", ["assistant", "tool", "system"])
def test_only_users_give_rules(role):
    assert rules("Always answer in German.", role=role) == []


@pytest.fixture
def say(facts_day_by_day):
    memory, learn = facts_day_by_day

    def said(*texts: str) -> list[str]:
        for text in texts:
            learn(text)
        return [fact.object for fact in memory.facts(ANA, limit=1_000)]

    return said


@pytest.mark.parametrize(("rule", "back"), TABLES["taken back"])
def test_a_rule_is_taken_back_and_nothing_else_is(say, rule, back):
    before = say("Don't use tables", "I live in Leiden")
    assert len(say(rule)) == len(before) + 1
    assert say(back) == before


def test_what_is_no_longer_asked_ends_the_rule_and_stays_itself(say):
    say("Always answer in German.")
    assert say("Don't answer in German any more") == ["Don't answer in German any more"]
    assert say("以后都用德语回答") == ["以后都用德语回答"]


@pytest.mark.parametrize(("rule", "back"), TABLES["something else taken back"])
def test_what_takes_back_something_else_leaves_a_rule(say, rule, back):
    assert say(rule) == say(back)


@pytest.mark.parametrize(("older", "newer"), TABLES["newer about the same point"])
def test_a_newer_rule_about_the_same_point_takes_the_place_of_the_older(say, older, newer):
    say("Don't use tables", older)
    assert say(newer) == ["Don't use tables", newer.removesuffix(", not English")]


def test_the_same_rule_again_makes_it_surer(say):
    assert say("Always answer in German.", "以后都用德语回答") == ["Always answer in German"]
    assert len(say("Don't use tables", "never use emojis")) == 3
