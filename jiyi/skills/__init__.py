"""Skills: know-how that is shown only when it is needed."""

from jiyi.skills.cards import Cards, cards
from jiyi.skills.disclosure import Disclosure
from jiyi.skills.registry import SkillProblem, SkillRegistry
from jiyi.skills.route import Routed, Router, route
from jiyi.skills.shelf import SkillShelf
from jiyi.skills.swap import MARGIN, Swapped
from jiyi.skills.tool import OPEN_SKILL, open_skill_tool

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
