"""What the model is told of skills it has not opened: their cards, and the tool that opens one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jiyi.errors import InputError
from jiyi.prompts import wording
from jiyi.records.skill import Skill
from jiyi.skills.registry import SkillRegistry
from jiyi.text import TokenCounter

__all__ = ["OPEN_SKILL", "Cards", "cards", "open_skill_tool"]

OPEN_SKILL = "open_skill"
"""The tool's name; the sentence above the cards names it too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cards:
    """What the model sees of skills before one is opened."""

    text: str  # "" where there are no skills
    tokens: int  # of the text
    note: str = ""  # that names stand alone, for the report


def cards(skills: Sequence[Skill], counter: TokenCounter, language: str, max_tokens: int) -> Cards:
    """Return a line for each skill, in the order given.

    Where these are more than ``max_tokens`` by ``counter``, names stand alone, and ``note`` says so.

    Raises:
        InputError: the language is unknown.
    """
    intro = wording("skills", language)["intro"]
    if not skills:
        return Cards(text="", tokens=0)
    lines = (f"- {skill.name}: {skill.description} {skill.when_to_use}" for skill in skills)
    text, note = "\n".join([intro, *(" ".join(line.split()) for line in lines)]), ""
    tokens = counter.count_text(text)
    if tokens > max_tokens:
        note = f"{len(skills)} cards over {max_tokens:,} tokens: names only"
        text = "\n".join([intro, ", ".join(skill.name for skill in skills)])
        tokens = counter.count_text(text)
    return Cards(text=text, tokens=tokens, note=note)


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
