"""What an evaluation says: frozen values, and the JSON whose keys stay as they are."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["VERSION", "Evaluation", "Ingest", "Latency", "Run", "Scores", "differences"]

VERSION = 1
"""The version of the JSON."""

_LATENCIES = ("search_p50", "search_p95", "embed_p50", "context_p50", "context_p95")  # in the JSON


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
    """What filling the memories took, over all conversations."""

    messages: int
    seconds_text: float  # until everything was found by its words
    seconds_vectors: float | None = None  # until the vectors were there, too; None: not made in this run
    from_disk: int = 0  # vectors that a folder of vectors gave; not in the JSON


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
        latency = {name: getattr(self.latency, name) for name in _LATENCIES}
        seconds = {name: getattr(self.ingest, name) for name in ("seconds_text", "seconds_vectors")}
        return {
            "file": self.file,
            "language": self.language,
            "system": self.system,
            "backend": self.backend,
            "embedder": self.embedder,
            "questions": self.scores.questions,
            "metrics": _rounded(self.scores.metrics),
            "evidence_in_context": _rounded({str(n): v for n, v in self.evidence_in_context.items()}),
            "by_category": {name: _rounded(scores.metrics) for name, scores in self.by_category.items()},
            "latency_ms": _rounded(latency),
            "ingest": {"messages": self.ingest.messages, **_rounded(seconds)},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The runs of one or several files, jiyi's before its baselines'."""

    runs: tuple[Run, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return what ``jiyi evaluate --json`` writes."""
        return {"version": VERSION, "runs": [run.as_dict() for run in self.runs]}


def differences(one: Run, other: Run) -> dict[str, float]:
    """Return how much higher each metric of ``other`` is, for those that both have.

    ``window@500`` and the like are the evidence in windows of so many tokens. Between two
    backends all of them should be 0, up to the rounding of vectors.
    """
    figures = [
        dict(run.scores.metrics) | {f"window@{size}": held for size, held in run.evidence_in_context.items()}
        for run in (one, other)
    ]
    found = {name: (value, figures[1].get(name)) for name, value in figures[0].items()}
    return {name: b - a for name, (a, b) in found.items() if a is not None and b is not None}


def _rounded(figures: Mapping[str, float | None]) -> dict[str, float | None]:
    return {name: None if value is None else round(value, 6) for name, value in figures.items()}
