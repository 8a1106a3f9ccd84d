"""The metrics of rankings, and the report of an evaluation."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from statistics import fmean
from typing import Any

import numpy as np

from jiyi.evaluate.dataset import Question

__all__ = [
    "DEPTH", "METRICS", "SESSIONS", "Evaluation", "Ingest", "Latency", "Outcome", "Run", "Scores", "as_of_ok",
    "auroc", "current_ok", "measure", "percentile", "reciprocal_rank", "share_found",
]  # fmt: skip

DEPTH = 20
"""How many messages each question asks for."""

SESSIONS = 5
"""How many distinct sessions of the ranking the session metrics look at."""

_TOP_RANKS = 10  # of the strict metric and of those about change


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One question and what a system found for it."""

    question: Question
    ranking: tuple[str, ...]  # ids of the first `DEPTH` messages, best first
    sessions: tuple[str, ...]  # ids of the first `SESSIONS` distinct sessions of the ranking
    evidence_sessions: tuple[str, ...]  # the sessions that hold the evidence
    nothing_relevant: float | None = None  # how sure the system is that there is no answer
    ranked: bool = True  # False: the system ranks nothing


def share_found(found: Collection[str], wanted: Collection[str], *, one_is_enough: bool = False) -> float:
    """Return the share of ``wanted`` that is in ``found``; with ``one_is_enough``, 1 or 0 for any of it."""
    hits = sum(id_ in found for id_ in wanted)
    return float(hits > 0) if one_is_enough else hits / len(wanted)


def reciprocal_rank(ranking: Sequence[str], wanted: Collection[str]) -> float:
    """Return 1 / the place of the first of ``wanted`` in ``ranking``, counted from 1; 0 if none is there."""
    return next((1 / place for place, id_ in enumerate(ranking, 1) if id_ in wanted), 0.0)


def current_ok(ranking: Sequence[str], evidence: Collection[str], stale: Collection[str]) -> bool:
    """Return whether some evidence is among the first ten, above everything stale."""
    known = (id_ in evidence for id_ in ranking[:_TOP_RANKS] if id_ in evidence or id_ in stale)
    return next(known, False)


def as_of_ok(
    ranking: Sequence[str], evidence: Collection[str], stale: Collection[str], *, one_is_enough: bool = False
) -> bool:
    """Return whether all evidence, or any if one is enough, is in the first ten, above everything stale."""
    if one_is_enough:
        return current_ok(ranking, evidence, stale)
    top = list(ranking[:_TOP_RANKS])
    first_stale = next((place for place, id_ in enumerate(top) if id_ in stale), len(top))
    return set(evidence) <= set(top[:first_stale])


def auroc(answerable: Sequence[float], unanswerable: Sequence[float]) -> float | None:
    """Return the probability that one of ``answerable`` is lower than one of ``unanswerable``; None of none.

    Ties count half: the Mann-Whitney statistic (Hanley & McNeil, Radiology 143, 1982).
    """
    if not len(answerable) or not len(unanswerable):
        return None
    high, low = np.sort(unanswerable), np.asarray(answerable)
    below = sum(np.searchsorted(high, low, side=side).sum() for side in ("left", "right"))
    return float(1 - below / (2 * len(low) * len(high)))


def percentile(values: Sequence[float], q: float) -> float | None:
    """Return the ``q``-th percentile, between neighbours linearly; None of no values."""
    return float(np.percentile(values, q)) if values else None


def measure(outcomes: Sequence[Outcome]) -> dict[str, float | None]:
    """Return every metric of `METRICS` over ``outcomes``; None where it does not apply to them."""
    ranked = [outcome for outcome in outcomes if outcome.question.answerable and outcome.ranked]
    figures = {name: _average(ranked, judge) for name, judge in _JUDGES.items()}
    figures["abstention_auroc"] = _measure_abstention(outcomes)
    for name, (kind, judge) in _CHANGE_JUDGES.items():
        figures[name] = _average([outcome for outcome in ranked if outcome.question.kind == kind], judge)
    return figures


def _average(outcomes: Sequence[Outcome], judge: Callable[[Outcome], float]) -> float | None:
    return fmean(map(judge, outcomes)) if outcomes else None


def _measure_abstention(outcomes: Sequence[Outcome]) -> float | None:
    """Return the AUROC of `nothing_relevant`; None where an outcome has no such value."""
    values: dict[bool, list[float]] = {True: [], False: []}
    for outcome in outcomes:
        if outcome.nothing_relevant is None:
            return None
        values[outcome.question.abstain].append(outcome.nothing_relevant)
    return auroc(values[False], values[True])


def _recall(outcome: Outcome, k: int) -> float:
    question = outcome.question
    return share_found(outcome.ranking[:k], question.evidence, one_is_enough=question.one_is_enough)


def _session_recall(outcome: Outcome) -> float:
    some = outcome.question.one_is_enough
    return share_found(outcome.sessions, outcome.evidence_sessions, one_is_enough=some)


def _as_of(outcome: Outcome) -> float:
    question = outcome.question
    return as_of_ok(outcome.ranking, question.evidence, question.stale, one_is_enough=question.one_is_enough)


_JUDGES: Mapping[str, Callable[[Outcome], float]] = {
    "recall@5": lambda outcome: _recall(outcome, 5),
    "recall@10": lambda outcome: _recall(outcome, 10),
    "recall@20": lambda outcome: _recall(outcome, 20),
    "strict@10": lambda outcome: _recall(outcome, _TOP_RANKS) == 1,
    "session_recall@5": _session_recall,
    "session_strict@5": lambda outcome: _session_recall(outcome) == 1,
    "mrr": lambda outcome: reciprocal_rank(outcome.ranking, outcome.question.evidence),
    "hit@5": lambda outcome: reciprocal_rank(outcome.ranking[:5], outcome.question.evidence) > 0,
}
_CHANGE_JUDGES: Mapping[str, tuple[str, Callable[[Outcome], float]]] = {
    "current_ok": ("current", lambda o: current_ok(o.ranking, o.question.evidence, o.question.stale)),
    "as_of_ok": ("as_of", _as_of),
}

METRICS = (*_JUDGES, "abstention_auroc", *_CHANGE_JUDGES)
"""The names of all metrics, in the order they are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """The metrics over some questions."""

    questions: int  # how many, those to abstain on included
    metrics: Mapping[str, float | None]  # by name, see `jiyi.evaluate.METRICS`; None: does not apply


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long a question took, in milliseconds; None where nothing was measured."""

    search_p50: float | None = None  # searching, without embedding the question
    search_p95: float | None = None
    embed_p50: float | None = None  # embedding the question
    context_p50: float | None = None  # building a window, without embedding
    context_p95: float | None = None
    with_embedding_p50: float | None = None  # searching and embedding together; not in the JSON
    with_embedding_p95: float | None = None

    @classmethod
    def of(cls, times: Mapping[str, Sequence[float]]) -> "Latency":
        """Return the percentiles of times by the first part of their names."""
        parts = [(field.name, *field.name.split("_p")) for field in fields(cls)]
        return cls(**{name: percentile(times.get(of, ()), float(q)) for name, of, q in parts})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
    """What filling the memories took, over all conversations."""

    messages: int
    seconds_text: float  # until everything was found by its words
    seconds_vectors: float | None = None  # until the vectors were there, too; None: not made in this run


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One system on one file."""

    file: str  # the file's name, without its folder
    language: str
    system: str  # "jiyi", or the baseline's name
    backend: str | None  # where the memory lived; None for a baseline
    embedder: str | None  # whose vectors; None where none are used
    scores: Scores  # over all questions
    by_category: Mapping[str, Scores]
    evidence_in_context: Mapping[int, float | None] = field(default_factory=dict)  # by budget in tokens
    latency: Latency
    ingest: Ingest
    notes: tuple[str, ...] = ()  # what was not as it should be; not in the JSON

    def as_dict(self) -> dict[str, Any]:
        """Return the run as plain JSON values; its keys are the same for every run."""
        latency = asdict(self.latency)
        del latency["with_embedding_p50"], latency["with_embedding_p95"]
        return {
            "file": self.file,
            "language": self.language,
            "system": self.system,
            "backend": self.backend,
            "embedder": self.embedder,
            "questions": self.scores.questions,
            "metrics": _round_all(self.scores.metrics),
            "evidence_in_context": _round_all({str(n): v for n, v in self.evidence_in_context.items()}),
            "by_category": {name: _round_all(scores.metrics) for name, scores in self.by_category.items()},
            "latency_ms": _round_all(latency),
            "ingest": _round_all(asdict(self.ingest)),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The runs of one or several files, jiyi's before its baselines'."""

    runs: tuple[Run, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return what ``jiyi evaluate --json`` writes."""
        return {"version": 1, "runs": [run.as_dict() for run in self.runs]}


def _round_all(figures: Mapping[str, float | None]) -> dict[str, float | None]:
    return {name: None if value is None else round(value, 6) for name, value in figures.items()}
