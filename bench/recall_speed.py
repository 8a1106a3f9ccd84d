"""How long does a search take as one user's memory grows?

    python bench/recall_speed.py [--sizes N...] [--questions N] [--rounds N] [--json OUT] [--without-chroma]

About two minutes; with ``--sizes 1000 10000 100000`` a quarter of an hour. ``make bench`` runs it, too.

What is measured: the time from a question whose vector is there already to the ten best
messages. A chat (see chat.py) of each size is loaded into every system with the same vectors.
Then, in rounds and by turns, each system is opened in a process of its own and asked the same
questions. In further processes messages are saved one by one, each followed by a search. Every
figure is the best of the rounds: the least time, but the most memory.

The systems:

- jiyi: `search(question, limit=10)` on an SQLite file: by words and by meaning, ranked by the
  conversation around. What is returned are whole records with the reasons.
- Chroma, filtered: a `PersistentClient` with its defaults, ten results of one user, as those ask
  who keep several users in a collection. By vector alone. Needs the extra ``chroma``.
- Chroma: the same without the condition.
- scan: a float32 matrix times the vector in numpy, and the ten best of it: the floor of an exact
  search by vector, without words, users, texts or a file to keep.

How to read it:

- "x jiyi": how many times the median of jiyi a way takes at that size; below 1 it is faster.
- "first": the first search after opening, which reads the memory in; the file is in the
  system's cache.
- "after save": a search right after the save of a message. jiyi makes the vector of what is
  saved in the background, which is not in these figures; Chroma is given it.
- "found": how many questions have their message among the ten.
- "memory": of the process after all searches; "saving too": of one that also saved.

BLAS, OpenMP and Rayon get one thread each in all processes; Chroma's own threads are as it
starts them. Its telemetry is off.
"""

import argparse
import importlib.metadata
import importlib.util
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from recall_systems import SAVES, write_chat
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from shared import (
    ONE_THREAD,
    answer_of,
    duration,
    load,
    machine,
    parser_of,
    positive,
    table_of,
    times,
    write_json,
)

SIZES = (1_000, 10_000)
QUESTIONS = 200
ROUNDS = 3
WORKER = Path(__file__).with_name("recall_systems.py")
NAMES = {"jiyi": "jiyi", "chroma_of_user": "Chroma, filtered", "chroma": "Chroma", "scan": "scan"}
KEEP = {"jiyi": "jiyi", "chroma_of_user": "chroma"}  # those that keep messages, and in which folder
QUIET = {"ANONYMIZED_TELEMETRY": "False"} | dict.fromkeys(ONE_THREAD, "1")

Dict = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one system did at one size; times in seconds, None where it has no such step."""

    system: str
    messages: int
    search_p50: float
    search_p95: float
    open: float
    first_search: float  # after opening
    after_a_save_p50: float | None  # a search right after a save
    found: float  # share of the questions whose message is among the ten
    save_p50: float | None  # one message
    save_p95: float | None
    rss: int  # bytes of the process, after all searches
    peak_rss: int  # bytes, the most until then
    rss_with_saves: int | None  # bytes of one that saved, too
    load: float | None  # everything, to the last vector
    file: int | None  # bytes on disk, after loading


def measure(
    size: int, systems: Sequence[str], options: argparse.Namespace, progress: Callable[[], None]
) -> list[Figures]:
    """Load a chat of one size into all systems, then ask them by turns."""
    keep = [system for system in systems if system in KEEP]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_chat(folder, size, options.questions, options.rounds)

        def run(step: str, system: str, number: int = 0) -> Dict:
            answer: Dict = answer_of(WORKER, step, system, folder, number, env=QUIET)
            progress()
            return answer

        loads = {system: run("load", system) | {"file": _bytes(folder / KEEP[system])} for system in keep}
        rounds = range(options.rounds)
        asked = [{system: run("ask", system) for system in systems} for _ in rounds]
        saved = [{system: run("save", system, number) for system in keep} for number in rounds]
    return [
        _figures(system, size, loads.get(system), [one[system] for one in asked], _of(saved, system))
        for system in systems
    ]


def _of(rounds: Sequence[Mapping[str, Dict]], system: str) -> list[Dict]:
    return [one[system] for one in rounds if system in one]


def _figures(
    system: str, size: int, loaded: Dict | None, asked: Sequence[Dict], saved: Sequence[Dict]
) -> Figures:
    """Take the best of the rounds, each figure by itself."""
    return Figures(
        system=system,
        messages=size,
        search_p50=_percentile(asked, "searches", 50),
        search_p95=_percentile(asked, "searches", 95),
        open=min(one["open"] for one in asked),
        first_search=min(one["first"] for one in asked),
        after_a_save_p50=_percentile(saved, "searches", 50) if saved else None,
        found=asked[0]["found"],
        save_p50=_percentile(saved, "saves", 50) if saved else None,
        save_p95=_percentile(saved, "saves", 95) if saved else None,
        rss=max(one["rss"] for one in asked),
        peak_rss=max(one["peak_rss"] for one in asked),
        rss_with_saves=max((one["rss"] for one in saved), default=None),
        load=loaded["load"] if loaded else None,
        file=loaded["file"] if loaded else None,
    )


def _percentile(rounds: Sequence[Dict], part: str, share: int) -> float:
    return min(float(np.percentile(one[part], share)) for one in rounds)


def search_table(figures: Sequence[Figures]) -> Table:
    """Return what a search takes."""
    out = table_of("One search", ("", "", "p50", "p95", "x jiyi", "first", "after save", "found"), left=2)
    for one in figures:
        out.add_row(
            *_begin(one, figures),
            duration(one.search_p50),
            duration(one.search_p95),
            times(_ratio(one, figures)),
            duration(one.first_search),
            duration(one.after_a_save_p50),
            f"{one.found:.0%}",
        )
    return out


def cost_table(figures: Sequence[Figures]) -> Table:
    """Return what keeping the messages takes."""
    out = table_of(
        "Around it", ("", "", "save p50", "save p95", "load", "file", "memory", "saving too"), left=2
    )
    for one in figures:
        sizes = (one.file, one.rss, one.rss_with_saves)
        out.add_row(
            *_begin(one, figures),
            duration(one.save_p50),
            duration(one.save_p95),
            f"{one.load:,.1f} s" if one.load is not None else "",
            *("" if size is None else f"{size / 1e6:,.0f} MB" for size in sizes),
        )
    return out


def as_json(figures: Sequence[Figures], options: argparse.Namespace, header: Sequence[str]) -> Dict:
    """Return the same as plain values; times in seconds, sizes in bytes."""
    rows = [asdict(one) | {"times_jiyi": _ratio(one, figures)} for one in figures]
    return {
        "questions": options.questions,
        "rounds": options.rounds,
        "saves_a_round": SAVES,
        "header": list(header),
        "rows": rows,
    }


def main() -> None:
    """Measure and print."""
    options = _options()
    systems = list(NAMES)
    header = [
        f"The best of {options.rounds} rounds of {options.questions} questions. {machine()}, {_versions()}.",
        f"One thread each for {', '.join(ONE_THREAD)}.",
    ]
    missing = importlib.util.find_spec("chromadb") is None
    if options.without_chroma or missing:
        systems = [system for system in systems if not system.startswith("chroma")]
    if missing and not options.without_chroma:
        header.append("Chroma is not installed and left out; it comes with the extra chroma.")
    console = Console(highlight=False)
    console.print("\n".join(header), "", style="dim")
    began = time.perf_counter()
    keep = sum(system in KEEP for system in systems)
    figures: list[Figures] = []
    with Progress(console=Console(stderr=True), transient=True) as bar:
        steps = keep + options.rounds * (len(systems) + keep)
        row = bar.add_task("asking", total=steps * len(options.sizes))
        for size in options.sizes:
            figures += measure(size, systems, options, lambda: bar.advance(row))
    console.print(search_table(figures), "", cost_table(figures), "")
    console.print(
        f"{time.perf_counter() - began:.0f} s in all, load average {load()} at the end.", style="dim"
    )
    write_json(options.json, as_json(figures, options, header))


def _options() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--sizes", type=positive, nargs="+", default=SIZES, metavar="N", help="messages")
    parser.add_argument("--questions", type=positive, default=QUESTIONS, metavar="N", help="of a round")
    parser.add_argument(
        "--rounds", type=positive, default=ROUNDS, metavar="N", help="of which the best counts"
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures to this file, too")
    parser.add_argument("--without-chroma", action="store_true", help="leave Chroma out")
    return parser.parse_args()


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _ratio(one: Figures, figures: Sequence[Figures]) -> float:
    jiyi = next(f for f in figures if f.system == "jiyi" and f.messages == one.messages)
    return one.search_p50 / jiyi.search_p50


def _versions() -> str:
    found = [name for name in ("jiyi", "numpy", "chromadb") if importlib.util.find_spec(name)]
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in found)


def _begin(one: Figures, figures: Sequence[Figures]) -> tuple[str, str]:
    first = next(f for f in figures if f.messages == one.messages)
    return (f"{one.messages:,}" if one is first else "", NAMES[one.system])


if __name__ == "__main__":
    main()
