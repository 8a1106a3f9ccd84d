"""Skills: instructions that are shown only when they are needed."""

from jiyi.skills.cards import OPEN_SKILL, Cards, cards, open_skill_tool
from jiyi.skills.disclosure import Disclosure, SkillShelf
from jiyi.skills.registry import SkillProblem, SkillRegistry
from jiyi.skills.route import MARGIN, Routed, Router, Swapped, route

__all__ = [
    "MARGIN",
    "OPEN_SKILL",
    "Cards",
    "Disclosure",
    "Routed",
    "Router",
    "SkillProblem",
    "SkillRegistry",
    "SkillShelf",
    "Swapped",
    "cards",
    "open_skill_tool",
    "route",
]
