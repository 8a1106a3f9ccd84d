"""The tool by which a model asks for a skill."""

from typing import Any

from jiyi.errors import InputError
from jiyi.prompts import wording
from jiyi.skills.registry import SkillRegistry

__all__ = ["OPEN_SKILL", "open_skill_tool"]

OPEN_SKILL = "open_skill"
"""The tool's name; the sentence above the cards names it too."""


def open_skill_tool(registry: SkillRegistry, language: str = "en") -> dict[str, Any]:
    """Return the tool as an OpenAI definition; ``name`` can only be one of the skills there are.

    A call's arguments fit `Disclosure.open`: ``open(**arguments)``.

    Raises:
        InputError: there are no skills, so there is nothing to offer; or the language is unknown.
    """
    if not registry.names:
        raise InputError("there are no skills to open; offer this tool only where the registry has some")
    words = wording("skill_tool", language)
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
