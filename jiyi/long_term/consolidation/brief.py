"""What consolidation keeps of an episode: a few short lines instead of a record of any size."""

from dataclasses import dataclass
from datetime import datetime

from jiyi.records import Episode, Outcome, TriggerType
from jiyi.text.cut import clipped

__all__ = ["Brief", "BriefStep", "one_line"]

_STEPS = 20
_WORDS = 160  # characters of a step, a cause, a name
_STORY = 400  # characters of what set it off and of what came of it


@dataclass(frozen=True, slots=True, kw_only=True)
class BriefStep:
    """A step of a `Brief`."""

    text: str  # what was done, one line
    tool: str  # the tool it used, or ""
    result: str  # how what it gave back begins
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """An episode in at most some thousand characters; what was longer ends in "…"."""

    id: str
    agent_id: str | None
    created_at: datetime
    outcome: Outcome
    trigger_type: TriggerType
    trigger: str  # what set it off
    summary: str  # what was done and what came of it, or why it failed
    target: str  # what it was about, or ""
    steps: tuple[BriefStep, ...]  # the first 20
    more_steps: int  # how many it had beside them

    @classmethod
    def of(cls, episode: Episode) -> "Brief":
        """Return the brief of an episode."""
        steps = episode.steps[:_STEPS]
        return cls(
            id=episode.id,
            agent_id=episode.scope.agent_id,
            created_at=episode.created_at,
            outcome=episode.outcome,
            trigger_type=episode.trigger_type,
            trigger=one_line(episode.trigger_summary, _STORY),
            summary=one_line(episode.outcome_summary, _STORY),
            target=one_line(episode.target or "", _WORDS),
            steps=tuple(
                BriefStep(
                    text=one_line(step.description, _WORDS),
                    tool=one_line(step.tool_name or "", _WORDS),
                    result=one_line(step.result or "", _WORDS),
                    failed=step.status == "failed",
                )
                for step in steps
            ),
            more_steps=len(episode.steps) - len(steps),
        )

    @property
    def cause(self) -> str:
        """Why it did not succeed, as far as it says: its summary, else what a failed step gave back."""
        if self.summary:
            return self.summary
        return next((step.result for step in reversed(self.steps) if step.failed and step.result), "")


def one_line(text: str, most: int) -> str:
    """Return a text on one line of at most ``most`` characters; see `jiyi.text.cut.clipped`."""
    if len(text) <= most and text.isprintable() and "  " not in text:  # most texts are one already
        return text.strip()
    shown = " ".join(text[: 2 * most].split())
    if len(text) > 2 * most:
        shown = shown.ljust(most + 1)  # white space may hide that something was cut
    return clipped(shown, most)
