"""How true is what the memory says now: one table for files in which things change.

    python bench/truth.py FILE... [--vectors DIR]

FILE is a file of the neutral format (docs/evaluate.md) or of talks (bench/data/README.md). Each
conversation goes into a memory of its own, as a caller would fill it: messages saved one after the
other, vectors made, then the questions asked. Beside jiyi stand dense search alone, dense search
plus .07 times the place in time, and a plain sum of z-scores of words, meaning and recency.

Rows: current_ok, as_of_ok (see docs/evaluate.md); first: the first hit is evidence; recall@10;
marks: share of `outdated_by` marks on the first ten hits that are right, and share of the stale hits
there that are marked (current questions); facts: share of the values that hold at the end held by an
active fact, and of the ended ones still active; AUROC and "nothing": share of the unanswerable and of
the answerable questions with nothing_relevant > .5.
"""

import argparse
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import numpy as np
from change import is_held, load
from kept import KeptEmbedder

from jiyi.embeddings import E5Embedder, Embedder
from jiyi.evaluate import Conversation, Question, open_sqlite
from jiyi.evaluate.baselines import bm25, dense
from jiyi.evaluate.metrics import as_of_ok, auroc, current_ok, share_found
from jiyi.evaluate.systems import MemorySystem
from jiyi.manager import MemoryManager

RECENCY = 0.07
TOP = 10


@dataclass(slots=True)
class Tally:
    """What one system came to on one file."""

    rows: dict[str, list[float]] = field(default_factory=dict)
    nothing: dict[bool, list[float]] = field(default_factory=lambda: {True: [], False: []})

    def note(self, name: str, value: float) -> None:
        self.rows.setdefault(name, []).append(float(value))

    def mean(self, name: str) -> str:
        values = self.rows.get(name)
        return f"{fmean(values):.3f}" if values else "-"


def ask_jiyi(memory: MemoryManager, conversation: Conversation, tally: Tally, ended: frozenset[str]) -> None:
    for question in conversation.questions:
        hits = memory.search(question.text, limit=20, kinds="message", asked_at=question.asked_at)
        note(question, [hit.id for hit in hits], tally)
        tally.nothing[question.abstain].append(hits.nothing_relevant)
        if question.kind == "current":
            top = list(hits)[:TOP]
            for hit in top:
                if hit.outdated_by:
                    tally.note("marks right", hit.id in question.stale or hit.id in ended)
                if hit.id in question.stale:
                    tally.note("marks reach", hit.outdated_by is not None)


def note(question: Question, ids: Sequence[str], tally: Tally) -> None:
    if not question.answerable:
        return
    tally.note("recall@10", share_found(ids[:TOP], question.evidence, one_is_enough=question.one_is_enough))
    tally.note("precision@1", bool(ids) and ids[0] in question.evidence)
    if question.kind == "current":
        tally.note("current_ok", current_ok(ids, question.evidence, question.stale))
        tally.note("first", bool(ids) and ids[0] in question.evidence)
    if question.kind == "as_of":
        ok = as_of_ok(ids, question.evidence, question.stale, one_is_enough=question.one_is_enough)
        tally.note("as_of_ok", ok)


def simple_systems(
    conversation: Conversation, embedder: Embedder
) -> Mapping[str, Callable[[str], np.ndarray]]:
    """Return the simple ways beside jiyi: scores of the messages in their order."""
    texts = [message.search_text for message in conversation.messages]
    cosine, words = dense(texts, embedder, lambda _done: None), bm25(texts)
    place = np.linspace(0, 1, len(texts))

    def both(question: str) -> np.ndarray:
        said = words(question)
        return z(np.where(np.isinf(said), 0, said)) + z(cosine(question)) + 0.5 * z(place)

    return {
        "dense": cosine,
        "dense + recency": lambda question: cosine(question) + RECENCY * place,
        "z-scores": both,
    }


def z(values: np.ndarray) -> np.ndarray:
    return (values - values.mean()) / max(float(values.std()), 1e-9)


def run(path: str, folder: str) -> tuple[dict[str, Tally], dict[str, list[bool]]]:
    """Fill a memory with each conversation and ask."""
    dataset, changes = load(path)
    tallies: dict[str, Tally] = {}
    facts: dict[str, list[bool]] = {"current": [], "old": []}
    with KeptEmbedder(E5Embedder(threads=2), folder) as embedder:
        for place, conversation in enumerate(dataset.conversations):
            draw = random.Random(place)
            with open_sqlite(embedder) as memory:
                system = MemorySystem(memory, draw)
                system.load(conversation)
                system.finish(lambda _done: None)
                values = changes[conversation.id].values if conversation.id in changes else []
                ended = frozenset(value.message for value in values if not value.holds)
                ask_jiyi(memory, conversation, tallies.setdefault("jiyi", Tally()), ended)
                active = memory.facts(limit=10_000, status="active")
                for value in values:
                    facts["current" if value.holds else "old"].append(is_held(value, active))
            for name, scores in simple_systems(conversation, embedder).items():
                tally = tallies.setdefault(name, Tally())
                ids = [message.id for message in conversation.messages]
                for question in conversation.questions:
                    order = np.argsort(-scores(question.text), kind="stable")
                    note(question, [ids[i] for i in order], tally)
    return tallies, facts


COLUMNS = ("current_ok", "first", "as_of_ok", "recall@10", "precision@1", "marks right", "marks reach")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--vectors", default="vectors")
    given = parser.parse_args()
    print(f"{'file':22}{'system':18}" + "".join(f"{name:>13}" for name in COLUMNS))
    for path in given.files:
        tallies, facts = run(path, given.vectors)
        for name, tally in tallies.items():
            print(f"{Path(path).stem:22}{name:18}" + "".join(f"{tally.mean(name):>13}" for name in COLUMNS))
        nothing = tallies["jiyi"].nothing
        area = auroc(nothing[False], nothing[True])
        print(
            f"{'':22}AUROC {area or 0:.3f}; nothing_relevant > .5: unanswerable "
            f"{above(nothing[True])}, answerable {above(nothing[False])}"
            f"; facts: current held {share(facts['current'])}, old active {share(facts['old'])}"
        )


def above(values: Sequence[float]) -> str:
    return share([value > 0.5 for value in values])


def share(values: Sequence[bool]) -> str:
    return f"{sum(values)}/{len(values)} ({sum(values) / max(len(values), 1):.2f})"


if __name__ == "__main__":
    main()
