"""Learn the weights of recall's ranking, and say how well they do on conversations not learned from.

    python bench/learn_weights.py FILE... [--vectors DIR] [--write]

Each conversation of the files (the neutral format, see docs/evaluate.md) goes into a memory of
its own; the features are those that a search computes. Printed are recall and strict recall at
10 and the AUROC of "nothing relevant", cross-validated over conversations (files of a single
conversation: over its questions), and again with each family of files (the same name in several
languages) held out. ``--write`` puts what was learned from everything into
jiyi/long_term/weights.py.
"""

import argparse
import random
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import jiyi.long_term.weights as table_of_weights
from jiyi.embeddings import E5Embedder
from jiyi.evaluate import Conversation, Question, load_dataset, open_sqlite
from jiyi.evaluate.metrics import auroc
from jiyi.evaluate.systems import MemorySystem
from jiyi.evaluate.vectors import MeasuredEmbedder, VectorFolder
from jiyi.long_term.features import NAMES, Features
from jiyi.long_term.ranking import SIGNALS, rank, signals
from jiyi.manager import MemoryManager
from jiyi.records import Query
from jiyi.storage import Candidates

Floats = NDArray[np.float64]

FOLDS = 5
PENALTY = 1e-3  # on squared weights of standardised features
FEWEST = 150  # candidates of a question that are learned from: the likeliest, and the evidence
STRANGERS = 1 / 3  # questions of other conversations for each own one: nothing answers them


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A question, asked to a memory."""

    file: str
    fold: int
    table: Candidates
    features: Features
    evidence: NDArray[np.intp]  # rows of the table; missed ones are not in it
    wanted: int  # evidence messages there are; 0: nothing answers
    own: bool  # of this conversation

    @property
    def family(self) -> str:
        return re.sub(r"-(zh|en)\b.*", "", self.file)


def ask_all(files: Sequence[str], vectors: str | None) -> Iterator[Asked]:
    """Fill a memory with each conversation and ask its own and some others' questions."""
    datasets = [load_dataset(file) for file in files]
    strangers = {
        language: [q for d in datasets if d.language == language for q in d.questions]
        for language in {d.language for d in datasets}
    }
    with VectorFolder(vectors or "vectors") as folder:
        embedder = MeasuredEmbedder(E5Embedder(threads=2), folder)
        for dataset in datasets:
            for place, conversation in enumerate(dataset.conversations):
                draw = random.Random(f"{dataset.file}/{place}")
                mine = set(conversation.questions)
                others = [q for q in strangers[dataset.language] if q not in mine]
                some = draw.sample(others, min(len(others), round(STRANGERS * len(mine))))
                with open_sqlite(embedder) as memory:
                    fill(memory, conversation, draw)
                    for number, question in enumerate([*conversation.questions, *some]):
                        single = len(dataset.conversations) == 1
                        fold = (number if single else place) % FOLDS
                        one = ask(memory, question, question in mine)
                        if one is not None:
                            yield Asked(dataset.file, fold, *one)
            print(f"asked {dataset.file}", flush=True)


def fill(memory: MemoryManager, conversation: Conversation, draw: random.Random) -> None:
    system = MemorySystem(memory, draw)
    system.load(conversation)
    system.finish(lambda _done: None)


def ask(
    memory: MemoryManager, question: Question, own: bool
) -> tuple[Candidates, Features, NDArray[np.intp], int, bool] | None:
    """Return what recall sees of a question; None for an own one without evidence that could be found."""
    if own and not question.answerable and not question.abstain:
        return None
    scope = memory._scope(None, None)
    query = Query(scope=scope, kinds=("message",), text=question.text, asked_at=question.asked_at)
    table, features, _ = memory._recall.examine(query)
    wanted = set(question.evidence) if own and question.answerable else set()
    rows = [row for row, (_, id_) in enumerate(table.keys) if id_ in wanted]
    return (table, features, np.array(rows, np.intp), len(wanted), own) if features else None


class Learned:
    """Weights of the features and of the confidence."""

    def __init__(self, asked: Sequence[Asked]) -> None:
        self.weights = listwise([one for one in asked if len(one.evidence)])
        rows = [(self.signals(one), float(not one.wanted), one.file) for one in asked]
        self.confidence = logistic(rows)

    def ranked(self, one: Asked) -> NDArray[np.intp]:
        return rank(one.features, one.table, dict(zip(NAMES, self.weights, strict=True))).rows

    def signals(self, one: Asked) -> list[float]:
        ranked = rank(one.features, one.table, dict(zip(NAMES, self.weights, strict=True)))
        return [*signals(one.features, ranked), 1.0]

    def nothing(self, one: Asked) -> float:
        return float(np.dot(self.confidence, self.signals(one)))


def importance(files: Sequence[str]) -> Floats:
    """Weigh questions so that a file counts with the root of how many it has."""
    counts = {file: files.count(file) for file in set(files)}
    weights = np.array([counts[file] ** -0.5 for file in files])
    return weights / weights.mean()


def listwise(asked: Sequence[Asked]) -> Floats:
    """Minimise the softmax cross-entropy of the evidence by Newton's method."""
    likely = [NAMES.index(name) for name in ("words", "apart")]
    lists, targets = [], []
    for one in asked:
        matrix = one.features.matrix.astype(np.float64)
        kept = np.union1d(np.argsort(-matrix[:, likely].sum(1))[:FEWEST], one.evidence)
        lists.append(matrix[kept])
        targets.append(np.isin(kept, one.evidence) / len(one.evidence))
    scale = np.concatenate(lists).std(0)
    scale[scale < 1e-9] = 1
    lists = [matrix / scale for matrix in lists]
    shares = importance([one.file for one in asked]) / len(asked)
    weights = np.zeros(len(NAMES))
    for _ in range(30):
        slope, curve = 2 * PENALTY * weights, 2 * PENALTY * np.eye(len(NAMES))
        for matrix, target, share in zip(lists, targets, shares, strict=True):
            chance = matrix @ weights
            chance = np.exp(chance - chance.max())
            chance /= chance.sum()
            slope += share * (matrix.T @ (chance - target))
            mean = chance @ matrix
            curve += share * ((matrix * chance[:, None]).T @ matrix - np.outer(mean, mean))
        step = np.linalg.solve(curve, slope)
        weights -= step / max(1.0, np.abs(step).max())
        if np.abs(step).max() < 1e-6:
            break
    return weights / scale


def logistic(rows: Sequence[tuple[list[float], float, str]]) -> Floats:
    """Fit a logistic regression by Newton's method; the last signal is the constant."""
    matrix, target = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    shares = importance([row[2] for row in rows]) / len(rows)
    scale = np.where(matrix.std(0) > 1e-9, matrix.std(0), 1)
    matrix = matrix / scale
    penalty = np.full(matrix.shape[1], PENALTY)
    penalty[-1] = 0
    weights = np.zeros(matrix.shape[1])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-(matrix @ weights).clip(-30, 30)))
        slope = matrix.T @ (shares * (chance - target)) + 2 * penalty * weights
        curve = (matrix * (shares * chance * (1 - chance))[:, None]).T @ matrix + 2 * np.diag(penalty + 1e-9)
        step = np.linalg.solve(curve, slope)
        weights -= step / max(1.0, np.abs(step).max())
    return weights / scale


def report(title: str, judged: Sequence[tuple[Asked, Learned]]) -> None:
    print(f"\n{title}\n{'file':28} recall@5 recall@10 strict@10  auroc  auroc of strangers")
    by_file: dict[str, list[tuple[Asked, Learned]]] = defaultdict(list)
    for one, learned in judged:
        by_file[one.file].append((one, learned))
    for file, some in by_file.items():
        found = [
            [len(np.intersect1d(learned.ranked(one)[:k], one.evidence)) / one.wanted for k in (5, 10)]
            for one, learned in some
            if one.wanted
        ]
        five, ten = np.mean(found, axis=0)
        strict = np.mean([share[1] == 1 for share in found])
        print(f"{file:28} {five:8.3f} {ten:9.3f} {strict:9.3f}  {area(some, True)}  {area(some, False)}")


def area(some: Collection[tuple[Asked, Learned]], own: bool) -> str:
    yes = [learned.nothing(one) for one, learned in some if one.wanted]
    no = [learned.nothing(one) for one, learned in some if not one.wanted and one.own == own]
    value = auroc(yes, no)
    return f"{value:5.3f}" if value is not None else "    -"


def write(learned: Learned) -> None:
    """Put the numbers into the table of weights, whose comments stay as they are."""
    path = Path(table_of_weights.__file__)
    text = path.read_text(encoding="utf-8")
    found = dict(zip(NAMES, learned.weights, strict=True))
    sure = dict(zip((*SIGNALS, "constant"), learned.confidence, strict=True))
    head, middle, tail = text.partition("CONFIDENCE: ")
    for name, value in found.items():
        head = re.sub(rf'"{name}": [-\d.]+', f'"{name}": {value:.3f}', head)
    for name, value in sure.items():
        tail = re.sub(rf'"{name}": [-\d.]+', f'"{name}": {value:.3f}', tail)
    path.write_text(head + middle + tail, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", help="evaluation files")
    parser.add_argument("--vectors", help="a folder to keep vectors in")
    parser.add_argument("--write", action="store_true", help="put the weights into the package")
    given = parser.parse_args()
    asked = list(ask_all(given.files, given.vectors))
    judged = []
    for fold in range(FOLDS):
        learned = Learned([one for one in asked if one.fold != fold])
        judged += [(one, learned) for one in asked if one.fold == fold]
    report(f"{FOLDS} folds of conversations", judged)
    families = sorted({one.family for one in asked})
    if len(families) > 1:
        judged = []
        for family in families:
            learned = Learned([one for one in asked if one.family != family])
            judged += [(one, learned) for one in asked if one.family == family]
        report("each family of files held out", judged)
    learned = Learned(asked)
    for name, weight in zip(NAMES, learned.weights, strict=True):
        print(f"{name:18} {weight:8.3f}")
    for name, weight in zip((*SIGNALS, "constant"), learned.confidence, strict=True):
        print(f"{name:18} {weight:8.3f}")
    if given.write:
        write(learned)


if __name__ == "__main__":
    main()
