"""Is the memory any good? Questions with known evidence, asked to fresh memories and measured.

`load_dataset` reads a file, `evaluate` fills a memory with each of its conversations and asks
its questions; an `Evaluation` holds the figures. Recall is measured, not what a model would
answer: no LLM is called.
"""

from jiyi.evaluate.baselines import BASELINES
from jiyi.evaluate.dataset import Conversation, Dataset, Question, SessionLog, load_dataset, read_dataset
from jiyi.evaluate.metrics import METRICS, Evaluation, Ingest, Latency, Run, Scores
from jiyi.evaluate.run import Progress, evaluate
from jiyi.evaluate.systems import (
    MakeSystem,
    Opener,
    Ranking,
    Shown,
    System,
    open_sqlite,
    opener_for,
    openers_for,
)

__all__ = [
    "BASELINES",
    "METRICS",
    "Conversation",
    "Dataset",
    "Evaluation",
    "Ingest",
    "Latency",
    "MakeSystem",
    "Opener",
    "Progress",
    "Question",
    "Ranking",
    "Run",
    "Scores",
    "SessionLog",
    "Shown",
    "System",
    "evaluate",
    "load_dataset",
    "open_sqlite",
    "opener_for",
    "openers_for",
    "read_dataset",
]
