"""How many messages a second does a memory take in, vectors and all?

    python bench/ingest.py FILE [--threads N]... [--messages N] [--against DIR] [--json OUT]

FILE is one of `jiyi evaluate`; its first messages (600 by default, about a minute) go into a fresh
memory for each number of threads (1 and 2 by default): saved, read for facts, flushed. Beside them
the bundled model alone, asked for one vector of each message, one after the other in one thread, and
with ``--against`` the memory of another checkout, on one thread. Each is a process of its own; all
take turns, 100 messages each, so that a busy machine slows all of them. A message may have several
vectors, and what is learned from it has one, too; the model alone makes none of these.

The last columns: messages a second as times of the last row, and processor time a message.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from shared import Checkout, answer_calls, machine, parser_of, table_of, write_json

import jiyi
import jiyi.embeddings
from jiyi.evaluate import load_dataset

ROOT = Path(__file__).parents[1]
BLOCK = 100  # messages of one way before the next has its turn

Talk = tuple[str, jiyi.Message]  # a session's id, and what was said there


class Ingest:
    """A memory whose model has so many threads; ``file`` is the dataset that messages are of."""

    def __init__(self, file: Path, most: int, threads: int, folder: str) -> None:
        self._talks = read(file, most)
        self._memory = jiyi.open(
            Path(folder) / "memory.db", user_id="bench", background=False, embedding_threads=threads
        )
        self.close = self._memory.close
        self._memory.save_message("warm", role="user", content="预热 warm up")
        self._memory.flush()

    def take(self, start: int) -> dict[str, float]:
        """Take in the block of messages that starts there; return seconds."""
        block = self._talks[start : start + BLOCK]
        began, used = time.perf_counter(), time.process_time()
        for session in dict.fromkeys(session for session, _ in block):
            self._memory.save_messages(session, [message for home, message in block if home == session])
        self._memory.flush()
        return {"wall": time.perf_counter() - began, "cpu": time.process_time() - used}


class Floor:
    """The model alone."""

    def __init__(self, file: Path, most: int) -> None:
        self._talks = read(file, most)
        self._embedder = jiyi.embeddings.E5Embedder(threads=1)
        self._embedder.embed(["预热 warm up"], "passage")

    def take(self, start: int) -> dict[str, float]:
        """Embed the block of messages that starts there; return seconds."""
        began, used = time.perf_counter(), time.process_time()
        for _, message in self._talks[start : start + BLOCK]:
            self._embedder.embed([message.search_text], "passage")
        return {"wall": time.perf_counter() - began, "cpu": time.process_time() - used}


def read(file: Path, most: int) -> list[Talk]:
    """Return the first messages of a file, conversation after conversation."""
    talks = [
        (f"{conversation.id}/{session.id}", message)
        for conversation in load_dataset(file).conversations
        for session in conversation.sessions
        for message in session.messages
    ]
    return talks[:most]


def work(options: argparse.Namespace) -> None:
    """Answer calls of an `Ingest`, or of the `Floor` where there are 0 threads."""
    if not options.work:
        answer_calls(Floor(options.file, options.messages))
        return
    with tempfile.TemporaryDirectory() as folder:
        worker = Ingest(options.file, options.messages, options.work, folder)
        answer_calls(worker)
        worker.close()


def measure(ways: dict[str, Checkout], total: int, bar: Progress) -> list[dict[str, Any]]:
    """Give every way all messages by turns; return what each took."""
    took = {name: {"wall": 0.0, "cpu": 0.0} for name in ways}
    row = bar.add_task("messages", total=total * len(ways))
    for way in ways.values():
        way.start()
    for start in range(0, total, BLOCK):
        for name, way in ways.items():
            for part, seconds in way.ask("take", start).items():
                took[name][part] += seconds
            bar.advance(row, min(BLOCK, total - start))
    for way in ways.values():
        way.stop()
    last = next(reversed(took.values()))  # the floor, or the other checkout
    return [
        {
            "way": name,
            "messages_a_second": total / seconds["wall"],
            "times_the_last": last["wall"] / seconds["wall"],
            "cpu_seconds_a_message": seconds["cpu"] / total,
        }
        for name, seconds in took.items()
    ]


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--threads", type=int, action="append", metavar="N", help="1 and 2 by default")
    parser.add_argument("--messages", type=int, default=600, metavar="N", help="the first so many")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout to measure by turns")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures to this file, too")
    parser.add_argument("--work", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        work(options)
        return

    def way(root: Path, threads: int) -> Checkout:
        words = (options.file.resolve(), "--messages", options.messages, "--work", threads)
        return Checkout(root, Path(__file__), *words)

    threads = dict.fromkeys(options.threads or (1, 2))
    ways = {f"{n} thread{'s' if n > 1 else ''}": way(ROOT, n) for n in threads}
    ways["the model alone"] = way(ROOT, 0)
    if options.against:
        ways["other, as it comes"] = way(options.against.resolve(), 1)
    total = len(read(options.file, options.messages))
    with Progress(console=Console(stderr=True), transient=True) as bar:
        rows = measure(ways, total, bar)
    table = table_of(f"{total} messages", ("", "messages/s", "x the last", "CPU ms/message"))
    for row in rows:
        figures = (row["messages_a_second"], row["times_the_last"], 1000 * row["cpu_seconds_a_message"])
        table.add_row(row["way"], f"{figures[0]:,.1f}", f"{figures[1]:.2f}", f"{figures[2]:.1f}")
    console = Console(highlight=False)
    console.print(table)
    console.print(machine(), style="dim")
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
