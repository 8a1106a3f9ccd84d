"""What do the three main verbs pass, and how long do they take: this code beside another checkout's?

    python bench/path.py [--against DIR] [--sizes N...] [--rounds N] [--calls N] [--profile] [--json OUT]

About two minutes. `save_message`, `search` and `build_context` (4,000 tokens, a session of 30 messages)
run on a memory of everyday talk, English and Chinese sessions by turns (bench/data/talks): in a process
of its own for each checkout, a few calls by turns, so that a busy machine slows both. What embedding takes
is in no figure; vectors are made between calls, and no question is asked twice.

- calls, files: Python functions called inside jiyi, and files of jiyi they are in, a call.
- depth: functions of jiyi on the stack at the first statement.
- Message, Query: how many of them are made, and so validated.
- SQL: statements that SQLite runs.
- wall, CPU: the median of all timed calls, in milliseconds; CPU is that of the calling thread.

The counts are medians of calls that are not timed. ``x``: how many times what this checkout has the
other one has. ``--profile`` prints for each verb the functions in which this checkout's time goes.
"""

import argparse
import cProfile
import io
import pstats
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any
from zlib import crc32

import apsw
import numpy as np
from rich.console import Console
from rich.table import Table
from shared import Checkout, answer_calls, machine, parser_of, table_of, write_json
from talks import all_talks

import jiyi

ROOT = Path(__file__).parents[1]
SIZES = (419, 1_000)
ROUNDS, CALLS, COUNTED = 12, 10, 9
BUDGET, SESSION, DIMS, TOP = 4_000, 30, 384, 25
VERBS = ("save_message", "search", "build_context")
COUNTS = ("calls", "files", "depth", "Message", "Query", "SQL")

Dict = dict[str, Any]


class Aside:
    """An embedder by pairs of characters that keeps account of its own time."""

    name, dims = "pairs", DIMS

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def embed(self, texts: list[str], kind: str) -> np.ndarray:  # noqa: ARG002
        wall, cpu = time.perf_counter(), time.thread_time()
        out = np.zeros((len(texts), DIMS), np.float32)
        for row, text in zip(out, texts, strict=True):
            for pair in map("".join, zip(text, text[1:] + " ", strict=True)):
                code = crc32(pair.lower().encode())
                row[code % DIMS] += 1 if code >> 16 & 1 else -1
            row[0] += not row.any()
        out /= np.linalg.norm(out, axis=1, keepdims=True)
        self.wall += time.perf_counter() - wall
        self.cpu += time.thread_time() - cpu
        return out


class Counter:
    """Counts what a call passes inside jiyi."""

    def __init__(self) -> None:
        self.folder = str(Path(jiyi.__file__).parent)
        self.counts = dict.fromkeys(COUNTS, 0)
        self._files: set[str] = set()
        self._on = False
        apsw.connection_hooks.append(lambda connection: connection.set_exec_trace(self._statement))

    def count(self, call: Callable[[], object]) -> Dict:
        self.counts, self._files = dict.fromkeys(COUNTS, 0), set()
        self._on = True
        sys.setprofile(self._call)
        try:
            call()
        finally:
            sys.setprofile(None)
            self._on = False
        return self.counts | {"files": len(self._files)}

    def _call(self, frame: FrameType, event: str, _arg: object) -> None:
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(self.folder):
            return
        self.counts["calls"] += 1
        self._files.add(file)
        if frame.f_code.co_name == "__post_init__":
            name = type(frame.f_locals["self"]).__name__
            if name in self.counts:
                self.counts[name] += 1

    def _statement(self, *_args: object) -> bool:
        if self._on:
            self.counts["SQL"] += 1
            if self.counts["SQL"] == 1:
                frame: FrameType | None = sys._getframe(1)
                while frame is not None:
                    self.counts["depth"] += frame.f_code.co_filename.startswith(self.folder)
                    frame = frame.f_back
        return True


class Worker:
    """A memory of one size in this process, whose verbs are called."""

    def __init__(self, size: int, folder: str) -> None:
        self.counter, self.embedder = Counter(), Aside()
        self.memory = jiyi.open(
            Path(folder) / "memory.db", user_id="ana", embedder=self.embedder, background=False
        )
        said, self.asked = sessions(), questions()
        self.unsaid = cycle(islice(said, size, None))
        for session, message in islice(said, size):
            self.memory.save_message(session, message)
        for _, message in islice(said, size, size + SESSION):
            self.memory.save_message("here", {k: message[k] for k in ("role", "content", "name")})
        self.memory.flush()

    def call(self, verb: str) -> Callable[[], object]:
        """Return the next call of a verb."""
        if verb == "save_message":
            session, message = next(self.unsaid)
            said = {k: message[k] for k in ("role", "content", "name")}
            return lambda: self.memory.save_message(f"{session}-again", said)
        asked = next(self.asked)
        if verb == "search":
            return lambda: self.memory.search(asked)
        return lambda: self.memory.build_context("here", asked, budget=BUDGET)

    def time(self, verb: str, calls: int) -> Dict:
        """Call a verb several times; vectors are made afterwards."""
        walls, cpus = [], []
        for call in [self.call(verb) for _ in range(calls)]:
            self.embedder.wall = self.embedder.cpu = 0.0
            wall, cpu = time.perf_counter(), time.thread_time()
            call()
            walls.append(time.perf_counter() - wall - self.embedder.wall)
            cpus.append(time.thread_time() - cpu - self.embedder.cpu)
        self.memory.flush()
        return {"wall": walls, "cpu": cpus}

    def counts(self, verb: str, calls: int) -> Dict:
        found = [self.counter.count(self.call(verb)) for _ in range(calls)]
        self.memory.flush()
        return {name: median(one[name] for one in found) for name in COUNTS}

    def profile(self, verb: str, calls: int) -> str:
        profile = cProfile.Profile()
        for call in [self.call(verb) for _ in range(calls)]:
            profile.runcall(call)
        out = io.StringIO()
        pstats.Stats(profile, stream=out).sort_stats("tottime").print_stats(TOP)
        return out.getvalue().replace(f"{self.counter.folder}/", "")


def sessions() -> list[tuple[str, Dict]]:
    """Return the messages of all talks with their sessions: an English talk, a Chinese one, and so on."""
    talks = sorted(all_talks(), key=lambda talk: talk.hand)
    english, chinese = ([talk for talk in talks if talk.hand.startswith(code)] for code in ("en", "zh"))
    return [
        (f"{talk.name}-{said.session}", message_of(said.role, said.name, said.text, said.at.isoformat()))
        for pair in zip(english, chinese, strict=False)
        for talk in pair
        for said in talk.said
    ]


def message_of(role: str, name: str, text: str, at: str) -> Dict:
    return {"role": role, "name": name, "content": text, "created_at": at}


def questions() -> Iterator[str]:
    """Give the questions of the same talks, in one order."""
    talks = sorted(all_talks(), key=lambda talk: crc32(talk.name.encode()))
    return iter([asked.text for talk in talks for asked in talk.questions])


def work(size: int) -> None:
    """Answer calls of a `Worker`."""
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(size, folder)
        answer_calls(worker)
        worker.memory.close()


def measure(roots: Dict, size: int, options: argparse.Namespace, console: Console) -> list[Dict]:
    """Return a row for each verb and checkout."""
    checkouts = {name: Checkout(root, Path(__file__), "--work", size) for name, root in roots.items()}
    times: Dict = {(verb, name): {"wall": [], "cpu": []} for verb in VERBS for name in roots}
    for one in checkouts.values():
        one.start()
    for verb in VERBS[::-1]:  # what is saved makes the memory larger
        for number in range(1 + options.rounds):
            for name, one in checkouts.items():
                taken = one.ask("time", verb, options.calls)
                if number:  # the first round warms up
                    for part, seconds in taken.items():
                        times[verb, name][part] += seconds
    rows = [
        {"size": size, "verb": verb, "checkout": name, **one.ask("counts", verb, COUNTED)}
        | {part: 1e3 * median(seconds) for part, seconds in times[verb, name].items()}
        for verb in VERBS
        for name, one in checkouts.items()
    ]
    if options.profile:
        for verb in VERBS:
            console.print(f"{verb}, {size:,} messages", style="bold")
            console.print(checkouts["this"].ask("profile", verb, options.calls), highlight=False)
    for one in checkouts.values():
        one.stop()
    return rows


def table(rows: list[Dict]) -> Table:
    out = table_of("", ("", "verb", "", *COUNTS, "wall", "CPU"), left=3)
    for row in rows:
        cells = [f"{row[name]:,.0f}" for name in COUNTS]
        this = row["checkout"] == "this"
        out.add_row(
            f"{row['size']:,}" if this and row["verb"] == VERBS[0] else "",
            row["verb"] if this else "",
            row["checkout"],
            *cells,
            f"{row['wall']:.2f}",
            f"{row['cpu']:.2f}",
        )
        if not this:
            mine = next(r for r in rows if (r["size"], r["verb"]) == (row["size"], row["verb"]))
            names = (*COUNTS, "wall", "cpu")
            ratios = [f"{row[name] / mine[name]:.2f}" if mine[name] else "" for name in names]
            out.add_row("", "", "x", *ratios, style="bold")
    return out


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout to measure by turns")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="N", help="messages")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N")
    parser.add_argument("--calls", type=int, default=CALLS, metavar="N", help="of a round")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures to this file, too")
    parser.add_argument("--work", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        work(options.work)
        return
    console = Console()
    roots = {"this": ROOT} | ({"other": options.against.resolve()} if options.against else {})
    rows = [row for size in options.sizes for row in measure(roots, size, options, console)]
    console.print(table(rows))
    console.print(machine(), style="dim")
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
