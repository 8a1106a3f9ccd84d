"""How long does a turn take as one session grows: saving it, and building the window for it?

    python bench/context_speed.py [--sizes N...] [--turns N] [--budget N] [--json OUT] [--only NAME...]

About three minutes. What is measured, in a session of each size, turn after turn: a user message is
saved, the window for it is built, and a reply is saved. "window" is the second step alone, "turn"
all three. A few turns are not timed, so that everything is warm and what is due has been folded.

The systems (see context_systems.py), all with windows of the same number of tokens:

- jiyi: a memory in an SQLite file as `jiyi.open` makes it, `build_context` with recall, summary
  and exact token counts. The embedder is `jiyi.testing.HashEmbedder`, so embedding takes next to
  nothing; the vectors of what a turn saved are made between turns, in no figure.
- trim: LangChain's `trim_messages` over the history in a list, with its approximate counter; nothing is
  kept on disk, nothing is searched or summarised.
- summary: LangChain's `SummarizationMiddleware` over a list, triggered at 80 % of the window, the newest 20
  messages kept. Its model is scripted and answers at once: a real one is not in the figures.
- LlamaIndex: `Memory` with its default store, SQLite in memory, and its exact counter; what leaves
  its queue is not shown any more: no memory blocks are set up.

The last three need the extra ``bench-context``. "x jiyi": how many times the median window of
jiyi a system takes at that size; "x 1st": the median of a window beside the same system's at
the first size.
"""

import argparse
import importlib.util
import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from chat import chat
from context_systems import NEEDS, SYSTEMS, Session
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from shared import duration, machine, parser_of, positive, table_of, times, write_json
from shared import load as machine_load

SIZES = (50, 1_000, 10_000)
TURNS = 60
WARM_UP = 5  # turns before the timed ones
BUDGET = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one system took at one size; times in seconds."""

    system: str
    messages: int  # in the session before the first timed turn
    window_p50: float
    window_p95: float
    turn_p50: float
    turn_p95: float
    shown: int  # messages in the last window
    load: float  # everything before the turns


def measure(name: str, size: int, turns: int, budget: int) -> Figures:
    """Fill a session, then time turns."""
    said = [
        {"role": one.message["role"], "content": one.message["content"]} for one in chat(size + 4 * turns)
    ]
    users = [message for message in said[size:] if message["role"] == "user"]
    replies = [message for message in said[size:] if message["role"] == "assistant"]
    windows, whole, shown = [], [], 0
    with TemporaryDirectory() as folder:
        session: Session = SYSTEMS[name](Path(folder), budget)
        began = time.perf_counter()
        session.load(said[:size])
        load = time.perf_counter() - began
        for turn in range(WARM_UP + turns):
            user, reply = users[turn % len(users)], replies[turn % len(replies)]
            began = time.perf_counter()
            session.save(user)
            saved = time.perf_counter()
            shown = session.window(user["content"])
            built = time.perf_counter()
            session.save(reply)
            done = time.perf_counter()
            session.between()
            windows.append(built - saved)
            whole.append(done - began)
        session.close()
    windows, whole = windows[WARM_UP:], whole[WARM_UP:]
    return Figures(
        system=name,
        messages=size,
        window_p50=float(np.percentile(windows, 50)),
        window_p95=float(np.percentile(windows, 95)),
        turn_p50=float(np.percentile(whole, 50)),
        turn_p95=float(np.percentile(whole, 95)),
        shown=shown,
        load=load,
    )


def table(figures: Sequence[Figures], budget: int) -> Table:
    """Return the figures, sizes below each other."""
    title = f"A window of {budget:,} tokens, and the turn around it"
    columns = ("messages", "system", "p50", "p95", "x jiyi", "turn p50", "p95", "x 1st", "load")
    out = table_of(title, columns, left=2)
    before = 0
    for one in figures:
        out.add_row(
            f"{one.messages:,}" if one.messages != before else "",
            one.system,
            duration(one.window_p50),
            duration(one.window_p95),
            times(times_jiyi(one, figures)),
            duration(one.turn_p50),
            duration(one.turn_p95),
            times(growth(one, figures)),
            f"{one.load:,.1f} s",
        )
        before = one.messages
    return out


def times_jiyi(one: Figures, figures: Sequence[Figures]) -> float | None:
    """Return the median window beside that of jiyi at the same size."""
    jiyi = [f.window_p50 for f in figures if f.system == "jiyi" and f.messages == one.messages]
    return one.window_p50 / jiyi[0] if jiyi else None


def growth(one: Figures, figures: Sequence[Figures]) -> float:
    """Return the median window beside that of the same system at the first size."""
    return one.window_p50 / next(f.window_p50 for f in figures if f.system == one.system)


def main() -> None:
    """Measure and print."""
    options = _options()
    # LangChain and LlamaIndex reach for their vendors' model names and services by logging only.
    logging.disable(logging.WARNING)
    console = Console(highlight=False)
    missing = sorted({need for need in NEEDS.values() if need and importlib.util.find_spec(need) is None})
    names = [name for name in options.only or SYSTEMS if NEEDS[name] not in missing]
    console.print(f"{options.turns} turns each. {machine()}.", style="dim")
    if missing:
        console.print(
            f"Not installed and left out: {', '.join(missing)}. They come with the extra: "
            "pip install 'jiyi\\[bench-context]'",
            style="dim",
        )
    began = time.perf_counter()
    figures: list[Figures] = []
    with Progress(console=Console(stderr=True), transient=True) as bar:
        row = bar.add_task("turns", total=len(options.sizes) * len(names))
        for size in options.sizes:
            for name in names:
                figures.append(measure(name, size, options.turns, options.budget))
                bar.advance(row)
    console.print("", table(figures, options.budget), "")
    took = time.perf_counter() - began
    console.print(f"{took:.0f} s in all, load average {machine_load()} at the end.", style="dim")
    rows = [asdict(one) | {"times_jiyi": times_jiyi(one, figures)} for one in figures]
    write_json(options.json, {"budget": options.budget, "turns": options.turns, "rows": rows})


def _options() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--sizes", type=positive, nargs="+", default=SIZES, metavar="N", help="messages")
    parser.add_argument("--turns", type=positive, default=TURNS, metavar="N", help="timed, at each size")
    parser.add_argument("--budget", type=positive, default=BUDGET, metavar="N", help="tokens of a window")
    parser.add_argument("--only", choices=SYSTEMS, nargs="+", help="these systems only")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures to this file, too")
    return parser.parse_args()


if __name__ == "__main__":
    main()
