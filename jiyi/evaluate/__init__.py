"""Is the memory any good? Questions with known evidence, asked to fresh memories and measured.

`load_dataset` reads a file, `evaluate` fills a memory with each of its conversations and asks
its questions; an `Evaluation` holds the figures. Recall is measured, not what a model would
answer: no LLM is called.
"""

from jiyi.evaluate.baselines import BASELINES
from jiyi.evaluate.dataset import Conversation, Dataset, Question, SessionLog, load_dataset, read_dataset
from jiyi.evaluate.metrics import METRICS, Evaluation, Ingest, Latency, Run, Scores
from jiyi.evaluate.run import Progress, evaluate
from jiyi.evaluate.systems import Opener, open_sqlite, opener_for, openers_for

__all__ = [
    "BASELINES",
    "METRICS",
    "Conversation",
    "Dataset",
    "Evaluation",
    "Ingest",
    "Latency",
    "Opener",
    "Progress",
    "Question",
    "Run",
    "Scores",
    "SessionLog",
    "evaluate",
    "load_dataset",
    "open_sqlite",
    "opener_for",
    "openers_for",
    "read_dataset",
]
