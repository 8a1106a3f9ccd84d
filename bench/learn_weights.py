"""Learn the weights of recall's ranking, and say how well they do on conversations not learned from.

    python bench/learn_weights.py FILE... [--vectors DIR] [--write]

Each conversation of the files (the neutral format, see docs/evaluate.md) goes into a memory of
its own; the features are those that a search computes. Learned are the weights of the features,
of the signs that one message has taken the place of another, and of those that nothing answers.
Printed are recall and strict recall at 10, the AUROC of "nothing relevant", and current_ok and
as_of_ok of files about change, cross-validated over conversations (files of a single
conversation: over its questions), and again with each family of files (the same name in several
languages) held out. ``--write`` puts what was learned from everything into
jiyi/long_term/recall/weights.py.
"""

import argparse
import random
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import jiyi.long_term.recall.weights as table_of_weights
from jiyi.embeddings import E5Embedder
from jiyi.evaluate import Conversation, Question, load_dataset, open_sqlite
from jiyi.evaluate.metrics import as_of_ok, auroc, current_ok
from jiyi.evaluate.systems import MemorySystem
from jiyi.evaluate.vectors import MeasuredEmbedder, VectorFolder
from jiyi.long_term.recall.answerable import ANSWER_SIGNS, answer_signs
from jiyi.long_term.recall.features import NAMES, Features
from jiyi.long_term.recall.judging import with_an_assistant
from jiyi.long_term.recall.outdated import PAIR_SIGNS, Pairs, compare, judged_rows, lifted
from jiyi.long_term.recall.ranking import SIGNALS, Ranked, rank, signals
from jiyi.manager import MemoryManager
from jiyi.records import Query
from jiyi.storage import Candidates

Floats = NDArray[np.float64]

FOLDS = 5
PENALTY = 1e-3  # on squared weights of standardised features
FEWEST = 150  # candidates of a question that are learned from: the likeliest, and the evidence
STRANGERS = 1 / 3  # questions of other conversations for each own one: nothing answers them
STALE = 10.0  # what a pair of an outdated statement and the one in force counts, beside other pairs
WORST = 3.0  # what it counts that an outdated statement would come above the one in force
ELSEWHERE = 0.3  # what pairs of files count that are not about change
PAIR_PENALTY = 4e-3
ANSWER_PENALTY = 3e-3
MISSING = 3.0  # what a question without an answer counts


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A question, asked to a memory."""

    file: str
    fold: int
    question: Question
    words: Mapping[str, str]  # of each message of the conversation
    table: Candidates
    features: Features
    evidence: NDArray[np.intp]  # rows of the table; missed ones are not in it
    stale: frozenset[int]  # rows of statements that do not hold
    wanted: int  # evidence messages there are; 0: nothing answers
    own: bool  # of this conversation
    of_change: bool  # of a file that tells what is outdated

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
            of_change = any(question.stale for question in dataset.questions)
            for place, conversation in enumerate(dataset.conversations):
                words = {message.id: message.search_text for message in conversation.messages}
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
                            yield Asked(dataset.file, fold, question, words, *one, of_change)
            print(f"asked {dataset.file}", flush=True)


def fill(memory: MemoryManager, conversation: Conversation, draw: random.Random) -> None:
    system = MemorySystem(memory, draw)
    system.load(conversation)
    system.finish(lambda _done: None)


def ask(
    memory: MemoryManager, question: Question, own: bool
) -> tuple[Candidates, Features, NDArray[np.intp], frozenset[int], int, bool] | None:
    """Return what recall sees of a question; None for an own one without evidence that could be found."""
    if own and not question.answerable and not question.abstain:
        return None
    scope = memory._scope(None, None)
    query = Query(scope=scope, kinds=("message",), text=question.text, asked_at=question.asked_at)
    table, features, _ = memory._long_term.recall.examine(query)
    wanted = set(question.evidence) if own and question.answerable else set()
    if features is None:
        return None
    rows = [row for row, (_, id_) in enumerate(table.keys) if id_ in wanted]
    stale = {row for row, (_, id_) in enumerate(table.keys) if own and id_ in question.stale}
    return table, features, np.array(rows, np.intp), frozenset(stale - set(rows)), len(wanted), own


class Learned:
    """Weights of the features, of pairs of messages, and of the signs that nothing answers."""

    def __init__(self, asked: Sequence[Asked]) -> None:
        self.weights = listwise([one for one in asked if len(one.evidence)])
        self.replaces = pairwise([self.judged(one) for one in asked if len(one.evidence)])
        rows = [(self.signals(one), float(not one.wanted), one.file) for one in asked]
        self.confidence = logistic([row[:2] for row in rows], importance([row[2] for row in rows]))
        missing = [one for one in asked if one.of_change and one.own and self.looks_for_answers(one)]
        told = [([*self.answer_signs(one), 1.0], float(not one.wanted)) for one in missing]
        counts = np.array([MISSING if target else 1.0 for _, target in told] or [1.0])
        told = told or [([0.0] * len(ANSWER_SIGNS) + [1.0], 0.0)]  # no file about change: nothing is missed
        self.unanswered = logistic(told, counts / counts.mean(), ANSWER_PENALTY)

    def rank(self, one: Asked) -> Ranked:
        return rank(one.features, one.table, dict(zip(NAMES, self.weights, strict=True)))

    def judged(self, one: Asked) -> "Judged":
        ranked = self.rank(one)
        rows = judged_rows(one.table, ranked) if one.features.question.time else []
        scores = ranked.scores[rows].astype(np.float64)
        texts = [one.words[one.table.keys[row][1]] for row in rows]
        pairs = compare(one.table, one.features, scores, rows, texts) if rows else None
        return Judged(one, ranked, rows, scores, texts, pairs)

    def order(self, judged: "Judged") -> list[int]:
        """Return the judged rows as a search would give them, best first."""
        if judged.pairs is None:
            return []
        logits = judged.pairs.logits(dict(zip(PAIR_SIGNS, self.replaces, strict=True)))
        return np.argsort(-lifted(judged.scores, logits), kind="stable").tolist()

    def ranked(self, one: Asked) -> NDArray[np.intp]:
        judged = self.judged(one)
        first = [judged.rows[place] for place in self.order(judged)]
        rest = judged.ranked.rows
        return np.r_[np.array(first, np.intp), rest[~np.isin(rest, first)]]

    def signals(self, one: Asked) -> list[float]:
        return [*signals(one.features, self.rank(one)), 1.0]

    def looks_for_answers(self, one: Asked) -> bool:
        time = one.features.question.time
        return time is not None and time.kind == "now" and with_an_assistant(one.table)

    def answer_signs(self, one: Asked) -> list[float]:
        judged = self.judged(one)
        assert judged.pairs is not None
        order = self.order(judged)
        rows, texts = [judged.rows[i] for i in order], [judged.texts[i] for i in order]
        return answer_signs(one.table, one.features, judged.pairs.said_again(order), rows, texts)

    def nothing(self, one: Asked) -> float:
        fits = 1 - chance(float(np.dot(self.confidence, self.signals(one))))
        if not self.looks_for_answers(one):
            return 1 - fits
        return 1 - fits * (1 - chance(float(np.dot(self.unanswered, [*self.answer_signs(one), 1.0]))))


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """The best messages of a question, compared in pairs; no pairs where it asks about no time."""

    asked: Asked
    ranked: Ranked
    rows: Sequence[int]
    scores: Floats
    texts: Sequence[str]
    pairs: Pairs | None


def chance(logit: float) -> float:
    return float(1 / (1 + np.exp(-np.clip(logit, -50, 50))))


def pairwise(judged: Sequence[Judged]) -> Floats:
    """Fit when a message belongs above one that the ranking has above it.

    It does where it is evidence and the other is stale; it does not where the other is evidence
    and it is not. Of other pairs nothing is known. A question counts with the root of its pairs.
    """
    rows: list[tuple[Floats, float]] = []
    counts: list[float] = []
    for one in judged:
        if one.pairs is None:
            continue
        right, stale = set(one.asked.evidence.tolist()), one.asked.stale
        mine: list[tuple[Floats, float, float]] = []
        for i, below in enumerate(one.rows):
            for j, above in enumerate(one.rows):
                behind = one.scores[j] < one.scores[i]
                if below in stale and above in right and behind:
                    mine.append((one.pairs.signs[i, j], 1.0, STALE))
                elif below in right and above not in right and (behind or above in stale):
                    mine.append((one.pairs.signs[i, j], 0.0, WORST if above in stale else 1.0))
        share = (1.0 if one.asked.of_change else ELSEWHERE) / max(len(mine), 1) ** 0.5
        rows += [(signs, target) for signs, target, _ in mine]
        counts += [count * share for _, _, count in mine]
    weights = np.array(counts)
    if not any(target for _, target in rows):  # no file about change: nothing takes a place
        return np.zeros(len(PAIR_SIGNS))
    return logistic(rows, weights / weights.mean(), PAIR_PENALTY, constant=False)


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


def logistic(
    rows: Sequence[tuple[Sequence[float] | Floats, float]],
    counts: Floats,
    penalty: float = PENALTY,
    *,
    constant: bool = True,
) -> Floats:
    """Fit a logistic regression by Newton's method; the last signal is the constant, if there is one."""
    matrix, target = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    shares = counts / len(rows)
    scale = np.where(matrix.std(0) > 1e-9, matrix.std(0), 1)
    matrix = matrix / scale
    penalties = np.full(matrix.shape[1], penalty)
    if constant:
        penalties[-1] = 0
    weights = np.zeros(matrix.shape[1])
    for _ in range(50):
        likely = 1 / (1 + np.exp(-(matrix @ weights).clip(-30, 30)))
        slope = matrix.T @ (shares * (likely - target)) + 2 * penalties * weights
        curve = (matrix * (shares * likely * (1 - likely))[:, None]).T @ matrix
        step = np.linalg.solve(curve + 2 * np.diag(penalties + 1e-9), slope)
        weights -= step / max(1.0, np.abs(step).max())
    return weights / scale


def report(title: str, judged: Sequence[tuple[Asked, Learned]]) -> None:
    print(f"\n{title}\n{'file':28} recall@5 recall@10 strict@10  auroc  of strangers  current_ok  as_of_ok")
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
        print(
            f"{file:28} {five:8.3f} {ten:9.3f} {strict:9.3f}  {area(some, True)}  {area(some, False):>12}"
            f"  {held(some, 'current', current):>10}  {held(some, 'as_of', as_of):>8}"
        )


def area(some: Collection[tuple[Asked, Learned]], own: bool) -> str:
    yes = [learned.nothing(one) for one, learned in some if one.wanted]
    no = [learned.nothing(one) for one, learned in some if not one.wanted and one.own == own]
    value = auroc(yes, no)
    return f"{value:5.3f}" if value is not None else "    -"


def current(ids: Sequence[str], question: Question) -> bool:
    return current_ok(ids, question.evidence, question.stale)


def as_of(ids: Sequence[str], question: Question) -> bool:
    return as_of_ok(ids, question.evidence, question.stale, one_is_enough=question.one_is_enough)


def held(
    some: Collection[tuple[Asked, Learned]], kind: str, judge: Callable[[Sequence[str], Question], bool]
) -> str:
    """Return the share of questions of a kind that come out right."""
    found = [
        judge([one.table.keys[row][1] for row in learned.ranked(one)[:10]], one.question)
        for one, learned in some
        if one.own and one.wanted and one.question.kind == kind
    ]
    return f"{np.mean(found):.3f}" if found else "-"


def write(learned: Learned) -> None:
    """Put the numbers into the table of weights, whose comments stay as they are."""
    path = Path(table_of_weights.__file__)
    text = path.read_text(encoding="utf-8")
    found = dict(zip(NAMES, learned.weights, strict=True))
    sure = dict(zip((*SIGNALS, "constant"), learned.confidence, strict=True))
    tables = {
        "WEIGHTS": found,
        "CONFIDENCE": sure,
        "REPLACES": dict(zip(PAIR_SIGNS, learned.replaces, strict=True)),
        "UNANSWERED": dict(zip((*ANSWER_SIGNS, "constant"), learned.unanswered, strict=True)),
    }
    for table, values in tables.items():
        head, middle, tail = text.partition(f"{table}: Mapping")
        mine, end, rest = tail.partition("\n}")
        for name, value in values.items():
            mine = re.sub(rf'"{name}": [-\d.]+', f'"{name}": {value:.3f}', mine)
        text = head + middle + mine + end + rest
    path.write_text(text, encoding="utf-8")


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
    for name, weight in (
        *zip((*SIGNALS, "constant"), learned.confidence, strict=True),
        *zip(PAIR_SIGNS, learned.replaces, strict=True),
        *zip((*ANSWER_SIGNS, "constant"), learned.unanswered, strict=True),
    ):
        print(f"{name:34} {weight:8.3f}")
    if given.write:
        write(learned)


if __name__ == "__main__":
    main()
