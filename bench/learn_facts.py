"""Learn which of two facts has taken the other's place, and say how well on hands not learned from.

    python bench/learn_facts.py FILE... [--vectors DIR] [--write]

FILE tells how values change (bench/data/README.md, or `facts` in the neutral format). Each conversation goes
into a memory of its own; each fact that it reads is compared with those nearest to it, as a memory does when
its vector is there. Printed are, for each file with its hand held out and for some thresholds, the share of
the values that hold at the end which a fact holds that is still taken to hold, and the same of ended values.
``--write`` learns from everything and writes the weights of facts into jiyi/long_term/recall/weights.json.
"""

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
from change import Change, is_held, load
from fitting import Floats, fitted
from kept import KeptEmbedder

import jiyi.long_term.recall.weights as tables
from jiyi.embeddings import E5Embedder
from jiyi.evaluate import open_sqlite
from jiyi.evaluate.systems import MemorySystem
from jiyi.long_term.facts import succession
from jiyi.long_term.facts.succession import FACT_FEATURES, is_comparable
from jiyi.long_term.facts.timeline import start_of
from jiyi.long_term.recall.weights import Weights, sigmoid, weighted_sum
from jiyi.manager import MemoryManager
from jiyi.records import Fact

PENALTY = 1e-2
THRESHOLDS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.9)


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """An earlier and a later fact that a memory compares."""

    file: str
    earlier: tuple[str, str]  # conversation and id of the fact
    signs: Floats
    taken: bool


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A value of a file and the facts that hold it."""

    file: str
    holds: bool
    facts: tuple[tuple[str, str], ...]  # as `Pair.earlier`; those that the merge of slots left standing


def read_all(files: Sequence[str], vectors: str) -> tuple[list[Pair], list[Value]]:
    """Fill a memory with each conversation; nothing is ended but by the merge of slots."""
    pairs: list[Pair] = []
    values: list[Value] = []
    kept = KeptEmbedder(E5Embedder(threads=2), vectors)
    with patch.multiple(succession, _SURE=2.0, _MAYBE=2.0), kept as embedder:
        for file in files:
            dataset, changes = load(file)
            for conversation in dataset.conversations:
                change = changes.get(conversation.id)
                if change is None:
                    continue
                with open_sqlite(embedder) as memory:
                    system = MemorySystem(memory, random.Random(0))
                    system.load(conversation)
                    system.finish(lambda _done: None)
                    facts = memory.facts(limit=10_000, status="active")
                    pairs += compared(memory, facts, change, dataset.file, conversation.id)
                for value in change.values:
                    held = tuple((conversation.id, fact.id) for fact in facts if is_held(value, [fact]))
                    values.append(Value(dataset.file, value.holds, held))
    return pairs, values


def compared(
    memory: MemoryManager, facts: Sequence[Fact], change: Change, file: str, conversation: str
) -> Iterator[Pair]:
    """Give each pair that the memory compares, once."""
    points = {fact.id: _points(fact, change) for fact in facts}
    compare = memory._long_term.facts.succession
    assert compare is not None
    snapshot = memory._store.snapshot(memory._scope(None, None).user_id)
    seen: set[tuple[str, str]] = set()
    for fact in filter(is_comparable, facts):
        found = succession.compare_fact(memory._store, compare._vectors, fact, snapshot)
        for other, signs in zip(*found, strict=True) if found else ():
            earlier, later = sorted((fact, other), key=start_of)
            ids = (earlier.id, later.id)
            if ids not in seen:
                seen.add(ids)
                before, after = points.get(ids[0], {}), points.get(ids[1], {})
                taken = any(before[point] < after[point] for point in before.keys() & after.keys())
                yield Pair(file, (conversation, ids[0]), signs, taken)


def _points(fact: Fact, change: Change) -> dict[int, int]:
    """Return the points that a fact holds a value of, and the place of that value."""
    return {
        number: place
        for number, point in enumerate(change.points)
        for place, value in enumerate(point)
        if is_held(value, [fact])
    }


def learn(pairs: Sequence[Pair]) -> Weights:
    targets = [float(pair.taken) for pair in pairs]
    return fitted(FACT_FEATURES, [pair.signs for pair in pairs], targets, [1.0] * len(pairs), PENALTY)


def report(name: str, weights: Weights, pairs: Sequence[Pair], values: Sequence[Value]) -> None:
    likely = sigmoid(weighted_sum(weights, FACT_FEATURES, np.stack([pair.signs for pair in pairs])))
    ended: dict[tuple[str, str], float] = {}
    for pair, one in zip(pairs, likely.tolist(), strict=True):
        ended[pair.earlier] = max(ended.get(pair.earlier, 0.0), one)
    line = []
    for threshold in (*THRESHOLDS, 1.1):
        held = [
            (value.holds, any(ended.get(fact, 0.0) < threshold for fact in value.facts)) for value in values
        ]
        current, old = ([is_ for holds, is_ in held if holds == which] for which in (True, False))
        line.append(f"{threshold:g}: {np.mean(current):.2f} {np.mean(old):.2f}")
    right = [pair.taken for pair, one in zip(pairs, likely.tolist(), strict=True) if one >= 0.9]
    print(
        f"{name:24} {'  '.join(line)}   at .9 right {np.mean(right or [0]):.2f} of {len(right)}", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--vectors", default="vectors", help="folder to keep vectors in")
    parser.add_argument("--write", action="store_true", help="write the package's weights")
    given = parser.parse_args()
    pairs, values = read_all(given.files, given.vectors)
    print(f"{len(pairs)} pairs, {sum(pair.taken for pair in pairs)} of them a change")
    print("threshold: share of the values that hold, and of the ended ones, held by a fact below it")
    for file in dict.fromkeys(pair.file for pair in pairs):
        others = [pair for pair in pairs if pair.file != file]
        mine = [pair for pair in pairs if pair.file == file]
        report(file, learn(others or mine), mine, [value for value in values if value.file == file])
    if given.write:
        path = Path(tables.__file__).with_suffix(".json")
        read = json.loads(path.read_text("utf-8"))
        read["facts"] = dict(learn(pairs))
        path.write_text(json.dumps(read, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
