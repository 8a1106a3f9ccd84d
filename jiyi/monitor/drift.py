"""Goal drift: whether a run of steps still serves its request.

Each step has a nearness to the goal from 0 to 1. Terms of the step that the goal has weigh 1, those of an
earlier step half the nearness of that step: "tail error.log" after "look at the logs of nginx" is still
near, and a chain of small digressions fades out. A weight of 1.5 is nearness 1.

The nearness is smoothed (exponentially weighted moving average, Roberts 1959); the score is 1 minus that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from jiyi.text import analyse, first_words, language, query_terms

__all__ = ["Drift", "Step", "find_drift", "last_run"]

_DRIFT_SCORE = 0.7  # from which a run drifts
_FULL_WEIGHT = 1.5  # of shared terms, from which the nearness of a step is 1
_MIN_STEPS = 4  # of a run before it can drift
_SMOOTHING = 0.35  # weight of the newest step in the average
_INHERITED_WEIGHT = 0.5  # weight of the terms of a near step in later steps
_FAILURE_STEPS = 12  # newest steps whose failures are counted
_SAME_ACTION = 0.8  # share of common terms from which two actions are the same
_MIN_TERMS = 2  # of a goal, and of a new request: "go on" and 继续 are none
_MAX_CHARS = 2_000  # of a goal and of a step


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a run."""

    text: str  # what was done, such as "docker restart nginx"
    ok: bool = True  # whether it went well


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How far a run has moved away from its goal."""

    score: float  # 0: at the goal; 1: nothing to do with it any more
    failures: int  # of the same action without success between
    drifting: bool  # whether someone should have a look
    why: str  # explanation


def find_drift(goal: str, steps: Sequence[Step], *, drifted: float = _DRIFT_SCORE, repeats: int = 3) -> Drift:
    """Return how far the steps have moved away from the goal.

    Steps come oldest first; the run drifts from the score ``drifted`` on, after four steps, or from
    ``repeats`` failures of one action without success between. If the goal has fewer than two words, only
    failures count. A step in another language than the goal that shares no term with it is skipped. Only the
    first 2,000 characters of each and failures of the last 12 steps count.
    """
    failures, action = _count_failures(steps)
    comparable = len(query_terms(goal[:_MAX_CHARS])) >= _MIN_TERMS
    nearness = _step_nearness(goal, steps) if comparable else []
    score = 1 - reduce(lambda mean, new: mean + _SMOOTHING * (new - mean), nearness) if nearness else 0.0
    far = len(nearness) >= _MIN_STEPS and score >= drifted
    why = f"{len(steps)} steps, near the request"
    if failures >= repeats:
        why = f"the same step failed {failures} times: {first_words(action, 80)}"
    elif far:
        why = f"the last steps have little to do with the request, such as: {first_words(steps[-1].text, 80)}"
    elif not comparable:
        why = "the request has too few words to tell"
    elif len(nearness) < _MIN_STEPS:
        why = f"{len(nearness)} steps are too few to tell"
    return Drift(score=round(score, 4), failures=failures, drifting=far or failures >= repeats, why=why)


def last_run(steps: Sequence[tuple[str, Step]]) -> tuple[str, list[Step]]:
    """Return the newest request of a session and the steps taken for it.

    A new question is a new request, unless it has no words of its own ("go on", 继续).
    """
    goal = previous = ""
    run: list[Step] = []
    for question, step in steps:
        if question != previous:
            previous = question
            if not goal or len(query_terms(question[:_MAX_CHARS])) >= _MIN_TERMS:
                goal, run = question, []
        run.append(step)
    return goal, run


def _step_nearness(goal: str, steps: Sequence[Step]) -> list[float]:
    """Return the nearness of each step that can be compared with the goal."""
    goal_language = language(goal)
    weights = dict.fromkeys(query_terms(goal[:_MAX_CHARS]), 1.0)
    nearness: list[float] = []
    for step in steps:
        terms = set(analyse(step.text[:_MAX_CHARS]))
        shared = sum(weights.get(term, 0.0) for term in terms)
        if not shared and language(step.text) != goal_language:
            continue  # words of two languages cannot be compared
        nearness.append(min(1.0, shared / _FULL_WEIGHT))
        for term in terms:
            weights[term] = max(weights.get(term, 0.0), _INHERITED_WEIGHT * nearness[-1])
    return nearness


def _count_failures(steps: Sequence[Step]) -> tuple[int, str]:
    """Return the failures and text of the action that failed most often since its last success."""
    failed: list[tuple[int, str, frozenset[str]]] = []
    for step in steps[-_FAILURE_STEPS:]:
        terms = frozenset(analyse(step.text[:_MAX_CHARS]))
        alike = (len(terms & other) >= _SAME_ACTION * max(len(terms | other), 1) for _, _, other in failed)
        index = next((place for place, same in enumerate(alike) if same), None)
        count = 0 if index is None else failed.pop(index)[0]
        if not step.ok:
            failed.append((count + 1, step.text, terms))
    return max(((count, text) for count, text, _ in failed), default=(0, ""))
