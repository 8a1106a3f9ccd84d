"""What the model is told of skills it has not opened: their cards, and the tool that opens one."""

from bisect import bisect_right
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

_SHORTEST = 6  # tokens of a description below which it says nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Cards:
    """What the model sees of skills before one is opened."""

    text: str  # "" where there are no skills
    tokens: int  # of the text
    note: str = ""  # what had to be shortened, for the report


def cards(skills: Sequence[Skill], counter: TokenCounter, language: str, max_tokens: int) -> Cards:
    """Return a line for each skill, in the order given, within ``max_tokens`` by ``counter``.

    Where all descriptions are too long together, each is cut to the same number of tokens; where that
    would leave less than 6, names stand alone; where even these are too many, the first ones do, and
    how many more there are. ``note`` says which.

    Raises:
        InputError: not even the sentence above the cards fits, or the language is unknown.
    """
    intro = wording("skills", language)["intro"]
    if not skills:
        return Cards(text="", tokens=0)
    full = [" ".join(f"{skill.description} {skill.when_to_use}".split()) for skill in skills]

    def lines(most: int | None) -> str:
        shown = (text if most is None else _cut(text, most, counter) for text in full)
        rows = (f"- {skill.name}: {text}" for skill, text in zip(skills, shown, strict=True))
        return "\n".join([intro, *rows])

    text, note = lines(None), ""
    if counter.count_text(text) > max_tokens:
        longest = max(counter.count_text(one) for one in full)
        # The largest length that fits; bisect looks for the first that does not.
        lengths = range(_SHORTEST, longest + 1)
        fit = bisect_right(lengths, max_tokens, key=lambda most: counter.count_text(lines(most)))
        if fit:
            most = lengths[fit - 1]
            text, note = lines(most), f"descriptions cut to {most} tokens each"
        else:
            text, note = _names(skills, counter, language, max_tokens)
        note = f"{len(skills)} cards over {max_tokens:,} tokens: {note}"
    return Cards(text=text, tokens=counter.count_text(text), note=note)


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


def _names(skills: Sequence[Skill], counter: TokenCounter, language: str, max_tokens: int) -> tuple[str, str]:
    names = [skill.name for skill in skills]
    words = wording("skills", language)

    def listed(count: int) -> str:
        more = [words["more"].format(len(names) - count)] if count < len(names) else []
        return "\n".join([words["intro"], ", ".join([*names[:count], *more])])

    if counter.count_text(listed(len(names))) <= max_tokens:
        return listed(len(names)), "names only"
    shown = bisect_right(range(len(names)), max_tokens, key=lambda n: counter.count_text(listed(n))) - 1
    if shown < 0:
        raise InputError(f"max_card_tokens={max_tokens} is too few for any card; 100 are enough for some")
    return listed(shown), f"names only, and {len(names) - shown} not named"


def _cut(text: str, most: int, counter: TokenCounter) -> str:
    """Return the beginning of a text, after a word where that is near."""
    kept = counter.truncate(text, most)
    if kept == text:
        return text
    before, space, rest = kept.rpartition(" ")
    whole = before if space and rest.isascii() and len(rest) < len(before) else kept
    return whole.rstrip(" ,.;:，。；：、") + "…"
