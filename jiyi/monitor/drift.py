"""Goal drift: does a run of steps still serve what was asked for?

Each step has a nearness to the goal from 0 to 1. The step's terms that the goal has count 1, those
that an earlier near step brought in half as much as that step was near: "tail error.log" after
"look at the logs of nginx" is still near, and a chain of small turnings fades out. `ENOUGH` of that
is as near as can be.

The nearness is smoothed (exponentially weighted moving average, Roberts 1959); the score is
1 minus that. A run drifts when the score is at `DRIFTED` or above after `FEWEST` steps, or when one
action failed `repeats` times without success between.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from jiyi.text import analyse, language, query_terms

__all__ = ["DRIFTED", "ENOUGH", "FEWEST", "Drift", "Step", "find_drift", "last_run"]

DRIFTED = 0.7
"""The score from which a run counts as having left its goal."""

ENOUGH = 1.5
"""The weight of terms shared with the goal that makes a step as near as can be."""

FEWEST = 4
"""Steps a run has at least before its nearness says anything."""

_SMOOTHING = 0.35  # what the newest step counts in the average
_INHERITED = 0.5  # what a near step's own terms count in the steps after it
_LOOKED = 12  # newest steps in which failures are counted
_SAME = 0.8  # shared terms of two actions from which they are the same one
_FEWEST_TERMS = 2  # of a goal, to compare words with, and of a request; "go on" and 继续 ask for nothing new
_MOST_CHARS = 2_000  # of a goal and of a step


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a run."""

    text: str  # what was done, such as "docker restart nginx"
    ok: bool = True  # whether it went well


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How far a run has moved away from its goal."""

    score: float  # 0: at the goal; 1: nothing to do with it any more
    failures: int  # times the same action failed without success between
    drifting: bool  # whether someone should look
    why: str  # in plain words


def find_drift(
    goal: str,
    steps: Sequence[Step],
    *,
    drifted: float = DRIFTED,
    repeats: int = 3,
) -> Drift:
    """Return how far the steps have moved away from the goal.

    Pure: the same goal and steps give the same answer. A step in another language than the goal
    that shares no term with it is passed over. The first 2,000 characters of each are looked at,
    and failures of the last 12 steps.

    Args:
        goal: the original request; where it is "" or one word, only failures count.
        steps: what was done, oldest first.
        drifted: the score from which the run drifts.
        repeats: failures of one action that make the run drift.
    """
    failures, action = _failures(steps)
    says_enough = len(query_terms(goal[:_MOST_CHARS])) >= _FEWEST_TERMS
    near = _nearness(goal, steps) if says_enough else []
    score = _score(near)
    away = len(near) >= FEWEST and score >= drifted
    why = f"{len(steps)} steps, near the request"
    if failures >= repeats:
        why = f"the same step failed {failures} times: {_short(action)}"
    elif away:
        why = f"the last steps have little to do with the request, such as: {_short(steps[-1].text)}"
    elif not says_enough:
        why = "the request has too few words to tell"
    elif len(near) < FEWEST:
        why = f"{len(near)} steps are too few to tell"
    return Drift(
        score=round(score, 4),
        failures=failures,
        drifting=away or failures >= repeats,
        why=why,
    )


def last_run(steps: Sequence[tuple[str, Step]]) -> tuple[str, list[Step]]:
    """Return the newest request of a session and the steps taken for it.

    A new question is a new request, unless it has no words of its own ("go on", 继续).
    """
    goal = seen = ""
    run: list[Step] = []
    for asked, step in steps:
        if asked != seen:
            seen = asked
            if not goal or len(query_terms(asked[:_MOST_CHARS])) >= _FEWEST_TERMS:
                goal, run = asked, []
        run.append(step)
    return goal, run


def _nearness(goal: str, steps: Sequence[Step]) -> list[float]:
    """Return how near each step is; one that cannot be compared with the goal is passed over."""
    spoken = language(goal)
    known = dict.fromkeys(query_terms(goal[:_MOST_CHARS]), 1.0)
    near: list[float] = []
    for step in steps:
        terms = set(analyse(step.text[:_MOST_CHARS]))
        shared = sum(known.get(term, 0.0) for term in terms)
        if not shared and language(step.text) != spoken:
            continue  # words of two languages cannot be compared: it says nothing
        near.append(min(1.0, shared / ENOUGH))
        for term in terms:
            known[term] = max(known.get(term, 0.0), _INHERITED * near[-1])
    return near


def _score(near: Sequence[float]) -> float:
    if not near:
        return 0.0
    average = near[0]
    for value in near[1:]:
        average += _SMOOTHING * (value - average)
    return 1 - average


def _failures(steps: Sequence[Step]) -> tuple[int, str]:
    """Return how often the action that failed most did so, and its words; a success clears it."""
    running: list[tuple[int, str, frozenset[str]]] = []
    for step in steps[-_LOOKED:]:
        terms = frozenset(analyse(step.text[:_MOST_CHARS]))
        alike = next((i for i, (_, _, other) in enumerate(running) if _same(terms, other)), None)
        before = 0 if alike is None else running.pop(alike)[0]
        if not step.ok:
            running.append((before + 1, step.text, terms))
    return max(((count, text) for count, text, _ in running), default=(0, ""))


def _same(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= _SAME * max(len(one | other), 1)


def _short(text: str) -> str:
    flat = " ".join(text[:400].split())
    return flat if len(flat) <= 80 else flat[:79] + "…"
