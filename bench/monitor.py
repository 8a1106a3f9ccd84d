"""What does watching cost?

Run it with ``python bench/monitor.py`` (options: ``--help``); about a minute.

What is measured, on a memory of 500 messages in an SQLite file: the time of `build_context`
alone, and of `build_context` followed by `ContextMonitor.window`, by turns in one process, the
first of each pair in turn too, so that a busy machine slows both. The embedder is the one of
`jiyi.testing`, which takes no time to speak of: with a real one a window takes longer
and the monitor's part of it is smaller. Apart from that, what each call of the monitor takes
by itself, and what a million windows of 1,000 sessions and 20 task types leave in memory.

How to read it: the ratio should be below 1.02. "of a window" is the median of the calls
by itself over the median of `build_context`, which is less at the mercy of the machine.
"""

import gc
import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from conversation import conversation
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from shared import at_least, parser_of, positive, table_of

import jiyi
from jiyi.monitor import ContextMonitor
from jiyi.monitor.hits import RETRIEVED_SECTIONS
from jiyi.records import Block, Window
from jiyi.testing import HashEmbedder

MESSAGES = 500
BUDGET = 4_000  # tokens
QUESTIONS = (
    "nginx 又 502 了，upstream 是哪台？",
    "Which of the app hosts restarted last night?",
    "db-west-02 的磁盘还剩多少？",
    "Compare p95 of the orders page with last Tuesday's.",
    "证书续期计划写到哪了？",
)
REPLY = "app-01 和 app-02 重启过：内存超过容器上限。The limit is 1g now on both hosts, p95 is 480 ms."
MANY = 1_000_000

Dict = dict[str, Any]


def timed(work: Callable[[], object]) -> float:
    """Return the CPU seconds a piece of work takes: others on the machine do not count."""
    began = time.process_time()
    work()
    return time.process_time() - began


def shown_in(window: Window) -> tuple[Block, ...]:
    """Return the blocks a window shows; made up of its report where it does not carry them."""
    if window.blocks:
        return window.blocks
    return tuple(
        Block(section=one.section, tokens=one.tokens, text=one.title * 4, kind=one.kind, source_id=one.id)
        for one in window.report.included
        if one.section in RETRIEVED_SECTIONS
    )


def windows(memory: jiyi.MemoryManager, count: int, step: Callable[[], None]) -> Dict:
    """Build windows with and without the monitor by turns."""
    monitor = ContextMonitor()
    plain: list[float] = []
    watched: list[float] = []
    alone: list[float] = []

    def build(number: int) -> Window:
        return memory.build_context("bench", QUESTIONS[number % len(QUESTIONS)], BUDGET)

    def watch(number: int) -> None:
        began = time.perf_counter()
        window = build(number)
        built = time.perf_counter()
        monitor.window(window, task_type="ops", session_id="bench", milliseconds=(built - began) * 1e3)
        alone.append(time.perf_counter() - built)

    for number in range(20):  # caches are filled before the first is counted
        build(number)
    for number in range(count):
        pair = [(plain, build), (watched, watch)]
        for times, work in pair if number % 2 else pair[::-1]:
            times.append(timed(lambda work=work, number=number: work(number)))
        step()
    return {
        "without": statistics.median(plain),
        "with": statistics.median(watched),
        "ratio": statistics.median(watched) / statistics.median(plain),
        "window": statistics.median(alone),
        "of_a_window": statistics.median(alone) / statistics.median(plain),
    }


def calls(window: Window, times: int) -> Dict:
    """Time the other calls of the monitor, each by itself."""
    monitor = ContextMonitor()
    window = replace(window, blocks=shown_in(window))

    def median(work: Callable[[], object], times: int, before: Callable[[], object] | None = None) -> float:
        found = []
        for _ in range(times):
            if before:
                before()
            found.append(timed(work))
        return statistics.median(found)

    def note() -> None:
        monitor.window(window, task_type="ops", session_id="s", milliseconds=9.0)

    def answered() -> None:
        note()
        monitor.reply("s", REPLY)

    return {
        "reply": median(lambda: monitor.reply("s", REPLY), times, note),
        "step": median(lambda: monitor.step("s", "docker restart app-01"), times),
        "gauges, one reply waiting": median(monitor.gauges, max(times // 20, 1), answered),
        "gauges": median(monitor.gauges, max(times // 10, 1)),
        "blocks": len(window.blocks),
    }


def resident() -> int:
    """Return the bytes of memory the process holds now; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    except OSError:
        return 0


def many(window: Window, count: int, step: Callable[[], None]) -> Dict:
    """Note many windows and what is left of them."""
    monitor = ContextMonitor()
    window = replace(window, blocks=shown_in(window))
    grown: list[int] = []
    before = resident()
    began = time.perf_counter()
    for number in range(count):
        monitor.window(
            window, task_type=f"t{number % 20}", session_id=f"s{number % 1000}", milliseconds=number % 97
        )
        if number % (count // 10) == count // 10 - 1:
            gc.collect()
            grown.append(resident() - before)
            step()
    assert monitor.gauges().windows == count
    return {
        "seconds": time.perf_counter() - began,
        "grown_first": grown[0],  # after the first tenth
        "grown": grown[-1],
    }


def table(found: Dict) -> Table:
    """Return the figures."""
    shown = table_of("ContextMonitor", ("", "median", "of a window"))
    built = found["without"]
    shown.add_row("build_context", f"{built * 1e3:.2f} ms", "")
    shown.add_row("build_context, watched", f"{found['with'] * 1e3:.2f} ms", f"x {found['ratio']:.3f}")
    for name in ("window", "reply", "step", "gauges", "gauges, one reply waiting"):
        shown.add_row(name, f"{found[name] * 1e6:,.0f} us", f"{found[name] / built:.2%}")
    return shown


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument("--windows", type=positive, default=400, help="pairs of windows")
    parser.add_argument(
        "--many", type=at_least(10), default=MANY, help="windows after which memory is looked at"
    )
    parser.add_argument("--calls", type=positive, default=2_000, help="of each other call of the monitor")
    parser.add_argument("--messages", type=positive, default=MESSAGES, help="in the memory")
    options = parser.parse_args()
    bar = Progress(console=Console(stderr=True), disable=options.json, transient=True)
    with tempfile.TemporaryDirectory() as folder, bar:
        row = bar.add_task("watching", total=options.windows + 10)
        memory = jiyi.open(
            Path(folder) / "bench.db", user_id="ana", embedder=HashEmbedder(), background=False
        )
        memory.save_messages("bench", conversation(options.messages))
        found = windows(memory, options.windows, lambda: bar.advance(row))
        window = memory.build_context("bench", QUESTIONS[0], BUDGET)
        memory.close()
        found |= calls(window, options.calls)
        found["many"] = many(window, options.many, lambda: bar.advance(row))
    found |= {"messages": options.messages, "pairs": options.windows, "python": platform.python_version()}
    if options.json:
        json.dump(found, sys.stdout, indent=2)
        print()
        return
    console = Console(highlight=False)
    console.print(table(found))
    kept = found["many"]
    first, last = (f"{kept[name] / 1e6:+.1f} MB" for name in ("grown_first", "grown"))
    console.print(
        f"\n{options.windows} pairs, {options.messages} messages, {BUDGET:,} tokens, "
        f"{found['blocks']} blocks.\n"
        f"{options.many:,} windows: {kept['seconds']:.0f} s; "
        f"memory {first} after a tenth of them, {last} at the end.",
        style="dim",
    )


if __name__ == "__main__":
    main()
