"""The cards of skills that are not open, and the tool that opens one."""

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
"""The name of the tool, which the sentence above the cards repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cards:
    """The text of the cards."""

    text: str  # "" without skills
    tokens: int  # of the text
    note: str = ""  # for the report, if there are names only


def cards(skills: Sequence[Skill], counter: TokenCounter, language: str, max_tokens: int) -> Cards:
    """Return a line for each skill, in order.

    If they have more than ``max_tokens``, only the names are shown, and ``note`` says so.

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
    """Return the tool as an OpenAI definition; ``name`` is an enum of the skills.

    The arguments of a call are those of `Disclosure.open`: ``open(**arguments)``.

    Raises:
        InputError: there are no skills, or the language is unknown.
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
