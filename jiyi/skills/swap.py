"""Which skills a question opens and closes."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from jiyi.skills.route import Routed

__all__ = ["MARGIN", "Swapped", "choose"]

MARGIN = 0.5
"""How much better a skill must fit than those that are open, in scores: half of what makes it fit at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swapped:
    """Skills that came into the window and went out of it at once, and why."""

    opened: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    why: str = ""  # what it was for: the question with what it shares with the skill, or a task

    def __bool__(self) -> bool:
        """Say whether anything changed."""
        return bool(self.opened or self.closed)

    @property
    def told(self) -> str:
        """The change in a line."""
        parts = (("closed", self.closed), ("opened", self.opened))
        done = "; ".join(f"{what} {', '.join(names)}" for what, names in parts if names)
        return f"{done}: {self.why}"


def choose(found: Sequence[Routed], opened: Collection[str], routed: Collection[str]) -> Swapped:
    """Return what a question changes.

    The skill that fits best is opened where it fits better by `MARGIN` than every open one, and
    then what routing had opened before goes. What does not fit at all counts as 0, so that a
    question that fits no skill changes nothing.

    Args:
        found: every skill with its score for the question, the best first.
        opened: names of open skills.
        routed: those of them that routing opened.
    """
    if not found or found[0].score < 1:
        return Swapped()
    best = found[0]
    near = {one.skill.name for one in found[1:] if best.score - max(one.score, 0.0) < MARGIN}
    if near.intersection(opened):
        return Swapped()
    name = best.skill.name
    return Swapped(
        opened=() if name in opened else (name,),
        closed=tuple(one for one in opened if one in routed and one != name),
        why=f"the question, {best.why}",
    )
