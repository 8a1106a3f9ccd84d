"""Learn the weights of recall, and say how well they do on families and hands they did not learn from.

    python bench/learn_weights.py FILE... [--vectors DIR] [--hands] [--write]

FILE is a file of the neutral format (docs/evaluate.md) or of talks (bench/data/README.md). Each
conversation goes into a memory of its own; features and signs are those that a search computes. Learned
are, one after the other: the ranking; which of two statements has taken the other's place; the same among
what a question found; the last order of the best messages; and that nothing answers. The later steps
learn from what the earlier ones say of conversations they did not learn from. Printed are the figures
with each family of files held out (the same name in several languages; all talks are one family), with
``--hands`` of each hand of talks as well. ``--write`` learns from everything and writes
jiyi/long_term/recall/weights.json.
"""

import argparse
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np
from asking import INNER, Asked, ask_all
from fitting import PENALTY, Floats, fitted, importance, listwise, named

import jiyi.long_term.recall.weights as tables
from jiyi.evaluate.metrics import as_of_ok, auroc, current_ok, recall_at
from jiyi.long_term.recall.features import NAMES
from jiyi.long_term.recall.in_force import (
    ORDER_SIGNS,
    SUCCESSION_SIGNS,
    SURE,
    Judged,
    dealt,
    judge,
    judged_rows,
    statements,
    succession_signs,
)
from jiyi.long_term.recall.nothing import NOTHING_SIGNS, nothing_relevant, nothing_signs
from jiyi.long_term.recall.pairs import PAIR_SIGNS, pair_signs, replaced
from jiyi.long_term.recall.ranking import Ranked, rank
from jiyi.long_term.recall.signs import signs_of
from jiyi.long_term.recall.weights import Weights, dot

PAIR_PENALTY = 2e-3
ORDER_PENALTY = 3e-3
NOTHING_PENALTY = 5e-3
FEWEST = 150  # candidates of a question that are learned from: the likeliest, and the evidence
TAKEN = 8.0  # what a pair counts of which the later has taken the earlier's place
APART = 1.0  # what it counts that evidence stands above what is stale, beside above all
HARD = ("talks", "everyday")  # written to be hard: of how usual talk is found they say nothing
UNANSWERED = 0.7  # what an unanswerable question counts beside an answerable one
STRANGE = 0.3  # what a question of another conversation counts
SHORTLIST = 60  # messages among which the last order is learned
NEGATIVES = 0.25  # of the pairs that are none, those that are learned from


@dataclass(frozen=True, slots=True)
class Learned:
    """Everything that is learned."""

    features: Weights
    pair: Weights
    succession: Weights
    order: Weights
    nothing: Weights
    missing: Weights

    def rank(self, one: Asked) -> Ranked:
        return rank(one.features, one.table, self.features)

    def judge(self, one: Asked, ranked: Ranked) -> Judged:
        texts = {row: one.texts[row] for row in judged_rows(one.table, ranked)}
        weights = {"pair": self.pair, "succession": self.succession, "order": self.order}
        return judge(one.table, one.features, ranked, texts, **weights)

    def nothing_relevant(self, one: Asked, ranked: Ranked, judged: Judged) -> float:
        weights = {"nothing": self.nothing, "missing": self.missing}
        return nothing_relevant(one.table, one.features, ranked, judged, **weights)


def learn(asked: Sequence[Asked]) -> Learned:
    """Learn one thing after the other."""
    talk = [one for one in asked if one.evidence and one.features.turns > 0 and one.family not in HARD]
    lists = [(_likely(one), _share(one), one.part) for one in talk]
    parts = [listwise([(row, share) for row, share, of in lists if of != part]) for part in range(INNER)]
    ranking = named(NAMES, listwise([(row, share) for row, share, _ in lists]))
    apart = [Learned(named(NAMES, weights), {}, {}, {"score": 1.0}, {}, {}) for weights in parts]
    changing = [one for one in asked if one.of_change and one.own]
    pairs = [(one.part, *pair) for one in changing for pair in known_pairs(one, apart[one.part].rank(one))]
    pair = fitted_pairs(pairs)
    inner = [fitted_pairs([row for row in pairs if row[0] != part]) for part in range(INNER)]
    apart = [replace(one, pair=inner[part]) for part, one in enumerate(apart)]
    succession = learn_succession(changing, apart)
    apart = [replace(one, succession=succession) for one in apart]
    ranked = [apart[one.part].rank(one) for one in asked]
    judged = [apart[one.part].judge(one, order) for one, order in zip(asked, ranked, strict=True)]
    order = learn_order(asked, ranked, judged)
    judged = [_ordered(one, order) for one in judged]
    nothing, missing = (learn_nothing(asked, ranked, judged, own=own) for own in (False, True))
    return Learned(ranking, pair, succession, order, nothing, missing)


def known_pairs(one: Asked, ranked: Ranked) -> Iterator[tuple[Floats, float, float]]:
    """Give the pairs that a question finds: signs, whether the later took the earlier's place, and weight."""
    draw = random.Random(one.question.id)
    found = judged_rows(one.table, ranked)
    group = statements(one.table, one.features, np.array(found), [signs_of(one.texts[row]) for row in found])
    signs = pair_signs(group)
    for i, j in np.argwhere(group.at[None, :] > group.at[:, None]).tolist():
        taken, count = _taken(one, found[i], found[j])
        if count and (taken or draw.random() < NEGATIVES):
            yield signs[i, j], float(taken), count * (TAKEN * NEGATIVES if taken else 1.0)


def fitted_pairs(pairs: Sequence[tuple[int, Floats, float, float]]) -> Weights:
    rows, targets, counts = ([pair[place] for pair in pairs] for place in (1, 2, 3))
    return fitted(PAIR_SIGNS, rows, targets, counts, PAIR_PENALTY)


def _ordered(judged: Judged, order: Weights) -> Judged:
    if not judged.timed:
        return judged
    return replace(judged, scores=dealt(judged.order[:, 0], dot(order, ORDER_SIGNS, judged.order)))


def _taken(one: Asked, earlier: int, later: int) -> tuple[bool, float]:
    """Return whether the later row took the earlier one's place, and how much that is worth; 0: unknown."""
    if one.replaced is not None and (earlier, later) in one.replaced:
        return True, 1.0
    if one.question.kind == "current" and earlier in one.stale:
        return (True, 0.5) if later in one.evidence else (False, 0.0)
    return False, 1.0 if one.replaced is not None else 0.3


def learn_succession(asked: Sequence[Asked], apart: Sequence[Learned]) -> Weights:
    rows, counts, targets = [], [], []
    for one in asked:
        if one.question.kind != "current" or not one.evidence:
            continue
        ranked = apart[one.part].rank(one)
        found = np.array(judged_rows(one.table, ranked))
        group = statements(
            one.table, one.features, found, [signs_of(one.texts[row]) for row in found.tolist()]
        )
        scores = ranked.scores[found].astype(np.float64)
        pairs = replaced(group, apart[one.part].pair)
        signs = succession_signs(one.features, group, found, scores, pairs)
        for i, j in np.argwhere(np.isfinite(pairs)).tolist():
            earlier, later = int(found[i]), int(found[j])
            if earlier in one.stale and later not in one.evidence:
                continue
            taken = earlier in one.stale
            rows.append(signs[i, j])
            targets.append(float(taken))
            counts.append(3.0 if taken else 2.0 if earlier in one.evidence else 0.3)
    return fitted(SUCCESSION_SIGNS, rows, targets, counts, PENALTY)


def learn_order(asked: Sequence[Asked], ranked: Sequence[Ranked], judged: Sequence[Judged]) -> Weights:
    counts = Counter(one.file for one in asked)
    lists = []
    for one, ranking, found in zip(asked, ranked, judged, strict=True):
        rows = ranking.rows[:SHORTLIST].tolist()
        place = {row: number for number, row in enumerate(rows)}
        right = [place[row] for row in one.evidence if row in place]
        if not right:
            continue
        matrix = np.zeros((len(rows), len(ORDER_SIGNS)))
        matrix[:, 0] = ranking.scores[rows]
        matrix[[place[row] for row in found.rows.tolist()]] = found.order
        share = np.zeros(len(rows))
        share[right] = 1 / len(right)
        lists.append(((matrix, share), counts[one.file] ** -0.5))
        wrong = [place[row] for row in one.stale if row in place]
        if wrong:
            lists.append(((matrix[right + wrong], share[right + wrong]), APART * counts[one.file] ** -0.5))
    return named(ORDER_SIGNS, listwise(lists, ORDER_PENALTY))


def learn_nothing(
    asked: Sequence[Asked], ranked: Sequence[Ranked], judged: Sequence[Judged], *, own: bool
) -> Weights:
    """Learn to tell answerable questions from unanswerable ``own`` ones, or from those of other memories."""
    found = [
        (one, nothing_signs(one.table, one.features, ranking, best))
        for one, ranking, best in zip(asked, ranked, judged, strict=True)
        if one.wanted or one.own == own
    ]
    targets = [float(not one.wanted) for one, _ in found]
    counts = [1.0 if one.wanted or own else STRANGE for one, _ in found]
    shares = importance([one.file for one, _ in found])
    return fitted(
        NOTHING_SIGNS, [row for _, row in found], targets, np.array(counts) * shares, NOTHING_PENALTY
    )


def _likely(one: Asked) -> tuple[Floats, Floats]:
    matrix = one.features.matrix.astype(np.float64)
    first = [NAMES.index(name) for name in ("words", "apart")]
    kept = np.union1d(np.argsort(-matrix[:, first].sum(1))[:FEWEST], one.evidence).astype(np.intp)
    return matrix[kept], np.isin(kept, one.evidence) / len(one.evidence)


def _share(one: Asked) -> float:
    return FAMILIES[one.family] ** -0.5


FAMILIES: dict[str, int] = {}  # questions of each: one counts with the root of that


COLUMNS = ("current_ok", "first", "as_of_ok", "recall@10", "strict@10", "marks right", "marks reach")


def report(title: str, judged: Sequence[tuple[Asked, Learned]]) -> None:
    """Print a line for each file."""
    print(
        f"\n{title}\n{'file':26}"
        + "".join(f"{name:>12}" for name in COLUMNS)
        + "   AUROC  nothing > .5: no, yes"
    )
    for file in dict.fromkeys(one.file for one, _ in judged):
        rows: dict[str, list[float]] = {}
        nothing: dict[bool, list[float]] = {True: [], False: []}
        for one, learned in judged:
            if one.file == file:
                measure(one, learned, rows, nothing)
        area = auroc(nothing[False], nothing[True])
        print(
            f"{file:26}"
            + "".join(f"{fmean(rows[name]):12.3f}" if rows.get(name) else f"{'-':>12}" for name in COLUMNS)
            + ("       -" if area is None else f"{area:8.3f}")
            + f"  {_above(nothing[True])}, {_above(nothing[False])}",
            flush=True,
        )


def measure(
    one: Asked, learned: Learned, rows: dict[str, list[float]], nothing: Mapping[bool, list[float]]
) -> None:
    ranked = learned.rank(one)
    judged = learned.judge(one, ranked)
    if one.own:
        nothing[not one.wanted].append(learned.nothing_relevant(one, ranked, judged))
    if not one.wanted:
        return
    scores = ranked.scores.astype(np.float64)
    scores[judged.rows] = judged.scores
    order = ranked.rows[np.argsort(-scores[ranked.rows], kind="stable")].tolist()
    ids = [one.table.keys[row][1] for row in order[:20]]
    question = one.question
    some = question.one_is_enough
    found = recall_at(ids, question.evidence, 10, one_is_enough=some)
    noted = {"recall@10": found, "strict@10": float(found == 1)}
    if question.kind == "current":
        noted["current_ok"] = current_ok(ids, question.evidence, question.stale)
        noted["first"] = ids[0] in question.evidence
        marked = judged.marked(SURE)
        ended = one.stale | {earlier for earlier, _ in one.replaced or ()}
        rows.setdefault("marks right", []).extend(row in ended for row in order[:10] if row in marked)
        rows.setdefault("marks reach", []).extend(row in marked for row in order[:10] if row in one.stale)
    if question.kind == "as_of":
        noted["as_of_ok"] = as_of_ok(ids, question.evidence, question.stale, one_is_enough=some)
    for name, value in noted.items():
        rows.setdefault(name, []).append(float(value))


def _above(values: Sequence[float]) -> str:
    return f"{sum(value > 0.5 for value in values)}/{len(values)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("files", nargs="+", help="files of the neutral format, or of talks")
    parser.add_argument("--vectors", default="vectors", help="folder to keep vectors in")
    parser.add_argument("--hands", action="store_true", help="hold each hand of talks out as well")
    parser.add_argument("--write", action="store_true", help="write the package's weights")
    given = parser.parse_args()
    asked = list(ask_all(given.files, given.vectors))
    FAMILIES.update(Counter(one.family for one in asked))
    families = list(dict.fromkeys(one.family for one in asked))
    held_out(asked, "each family held out", families, lambda one: one.family)
    if given.hands:
        talks = [one for one in asked if one.family == "talks"]
        held_out(
            talks, "each hand held out", list(dict.fromkeys(one.file for one in talks)), lambda one: one.file
        )
    if given.write:
        learned = learn(asked)
        report("learned from all of it", [(one, learned) for one in asked])
        text = json.dumps(
            {name: getattr(learned, name) for name in Learned.__dataclass_fields__},
            indent=1,
            ensure_ascii=False,
        )
        Path(tables.__file__).with_suffix(".json").write_text(text + "\n", encoding="utf-8")


def held_out(
    asked: Sequence[Asked], title: str, groups: Sequence[str], group: Callable[[Asked], str]
) -> None:
    judged: list[tuple[Asked, Learned]] = []
    for name in groups if len(groups) > 1 else ():
        learned = learn([one for one in asked if group(one) != name])
        judged += [(one, learned) for one in asked if group(one) == name]
    report(title, judged)


if __name__ == "__main__":
    main()
