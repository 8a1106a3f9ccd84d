"""How many messages a second does a memory take in, vectors and all?

    python bench/ingest.py FILE [--threads N]... [--messages N] [--json]

FILE is one of `jiyi evaluate`; its first messages (600 by default, about a minute) go into a fresh
memory for each number of threads (1 and 2 by default): saved, read for facts, flushed. The floor is
the bundled model alone, asked for one vector of each message, one after the other in one thread.
All take turns, 100 messages each, so that a busy machine slows all of them. A message may have
several vectors, and what is learned from it has one, too; the floor makes none of these.

The last columns: messages a second as times of the floor, and seconds of processor time a message.
"""

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from shared import parser_of

import jiyi
import jiyi.embeddings
from jiyi.evaluate import load_dataset

BLOCK = 100  # messages of one way before the next has its turn

Talk = tuple[str, jiyi.Message]  # a session's id, and what was said there


class Floor:
    """The model alone."""

    name = "the model alone"

    def __init__(self) -> None:
        self._embedder = jiyi.embeddings.E5Embedder(threads=1)

    def take(self, block: Sequence[Talk]) -> None:
        for _, message in block:
            self._embedder.embed([message.search_text], "passage")


class Ingest:
    """A memory whose model has so many threads."""

    def __init__(self, folder: Path, threads: int) -> None:
        self.name = f"{threads} thread{'s' if threads > 1 else ''}"
        embedder = jiyi.embeddings.E5Embedder(threads=threads)
        self._memory = jiyi.open(
            folder / f"{threads}.db", user_id="bench", embedder=embedder, background=False
        )
        self.close = self._memory.close

    def take(self, block: Sequence[Talk]) -> None:
        for session in dict.fromkeys(session for session, _ in block):
            self._memory.save_messages(session, [message for home, message in block if home == session])
        self._memory.flush()


def read(file: Path, most: int) -> list[Talk]:
    """Return the first messages of a file, conversation after conversation."""
    talks = [
        (f"{conversation.id}/{session.id}", message)
        for conversation in load_dataset(file).conversations
        for session in conversation.sessions
        for message in session.messages
    ]
    return talks[:most]


def measure(talks: Sequence[Talk], ways: Sequence[Floor | Ingest], bar: Progress) -> list[dict[str, Any]]:
    """Give every way all messages by turns; return what each took."""
    wall, cpu = dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0.0)
    row = bar.add_task("messages", total=len(talks) * len(ways))
    for way in ways:  # the model and the dictionaries are loaded
        way.take([("warm", jiyi.Message.from_openai({"role": "user", "content": "预热 warm up"}))])
    for start in range(0, len(talks), BLOCK):
        block = talks[start : start + BLOCK]
        for way in ways:
            began, used = time.perf_counter(), time.process_time()
            way.take(block)
            wall[way] += time.perf_counter() - began
            cpu[way] += time.process_time() - used
            bar.advance(row, len(block))
    rates = {way: len(talks) / wall[way] for way in ways}
    return [
        {
            "way": way.name,
            "messages_a_second": rates[way],
            "times_the_floor": rates[way] / rates[ways[0]],
            "cpu_seconds_a_message": cpu[way] / len(talks),
        }
        for way in ways
    ]


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--threads", type=int, action="append", metavar="N", help="1 and 2 by default")
    parser.add_argument("--messages", type=int, default=600, metavar="N", help="the first so many")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    talks = read(options.file, options.messages)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ways: list[Floor | Ingest] = [Floor()]
        for threads in dict.fromkeys(options.threads or (1, 2)):
            ways.append(ingest := Ingest(folder, threads))
            stack.callback(ingest.close)
        bar = stack.enter_context(
            Progress(console=Console(stderr=True), disable=options.json, transient=True)
        )
        rows = measure(talks, ways, bar)
    if options.json:
        json.dump({"messages": len(talks), "ways": rows}, sys.stdout, indent=2)
        print()
        return
    table = Table(
        "", "messages/s", "x alone", "CPU ms/message", title=f"{len(talks)} messages", title_justify="left"
    )
    for row in rows:
        figures = (row["messages_a_second"], row["times_the_floor"], 1000 * row["cpu_seconds_a_message"])
        table.add_row(row["way"], f"{figures[0]:,.1f}", f"{figures[1]:.2f}", f"{figures[2]:.1f}")
    Console(highlight=False).print(table)


if __name__ == "__main__":
    main()
