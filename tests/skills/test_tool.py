import fastjsonschema
import pytest

from jiyi.errors import InputError
from jiyi.skills import OPEN_SKILL, Disclosure, SkillRegistry, open_skill_tool


@pytest.mark.parametrize("language", ["zh", "en"])
def test_only_skills_there_are_can_be_asked_for(examples, language):
    registry = SkillRegistry(examples)
    tool = open_skill_tool(registry, language)
    assert tool["type"] == "function"
    assert tool["function"]["name"] == OPEN_SKILL
    check = fastjsonschema.compile(tool["function"]["parameters"])
    for arguments in ({"name": name} for name in registry.names):
        assert Disclosure(registry).open(**check(arguments))
    asked = check({"name": "nginx-502", "resource": "references/upstream-errors.md"})
    assert "no live upstreams" in Disclosure(registry).open(**asked)
    for wrong in ({}, {"name": "nothing"}, {"name": "nginx-502", "other": 1}):
        with pytest.raises(fastjsonschema.JsonSchemaValueException):
            check(wrong)


def test_the_cards_name_the_tool(examples):
    from jiyi.text import counter_for

    for language in ("zh", "en"):
        disclosure = Disclosure(SkillRegistry(examples))
        assert OPEN_SKILL in disclosure.blocks(counter_for(), language)[0].text


def test_no_tool_without_skills(tmp_path, examples):
    with pytest.raises(InputError, match="no skills"):
        open_skill_tool(SkillRegistry(tmp_path))
    with pytest.raises(InputError, match="language"):
        open_skill_tool(SkillRegistry(examples), "fr")
