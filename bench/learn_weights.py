"""Learn the weights of recall, and measure them on file families and writers that were held out.

    python bench/learn_weights.py FILE... [--vectors DIR] [--keep-ranking] [--families] [--hands N] [--write]

FILE is a file of the neutral format (docs/evaluate.md) or of talks (bench/data/README.md). Each
conversation gets its own memory; the features are those that a search computes. These are learned in turn:
the ranking; whether a statement has replaced an earlier one; the same for two messages that a question
found; the final order of the best messages; and whether nothing answers. Each step learns from the results
of the earlier steps on conversations that those did not learn from. ``--keep-ranking`` leaves the ranking
unchanged. ``--families`` prints the figures with each family of files held out (one name in several
languages; all talks are one family), ``--hands N`` with the writers of talks held out, in N groups.
``--write`` learns from everything and writes jiyi/long_term/recall/weights.json.
"""

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np
from asking import INNER, Asked, ask_all
from fitting import PENALTY, Floats, fitted, importance, listwise, named

import jiyi.long_term.recall.weights as tables
from jiyi.evaluate.metrics import as_of_ok, auroc, current_ok, share_found
from jiyi.long_term.recall.features import FEATURE_NAMES
from jiyi.long_term.recall.outdated import (
    ORDER_FEATURES,
    SUCCESSION_FEATURES,
    SURE,
    Comparison,
    build_statements,
    compare_messages,
    rows_to_compare,
    succession_features,
)
from jiyi.long_term.recall.pairs import PAIR_FEATURES, extract_features, pair_features, replacement_logits
from jiyi.long_term.recall.ranking import Ranked, rank
from jiyi.long_term.recall.unanswerable import NOTHING_FEATURES, nothing_features, nothing_relevant
from jiyi.long_term.recall.weights import Weights

PAIR_PENALTY = 2e-3
ORDER_PENALTY = 3e-3
NOTHING_PENALTY = 5e-3
FEWEST = 150  # candidates of a question to learn from: the best ones, besides the evidence
APART = 1.0  # weight of ranking evidence above stale messages, relative to above all
HARD = ("talks", "everyday")  # written to be hard, so the ranking does not learn from them
UNANSWERED = 0.7  # weight of an unanswerable question, relative to an answerable one
STRANGE = 0.3  # weight of a question about another conversation
SHORTLIST = 60  # messages of which the final order is learned
NEGATIVES = 0.25  # share of the pairs without a replacement to learn from


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

    def compare(self, one: Asked, ranked: Ranked) -> Comparison:
        texts = {row: one.texts[row] for row in rows_to_compare(ranked)}
        weights = {"pair": self.pair, "succession": self.succession, "order": self.order}
        return compare_messages(ranked, texts, **weights)

    def nothing_relevant(self, ranked: Ranked, compared: Comparison) -> float:
        weights = {"nothing": self.nothing, "missing": self.missing}
        return nothing_relevant(ranked, compared, **weights)


def learn(asked: Sequence[Asked], ranking: Weights | None = None) -> Learned:
    """Learn all weights in turn; those of the ranking only if none are given."""
    rankings = [ranking] * INNER if ranking else [learn_ranking(asked, part) for part in range(INNER)]
    ranking = ranking or learn_ranking(asked)
    apart = [Learned(weights, {}, {}, {"score": 1.0}, {}, {}) for weights in rankings]
    changing = [one for one in asked if one.of_change and one.own]
    pairs = [(one.part, *pair) for one in changing for pair in known_pairs(one, apart[one.part].rank(one))]
    pair = fitted_pairs(pairs)
    inner = [fitted_pairs([row for row in pairs if row[0] != part]) for part in range(INNER)]
    apart = [replace(one, pair=inner[part]) for part, one in enumerate(apart)]
    succession = learn_succession(changing, apart)
    apart = [replace(one, succession=succession) for one in apart]
    ranked = [apart[one.part].rank(one) for one in asked]
    compared = [apart[one.part].compare(one, ranking) for one, ranking in zip(asked, ranked, strict=True)]
    order = learn_order(asked, ranked, compared)
    apart = [replace(one, order=order) for one in apart]
    compared = [apart[one.part].compare(one, ranking) for one, ranking in zip(asked, ranked, strict=True)]
    nothing, missing = (learn_nothing(asked, ranked, compared, own=own) for own in (False, True))
    return Learned(ranking, pair, succession, order, nothing, missing)


def learn_ranking(asked: Sequence[Asked], without: int = -1) -> Weights:
    """Learn the ranking from usual talk, without a part of it."""
    talk = [one for one in asked if one.evidence and one.features.is_dialogue and one.family not in HARD]
    return named(
        FEATURE_NAMES, listwise([(_likely(one), _share(one)) for one in talk if one.part != without])
    )


def known_pairs(one: Asked, ranked: Ranked) -> Iterator[tuple[Floats, float, float]]:
    """Yield the features of each pair found, whether the later replaced the earlier, and a weight."""
    draw = random.Random(one.question.id)
    found = rows_to_compare(ranked)
    group = build_statements(ranked, np.array(found), [extract_features(one.texts[row]) for row in found])
    signs = pair_features(group)
    for i, j in np.argwhere(group.at[None, :] > group.at[:, None]).tolist():
        taken, count = _taken(one, found[i], found[j])
        if count and (taken or draw.random() < NEGATIVES):
            yield signs[i, j], float(taken), count * (NEGATIVES if taken else 1.0)


def fitted_pairs(pairs: Sequence[tuple[int, Floats, float, float]]) -> Weights:
    rows, targets, counts = ([pair[place] for pair in pairs] for place in (1, 2, 3))
    return fitted(PAIR_FEATURES, rows, targets, counts, PAIR_PENALTY)


def _taken(one: Asked, earlier: int, later: int) -> tuple[bool, float]:
    """Return whether the later row replaced the earlier one, and the weight of the pair; 0 if unknown."""
    if one.replaced is not None and (earlier, later) in one.replaced:
        return True, 1.0
    if one.question.kind == "current" and earlier in one.stale:
        return (True, 0.5) if later in one.evidence else (False, 0.0)
    return False, 1.0 if one.replaced is not None else 0.3


def learn_succession(asked: Sequence[Asked], apart: Sequence[Learned]) -> Weights:
    rows, targets = [], []
    for one in asked:
        if one.question.kind != "current" or not one.evidence:
            continue
        ranked = apart[one.part].rank(one)
        found = np.array(rows_to_compare(ranked))
        group = build_statements(ranked, found, [extract_features(one.texts[row]) for row in found.tolist()])
        scores = ranked.scores[found].astype(np.float64)
        pairs = replacement_logits(group, apart[one.part].pair)
        signs = succession_features(one.features, group, found, scores, pairs)
        for i, j in np.argwhere(np.isfinite(pairs)).tolist():
            earlier, later = int(found[i]), int(found[j])
            if earlier in one.stale and later not in one.evidence:
                continue
            taken = earlier in one.stale
            rows.append(signs[i, j])
            targets.append(float(taken))
    return fitted(SUCCESSION_FEATURES, rows, targets, [1.0] * len(rows), PENALTY)


def learn_order(asked: Sequence[Asked], ranked: Sequence[Ranked], compared: Sequence[Comparison]) -> Weights:
    counts = Counter(one.file for one in asked)
    lists = []
    for one, ranking, found in zip(asked, ranked, compared, strict=True):
        rows = ranking.rows[:SHORTLIST].tolist()
        place = {row: number for number, row in enumerate(rows)}
        right = [place[row] for row in one.evidence if row in place]
        if not right:
            continue
        matrix = np.zeros((len(rows), len(ORDER_FEATURES)))
        matrix[:, 0] = ranking.scores[rows]
        matrix[[place[row] for row in found.rows.tolist()]] = found.order_features
        share = np.zeros(len(rows))
        share[right] = 1 / len(right)
        lists.append(((matrix, share), counts[one.file] ** -0.5))
        wrong = [place[row] for row in one.stale if row in place]
        if wrong:
            lists.append(((matrix[right + wrong], share[right + wrong]), APART * counts[one.file] ** -0.5))
    return named(ORDER_FEATURES, listwise(lists, ORDER_PENALTY))


def learn_nothing(
    asked: Sequence[Asked], ranked: Sequence[Ranked], compared: Sequence[Comparison], *, own: bool
) -> Weights:
    """Learn to tell answerable questions from unanswerable ``own`` ones, or from those of other memories."""
    found = [
        (one, nothing_features(ranking, best))
        for one, ranking, best in zip(asked, ranked, compared, strict=True)
        if one.wanted or one.own == own
    ]
    targets = [float(not one.wanted) for one, _ in found]
    counts = [1.0 if one.wanted or own else STRANGE for one, _ in found]
    shares = importance([one.file for one, _ in found])
    return fitted(
        NOTHING_FEATURES, [row for _, row in found], targets, np.array(counts) * shares, NOTHING_PENALTY
    )


def _likely(one: Asked) -> tuple[Floats, Floats]:
    matrix = one.features.matrix.astype(np.float64)
    first = [FEATURE_NAMES.index(name) for name in ("words", "apart")]
    kept = np.union1d(np.argsort(-matrix[:, first].sum(1))[:FEWEST], one.evidence).astype(np.intp)
    return matrix[kept], np.isin(kept, one.evidence) / len(one.evidence)


def _share(one: Asked) -> float:
    return FAMILIES[one.family] ** -0.5


FAMILIES: dict[str, int] = {}  # questions of each: one counts with the root of that


COLUMNS = ("current_ok", "first", "as_of_ok", "recall@10", "strict@10", "marks right", "marks reach")


def report(title: str, compared: Sequence[tuple[Asked, Learned]]) -> None:
    """Print a line for each file."""
    print(
        f"\n{title}\n{'file':26}"
        + "".join(f"{name:>12}" for name in COLUMNS)
        + "   AUROC  nothing > .5: no, yes"
    )
    for file in dict.fromkeys(one.file for one, _ in compared):
        rows: dict[str, list[float]] = {}
        nothing: dict[bool, list[float]] = {True: [], False: []}
        for one, learned in compared:
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
    compared = learned.compare(one, ranked)
    if one.own:
        nothing[not one.wanted].append(learned.nothing_relevant(ranked, compared))
    if not one.wanted:
        return
    scores = ranked.scores.astype(np.float64)
    scores[compared.rows] = compared.scores
    order = ranked.rows[np.argsort(-scores[ranked.rows], kind="stable")].tolist()
    ids = [one.table.key(row)[1] for row in order[:20]]
    question = one.question
    some = question.one_is_enough
    found = share_found(ids[:10], question.evidence, one_is_enough=some)
    noted = {"recall@10": found, "strict@10": float(found == 1)}
    if question.kind == "current":
        noted["current_ok"] = current_ok(ids, question.evidence, question.stale)
        noted["first"] = ids[0] in question.evidence
        successor_rows = compared.successor_rows(SURE)
        ended = one.stale | {earlier for earlier, _ in one.replaced or ()}
        rows.setdefault("marks right", []).extend(row in ended for row in order[:10] if row in successor_rows)
        rows.setdefault("marks reach", []).extend(
            row in successor_rows for row in order[:10] if row in one.stale
        )
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
    parser.add_argument("--keep-ranking", action="store_true", help="leave the ranking as it is")
    parser.add_argument("--families", action="store_true", help="hold each family of files out")
    parser.add_argument("--hands", type=int, default=0, metavar="N", help="hold hands out, in N groups")
    parser.add_argument("--write", action="store_true", help="write the package's weights")
    given = parser.parse_args()
    asked = list(ask_all(given.files, given.vectors))
    FAMILIES.update(Counter(one.family for one in asked))
    ranking = dict(tables.WEIGHTS) if given.keep_ranking else None
    if given.families:
        names = list(dict.fromkeys(one.family for one in asked))
        held_out(asked, "each family held out", {name: name for name in names}, "family", ranking)
    if given.hands:
        hands = list(dict.fromkeys(one.file for one in asked if one.family == "talks"))
        group = {hand: str(place % given.hands) for place, hand in enumerate(hands)}
        held_out(asked, "each group of hands held out", group, "file", ranking)
    if given.write:
        learned = learn(asked, ranking)
        report("learned from all of it", [(one, learned) for one in asked])
        path = Path(tables.__file__).with_suffix(".json")
        whole = json.loads(path.read_text("utf-8")) | asdict(learned)  # others learn the rest
        path.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def held_out(
    asked: Sequence[Asked], title: str, groups: Mapping[str, str], of: str, ranking: Weights | None
) -> None:
    """Report on each group of what ``of`` names, learned from everything else."""
    compared: list[tuple[Asked, Learned]] = []
    for name in dict.fromkeys(groups.values()):
        learned = learn([one for one in asked if groups.get(getattr(one, of)) != name], ranking)
        compared += [(one, learned) for one in asked if groups.get(getattr(one, of)) == name]
    report(title, compared)


if __name__ == "__main__":
    main()
