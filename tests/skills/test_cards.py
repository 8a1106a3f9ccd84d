from pathlib import Path

import fastjsonschema
import pytest
from refusing import raises, refused

from jiyi.errors import InputError
from jiyi.records.skill import Skill
from jiyi.skills import OPEN_SKILL, Disclosure, SkillRegistry, cards, open_skill_tool
from jiyi.text import counter_for

COUNTER = counter_for()
ENGLISH = "Handles the forms of department {n}, its approvals and yearly budget. Use when {n} is mentioned."
CHINESE = "处理第 {n} 部门的表格、审批和年度预算。客户或同事提到第 {n} 部门时使用。"


def some(count, text=ENGLISH):
    return [Skill(name=f"skill-{n:03}", description=text.format(n=n), folder=Path("x")) for n in range(count)]


def test_a_line_for_each_skill():
    shown = cards(some(2), COUNTER, "en", 1000)
    head, *lines = shown.text.splitlines()
    assert "open_skill" in head
    assert lines == [f"- skill-000: {ENGLISH.format(n=0)}", f"- skill-001: {ENGLISH.format(n=1)}"]
    assert shown.tokens == COUNTER.count_text(shown.text)
    assert shown.note == ""
    assert "open_skill" in cards(some(2), COUNTER, "zh", 1000).text.splitlines()[0]


def test_a_description_takes_one_line_and_no_skills_show_nothing():
    skill = Skill(name="a", description="one\n\n# two", when_to_use="On\nMondays.", folder=Path("a"))
    assert cards([skill], COUNTER, "en", 1000).text.splitlines()[1:] == ["- a: one # two On Mondays."]
    assert cards([], COUNTER, "en", 1).text == ""


@pytest.mark.parametrize("text", [ENGLISH, CHINESE], ids=["en", "zh"])
def test_of_300_skills_only_the_names_are_shown(text):
    skills = some(300, text)
    whole = cards(skills, COUNTER, "en", 100_000)
    assert whole.note == ""
    assert whole.tokens > 7500

    names = cards(skills, COUNTER, "en", 1500)
    assert names.tokens <= 1500
    assert names.note.endswith("names only")
    assert all(skill.name in names.text for skill in skills)
    assert "department" not in names.text


def test_no_skills_and_an_unknown_language_are_refused(tmp_path, examples):
    refused(InputError, "language", cards, some(3), COUNTER, "fr", 500)
    refused(InputError, "no skills", open_skill_tool, SkillRegistry(tmp_path))
    refused(InputError, "language", open_skill_tool, SkillRegistry(examples), "fr")


# --- the tool that opens one


@pytest.mark.parametrize("language", ["zh", "en"])
def test_only_skills_there_are_can_be_asked_for(examples, language):
    registry = SkillRegistry(examples)
    tool = open_skill_tool(registry, language)
    assert (tool["type"], tool["function"]["name"]) == ("function", OPEN_SKILL)
    check = fastjsonschema.compile(tool["function"]["parameters"])
    for arguments in ({"name": name} for name in registry.names):
        assert Disclosure(registry).open(**check(arguments))
    asked = check({"name": "nginx-502", "resource": "references/upstream-errors.md"})
    assert "no live upstreams" in Disclosure(registry).open(**asked)
    for wrong in ({}, {"name": "nothing"}, {"name": "nginx-502", "other": 1}):
        raises(fastjsonschema.JsonSchemaValueException, check, wrong)
