"""Does it pay to pack a window better than greedily, and what does it cost?

Run it with ``python bench/packing.py FILE... [--budgets 500/1000/2000/4000] [--vectors FOLDER] [--json]``;
FILE is in the neutral format (docs/evaluate.md). Loading and embedding take most of the time.

What is measured: a fresh memory is filled with each conversation of the file; for every question
with an answer the memory recalls its blocks, each with the score and the length it would have
in a window of this size. The same blocks are then packed in each way, and the window is built:

- sum of scores: what the way packed, in percent of what `pack_exact` reaches; the blocks' scores
  are those of the recall, which greedy takes by rank, density by token, and exact by their sum;
- evidence: the share of the messages that hold the answer which are in the window;
- blocks: how many are in it;
- ms: the median time of packing alone.

How to read it: a way with a higher sum of scores packs better in the sense of the knapsack
problem; whether it is better for the question says the evidence.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from rich.console import Console
from rich.progress import track
from rich.table import Table

from jiyi import wiring
from jiyi.context import Materials, Packer, build_window, pack, pack_exact
from jiyi.errors import BudgetTooSmall
from jiyi.evaluate import load_dataset
from jiyi.evaluate.dataset import Dataset, Question, with_opaque_ids
from jiyi.evaluate.metrics import share_found
from jiyi.evaluate.systems import MemorySystem, open_sqlite
from jiyi.evaluate.vectors import MeasuredEmbedder, VectorFolder
from jiyi.manager import MemoryManager
from jiyi.records import SHARES, Block, Budget, Message
from jiyi.settings import load_settings
from jiyi.text import counter_for, language


def pack_by_density(blocks: Sequence[Block], allowance: int) -> tuple[list[Block], list[Block]]:
    """Take the highest score for each token first (Dantzig, Operations Research 5, 1957)."""
    taken: list[Block] = []
    left: list[Block] = []
    for block in sorted(blocks, key=lambda block: -block.score / max(block.tokens, 1)):
        fits = block.tokens <= allowance
        (taken if fits else left).append(block)
        allowance -= block.tokens if fits else 0
    return taken, left


WAYS: dict[str, Packer] = {"greedy": pack, "density": pack_by_density, "exact": pack_exact}
COUNTER = counter_for("gpt-4o")
ROOMY = 200_000  # tokens of a window in which everything that was recalled is shown


@dataclass
class Cell:
    """One way at one budget."""

    way: str
    budget: int
    scores: list[float] = field(default_factory=list)  # of what is in the window, in parts of the best
    evidence: list[float] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        return {
            "score": statistics.fmean(self.scores),
            "evidence": statistics.fmean(self.evidence),
            "blocks": statistics.fmean(self.blocks),
            "p50_ms": statistics.median(self.milliseconds),
        }


def recalled(memory: MemoryManager, question: Question, budget: int) -> Sequence[Block]:
    """Return the blocks a window of ``budget`` tokens chooses from."""
    # An excerpt is as long as the section's share says: the same number of tokens in a larger window.
    share = {"recalled": SHARES["recalled"] * budget / ROOMY}
    roomy = Budget(max_input_tokens=ROOMY, shares=share)
    return memory.build_context("bench", question.text, budget=roomy, asked_at=question.asked_at).blocks


def fill(cells: Sequence[Cell], memory: MemoryManager, question: Question, budget: int) -> None:
    blocks = recalled(memory, question, budget)
    materials = Materials(current=Message(role="user", content=question.text), blocks=blocks)
    limits, tongue = Budget(max_input_tokens=budget), language(question.text)
    sums: dict[str, float] = {}
    for cell in cells:
        packer = WAYS[cell.way]
        try:
            window = build_window(materials, limits, counter=COUNTER, language=tongue, packer=packer)
        except BudgetTooSmall:
            return
        # One section with the room all of them have: so that the sums are of the same problem.
        started = time.perf_counter()
        taken, _ = packer(blocks, budget)
        cell.milliseconds.append(1000 * (time.perf_counter() - started))
        sums[cell.way] = sum(block.score for block in taken)
        shown = {item.id for item in window.report.included}
        cell.evidence.append(share_found(shown, question.evidence, one_is_enough=question.one_is_enough))
        cell.blocks.append(len(window.blocks))
    for cell in cells:
        cell.scores.append(sums[cell.way] / sums["exact"] if sums["exact"] else 1.0)


def asked(dataset: Dataset, embedder: MeasuredEmbedder) -> Iterator[tuple[MemoryManager, Question]]:
    for number, conversation in enumerate(dataset.conversations):
        hidden = with_opaque_ids(conversation, Random(f"0/{number}"))
        with open_sqlite(embedder) as memory:
            system = MemorySystem(memory, Random(0))
            system.load(hidden)
            system.finish(lambda _: None)
            yield from ((memory, question) for question in hidden.questions if question.answerable)


def run(path: Path, budgets: Sequence[int], folder: VectorFolder | None) -> list[Cell]:
    dataset = load_dataset(path)
    cells = {budget: [Cell(way, budget) for way in WAYS] for budget in budgets}
    total = sum(question.answerable for question in dataset.questions)
    pairs = asked(dataset, MeasuredEmbedder(wiring.embedder_for(load_settings()), folder))
    for memory, question in track(pairs, dataset.file, total, console=Console(stderr=True)):
        for budget in budgets:
            fill(cells[budget], memory, question, budget)
    return [cell for some in cells.values() for cell in some]


def table(name: str, cells: Sequence[Cell]) -> Table:
    out = Table("budget", "packing", "sum of scores", "evidence", "blocks", "ms", title=name)
    for cell in cells:
        found = cell.figures()
        out.add_row(
            f"{cell.budget:,}",
            cell.way,
            f"{found['score']:.1%}",
            f"{found['evidence']:.4f}",
            f"{found['blocks']:.1f}",
            f"{found['p50_ms']:.3f}",
        )
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description="greedy, density and exact packing side by side")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--budgets", default="500/1000/2000/4000")
    parser.add_argument("--vectors", type=Path, help="a folder that keeps vectors for the next run")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    budgets = [int(budget) for budget in options.budgets.split("/")]
    folder = VectorFolder(options.vectors) if options.vectors else None
    results: dict[str, list[dict[str, object]]] = {}
    for path in options.files:
        cells = run(path, budgets, folder)
        results[path.name] = [{"way": c.way, "budget": c.budget, **c.figures()} for c in cells]
        if not options.json:
            Console(highlight=False).print(table(path.name, cells))
    if folder:
        folder.close()
    if options.json:
        json.dump(results, sys.stdout, indent=2)


if __name__ == "__main__":
    main()
