"""How long does appending one message take when the conversation is already long?

Run it with ``make bench`` or ``python bench/append.py [--json] [--messages N]``; about a minute.

What is measured: the time from having a message as an OpenAI dict to knowing which messages
go to the model next, within 8,000 tokens. One conversation (Chinese, English, tool calls)
grows to 10,000 messages; around message 10, 1,000 and 10,000 the appends are timed one by one
and the median is shown. With ``--messages N`` the last two are a tenth of N, and N. Every way
gets the same messages, ten at a time by turns, so that a busy machine slows all of them. All
count with the same tokenizer: it is not what is compared.

The ways:

- jiyi, in memory: the message is read, counted once, and `TokenBudget` decides about the
  window so far and the new message. What left cannot come back, so the decision is the one
  it would make about the whole conversation; that is checked at every point.
- jiyi, on disk: `save_message` to an SQLite file (committed to the disk, found by its words)
  and `recent_messages`. It does much more; it is here because it is what an agent calls.
- jiyi, whole list: `TokenBudget` asked about all messages at every append, for those who keep
  the list themselves. Nothing is counted twice, but every message is looked at.
- recount: the way of many tutorials. All messages are counted again, then the front is cut.
- recount the rest: the same by those who throw away what was cut. Its cost is that of counting
  a full window; what was cut is gone.
- LangChain: ``trim_messages(strategy="last", include_system=True, start_on="human")`` over all
  messages, which are converted once.

How to read it: a way that scales has the same time in every column. The last columns say how
many times the time of jiyi a way takes at the last point; below 1 it is faster.
"""

import gc
import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from conversation import conversation
from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages, trim_messages
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from shared import at_least, duration, parser_of, table_of, times

import jiyi
from jiyi.testing import HashEmbedder
from jiyi.text import TokenCounter, counter_for

MESSAGES = 10_000  # the conversation grows to so many
AROUND = 20  # appends timed on either side of a point
LEAST = 600  # messages: the points lie apart
BLOCK = 10  # appends of one way before the next has its turn: fewer would time the processor's cache
BUDGET = 8_000  # tokens

Dict = dict[str, Any]


class Way(Protocol):
    """A way to keep a conversation within a budget."""

    def grow(self, messages: Sequence[Dict]) -> None:
        """Take these messages in, as fast as may be; not timed."""

    def append(self, message: Dict) -> None:
        """Take one message in and decide what goes to the model; timed."""


class InMemory:
    """Messages that carry their counts, and the window as the policy left it."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._policy = jiyi.TokenBudget(BUDGET, counter)
        self._open: set[str] = set()  # calls that wait for their results
        self.held: list[jiyi.Message] = []

    def grow(self, messages: Sequence[Dict]) -> None:
        for message in messages:
            self.append(message)

    def append(self, message: Dict) -> None:
        new = self._counter.counted(jiyi.Message.from_openai(message))
        self.held.append(new)
        kept = self._policy(self.held).kept
        # A call is left out of the window until its results are there, but must not be lost.
        self._open |= {call.id for call in new.tool_calls}
        self._open.discard(new.tool_call_id or "")
        if not self._open:
            self.held = list(kept)


class WholeList:
    """Messages that carry their counts; the policy sees all of them every time."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._policy = jiyi.TokenBudget(BUDGET, counter)
        self.messages: list[jiyi.Message] = []
        self.window: tuple[jiyi.Message, ...] = ()

    def grow(self, messages: Sequence[Dict]) -> None:
        self.messages += [self._counter.counted(jiyi.Message.from_openai(m)) for m in messages]

    def append(self, message: Dict) -> None:
        self.messages.append(self._counter.counted(jiyi.Message.from_openai(message)))
        self.window = self._policy(self.messages).kept


class OnDisk:
    """The whole path through an SQLite file."""

    def __init__(self, memory: jiyi.MemoryManager) -> None:
        self._memory = memory

    def grow(self, messages: Sequence[Dict]) -> None:
        self._memory.save_messages("bench", messages)

    def append(self, message: Dict) -> None:
        self._memory.save_message("bench", message)
        self._memory.recent_messages("bench")


class Recount:
    """Count everything, cut the front."""

    def __init__(self, counter: TokenCounter, *, forgets: bool) -> None:
        self._count = counter.count_text
        self._forgets = forgets
        self._messages: list[Dict] = []

    def grow(self, messages: Sequence[Dict]) -> None:
        self._messages += messages
        if self._forgets and len(self._messages) > 1:
            self._messages = self._cut()

    def append(self, message: Dict) -> None:
        self._messages.append(message)
        window = self._cut()
        if self._forgets:
            self._messages = window

    def _cut(self) -> list[Dict]:
        tokens = [self._tokens(message) for message in self._messages]
        total, start = sum(tokens), 1
        while total > BUDGET:
            total -= tokens[start]
            start += 1
        return [self._messages[0], *self._messages[start:]]

    def _tokens(self, message: Dict) -> int:
        calls = [call["function"] for call in message.get("tool_calls", ())]
        text = sum(self._count(call["name"]) + self._count(call["arguments"]) for call in calls)
        return 4 + self._count(message["content"] or "") + text


class LangChain:
    """``trim_messages`` over the whole conversation."""

    def __init__(self, counter: TokenCounter) -> None:
        self._count = counter.count_text
        self._messages: list[BaseMessage] = []

    def grow(self, messages: Sequence[Dict]) -> None:
        self._messages += convert_to_messages([_for_langchain(message) for message in messages])

    def append(self, message: Dict) -> None:
        self.grow([message])
        trim_messages(
            self._messages,
            max_tokens=BUDGET,
            token_counter=self._tokens,
            strategy="last",
            include_system=True,
            start_on="human",
        )

    def _tokens(self, messages: list[BaseMessage]) -> int:
        total = 0
        for message in messages:
            total += 4 + self._count(str(message.content))
            if isinstance(message, AIMessage):
                for call in message.tool_calls:
                    total += self._count(call["name"]) + self._count(json.dumps(call["args"]))
        return total


@dataclass
class Figures:
    """The medians of one way, in seconds, by point."""

    name: str
    way: Way
    medians: dict[int, float] = field(default_factory=dict)


def measure(ways: Sequence[Figures], points: Sequence[int], progress: Callable[[], None]) -> None:
    """Grow every way to each point and time the appends around it."""
    messages = conversation(points[-1] + AROUND)
    done = 0
    for point in points:
        start = max(point - AROUND, 0)
        for figures in ways:
            figures.way.grow(messages[done:start])
            progress()
        took: dict[str, list[float]] = {figures.name: [] for figures in ways}
        done = point + AROUND
        gc.collect()
        for first in range(start, done, BLOCK):
            for figures in ways:
                for message in messages[first : min(first + BLOCK, done)]:
                    began = time.perf_counter()
                    figures.way.append(message)
                    took[figures.name].append(time.perf_counter() - began)
        for figures in ways:
            figures.medians[point] = statistics.median(took[figures.name])
        _check_same(ways, point)
        progress()


def run(folder: Path, points: Sequence[int], progress: Callable[[], None]) -> list[Figures]:
    """Measure all ways, the two of jiyi that ratios are given to first."""
    counter = counter_for("gpt-4o")
    database = folder / "bench.db"
    with jiyi.open(database, user_id="bench", embedder=HashEmbedder(), background=False) as memory:
        ways = [
            Figures("jiyi, in memory", InMemory(counter)),
            Figures("jiyi, on disk", OnDisk(memory)),
            Figures("jiyi, whole list", WholeList(counter)),
            Figures("recount", Recount(counter, forgets=False)),
            Figures("recount the rest", Recount(counter, forgets=True)),
            Figures("LangChain trim_messages", LangChain(counter)),
        ]
        measure(ways, points, progress)
    return ways


def table(ways: Sequence[Figures]) -> Table:
    """Return the medians and the ratios."""
    points = (f"at {point:,}" for point in ways[0].medians)
    out = table_of("One append, median", ["", *points, "x in memory", "x on disk"])
    for figures in ways:
        cells = [duration(median) for median in figures.medians.values()]
        out.add_row(figures.name, *cells, *map(times, _ratios(figures, ways)))
    return out


def as_json(ways: Sequence[Figures], seconds: float) -> Dict:
    """Return the same as plain values; times in seconds."""
    rows = [
        {
            "way": figures.name,
            "median_seconds": {str(point): median for point, median in figures.medians.items()},
            "times_in_memory": _ratios(figures, ways)[0],
            "times_on_disk": _ratios(figures, ways)[1],
        }
        for figures in ways
    ]
    machine = f"{platform.python_implementation()} {platform.python_version()}, {platform.platform()}"
    return {"budget": BUDGET, "appends_a_point": 2 * AROUND, "machine": machine, "s": seconds, "ways": rows}


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument(
        "--messages", type=at_least(LEAST), default=MESSAGES, metavar="N", help="of the conversation"
    )
    options = parser.parse_args()
    points = (10, options.messages // 10, options.messages)
    began = time.perf_counter()
    bar = Progress(console=Console(stderr=True), disable=options.json, transient=True)
    with tempfile.TemporaryDirectory() as folder, bar:
        row = bar.add_task("appending", total=7 * len(points))
        ways = run(Path(folder), points, lambda: bar.advance(row))
    seconds = time.perf_counter() - began
    if options.json:
        json.dump(as_json(ways, seconds), sys.stdout, indent=2)
        print()
        return
    console = Console(highlight=False)
    console.print(table(ways))
    console.print(
        f"\nWithin {BUDGET:,} tokens; {2 * AROUND} appends around each point; "
        f"ratios at message {points[-1]:,}; {seconds:.0f} s in all.",
        style="dim",
    )


def _check_same(ways: Sequence[Figures], point: int) -> None:
    """Make sure that deciding step by step is deciding about the whole."""
    rolling = next(f.way for f in ways if isinstance(f.way, InMemory))
    whole = next(f.way for f in ways if isinstance(f.way, WholeList))
    policy = jiyi.TokenBudget(BUDGET, counter_for("gpt-4o"))
    ours = [message.to_openai() for message in policy(rolling.held).kept]
    assert ours == [message.to_openai() for message in whole.window], f"the windows differ at {point}"


def _for_langchain(message: Dict) -> Dict:
    return message if message.get("content") is not None else {**message, "content": ""}


def _ratios(figures: Figures, ways: Sequence[Figures]) -> tuple[float, float]:
    last = max(figures.medians)
    memory, disk = ways[0].medians[last], ways[1].medians[last]
    return figures.medians[last] / memory, figures.medians[last] / disk


if __name__ == "__main__":
    main()
