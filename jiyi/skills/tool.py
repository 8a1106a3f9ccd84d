"""The tool by which a model asks for a skill."""

from typing import Any

from jiyi.errors import InputError
from jiyi.skills.registry import SkillRegistry

__all__ = ["OPEN_SKILL", "open_skill_tool"]

OPEN_SKILL = "open_skill"
"""The tool's name; the sentence above the cards names it too."""

_WORDS = {
    "zh": {
        "tool": "打开一个技能，取得它的完整说明；加上 resource 则只取它的一个文件。",
        "name": "技能的名字",
        "resource": "技能里某个文件的名字，例如 references/codes.md；要说明本身时不填",
    },
    "en": {
        "tool": "Opens a skill and returns its full instructions; with resource, one of its files.",
        "name": "the skill's name",
        "resource": "a file of the skill, such as references/codes.md; leave out for the instructions",
    },
}


def open_skill_tool(registry: SkillRegistry, language: str = "en") -> dict[str, Any]:
    """Return the tool as an OpenAI definition; ``name`` can only be one of the skills there are.

    A call's arguments fit `Disclosure.open`: ``open(**arguments)``.

    Raises:
        InputError: there are no skills, so there is nothing to offer; or the language is unknown.
    """
    if not registry.names:
        raise InputError("there are no skills to open; offer this tool only where the registry has some")
    if language not in _WORDS:
        raise InputError(f'language must be "zh" or "en", not {language!r}')
    words = _WORDS[language]
    return {
        "type": "function",
        "function": {
            "name": OPEN_SKILL,
            "description": words["tool"],
            "parameters": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "enum": list(registry.names), "description": words["name"]},
                    "resource": {"type": "string", "description": words["resource"]},
                },
                "required": ["name"],
                "additionalProperties": False,
            },
        },
    }
