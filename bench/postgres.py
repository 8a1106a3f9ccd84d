"""What does a memory on a PostgreSQL server cost, beside a file and beside statements by hand?

    python bench/postgres.py [--messages N] [--users N] [--rounds N] [--search] [--url URL] [--json OUT]

About a quarter of an hour with 100,000 messages; a few minutes with ``--search``, which measures only
searches of many users on PostgreSQL, with the bare query between them: in milliseconds, and as "busy" the
processor time of client and server together, which other work on the machine changes less.

It starts a server of its own in a temporary folder (the extra ``server``), with the settings PostgreSQL
comes with: everything that is committed is on the disk. ``--url`` names an empty database instead; it is
filled and not cleared.

A chat (see chat.py) is loaded twice into each memory: as that of many users, and as that of one
user. Then each step runs in a process of its own, by turns, in rounds of which the best counts.
The vectors of questions are there already.

- A search: `search(question, limit=10)`, by words and by meaning, ranked by the conversation
  around. "first" is the first one of a user in a process, which reads the user's words in.
- A window: `build_context` of 4,000 tokens in a session of 30 messages.
- The nearest: the 200 vectors a search asks for. "by hand" is the query that one would write with
  pgvector, exact, with the same user and as many results, prepared, over a connection like jiyi's;
  its rows are in a table without row level security.
- Words: the best messages by BM25 from the process's memory (`Store.match`), beside the best 100 of
  the same terms by `ts_rank` over `to_tsvector('simple', …)` with a GIN index.
- A save: `save_message`, found by its words and on the disk when it returns. "by hand" is one
  INSERT and COMMIT of the same words, ids and body into a table with a primary key.
- Saves a second by many clients at once, each a user of its own: processes, which share nothing
  but the server, and threads of one process, which share Python's lock. "busy" are cores of the
  whole machine, clients and server together. Vectors are made later, in no figure.
"""

import argparse
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from postgres_clients import clients
from postgres_steps import LAYOUTS, STEPS, write_chat
from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table
from shared import ONE_THREAD, load, machine, ms, parser_of, positive, table_of, write_json

from jiyi.storage.postgres.server import LocalServer
from jiyi.text import analyse

MESSAGES, USERS, QUESTIONS, ROUNDS = 100_000, 100, 200, 3
CLIENTS = (1, 8, 32)
SECONDS = 5.0
FORK = multiprocessing.get_context("fork")  # what was imported need not be imported by every process
NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "bare": "by hand"}
MEMORIES = ("sqlite", "postgresql")
WAYS = (
    ("bare", "processes"),
    ("postgresql", "processes"),
    ("postgresql", "threads"),
    ("sqlite", "processes"),
)
SATURATED = 0.9  # of the cores

Dict = dict[str, Any]
Times = dict[tuple[str, ...], Dict]


@contextmanager
def places(folder: Path, url: str | None) -> Iterator[Dict]:
    """Give a file and a database, both empty; a server of its own is stopped in the end."""
    files = {"sqlite": str(folder / "memory.db")}
    if url is not None:
        yield files | {"postgresql": url, "bare": url}
        return
    folder.chmod(0o755)  # root's server runs as somebody else
    with LocalServer(folder / "server") as server:
        yield files | {"postgresql": server.url, "bare": server.url}


def measure(folder: Path, rounds: int, step: Callable[[], None]) -> tuple[Times, Dict]:
    """Do all steps but those of many clients; return the times of each, and the server's settings."""
    times: Times = {}

    def run(name: str, system: str, what: object = "", number: int = 0) -> Dict:
        answer = _run(STEPS[name], system, folder, str(what))
        times[name, system, str(what) if name != "save" else "", str(number)] = answer
        step()
        return answer

    for layout in LAYOUTS:
        for system in MEMORIES:
            run("load", system, layout)
    settings = run("tables", "bare", "all")
    for number in range(rounds):
        for layout in LAYOUTS:
            for system in MEMORIES:
                run("read", system, layout, number)
            run("by_hand", "bare", layout, number)
        for system in ("bare", *MEMORIES):
            run("save", system, number, number)
    return times, settings


def search_only(folder: Path, rounds: int, step: Callable[[], None]) -> tuple[list[Dict], Dict]:
    """Search as many users, the bare query by turns; return the medians of each round, and of all."""
    _run(STEPS["load"], "postgresql", folder, LAYOUTS[0])
    step()
    settings = _run(STEPS["tables"], "bare", folder, "none")
    found: list[Dict] = []
    for _ in range(rounds):
        found.append(_run(STEPS["search"], "postgresql", folder, LAYOUTS[0]))
        step()
    together = {part: [seconds for one in found for seconds in one[part]] for part in found[0]}
    rows = [{part: float(np.median(seconds)) for part, seconds in one.items()} for one in (*found, together)]
    ratios = {"ratio": "search", "busy ratio": "search busy"}
    for row in rows:
        row |= {name: row[part] / row[part.replace("search", "bare")] for name, part in ratios.items()}
    return rows, settings


def rows_of(times: Times) -> list[Dict]:
    """Return a figure a row: the best round of each part, in seconds; loading as it was."""
    found: dict[tuple[str, str, str], list[list[float]]] = {}
    rows: list[Dict] = []
    for (step, system, layout, _), answer in times.items():
        for part, seconds in answer.items():
            if step == "load":
                rows.append({"what": f"load {part}", "system": system, "layout": layout, "seconds": seconds})
            elif step != "tables":
                found.setdefault((part, system, layout), []).append(seconds)
    for (part, system, layout), some in found.items():
        best = {f"p{share}": min(float(np.percentile(one, share)) for one in some) for share in (50, 95)}
        rows.append({"what": part, "system": system, "layout": layout, **best})
    return rows


def ratios_of(rows: Sequence[Dict], saved: Sequence[Dict]) -> Dict:
    """Return what is asked of this backend."""

    def of(share: str, what: str, system: str, layout: str) -> float:
        wanted = (what, system, layout)
        return next(
            float(row[share]) for row in rows if (row["what"], row["system"], row["layout"]) == wanted
        )

    p95 = partial(of, "p95")

    def rate(system: str, clients: int) -> Dict:
        wanted = (system, "processes", clients)
        return next(one for one in saved if (one["system"], one["way"], one["clients"]) == wanted)

    ratios: Dict = {}
    for layout in LAYOUTS:
        by_hand, search = p95("nearest", "bare", layout), p95("search", "postgresql", layout)
        ratios[f"search p95 / nearest by hand p95, {layout}"] = search / by_hand
        turns = of("p50", "search", "postgresql", layout) / of("p50", "bare", "postgresql", layout)
        ratios[f"search p50 / the bare query p50 by turns, {layout}"] = turns
        nearest = p95("nearest", "postgresql", layout)
        ratios[f"nearest p95 / nearest by hand p95, {layout}"] = nearest / by_hand
        ratios[f"search p95 / search on SQLite p95, {layout}"] = search / p95("search", "sqlite", layout)
    most, cores = max(one["clients"] for one in saved), os.cpu_count() or 1
    crowd = rate("postgresql", most)
    return ratios | {
        "save p95 / INSERT by hand p95": p95("save", "postgresql", "") / p95("save", "bare", ""),
        f"saves of {most} clients / of one": crowd["per_second"] / rate("postgresql", 1)["per_second"],
        f"the same by hand, {most} / one": rate("bare", most)["per_second"] / rate("bare", 1)["per_second"],
        f"cores busy with {most} clients": crowd["busy"],
        "cores": cores,
        "cores are saturated": crowd["busy"] >= SATURATED * cores,
    }


def verbs_table(rows: Sequence[Dict], titles: Dict) -> Table:
    """Return what a search and a window take, and what a search is made of."""
    heads = [head for name in NAMES.values() for head in (f"{name}\np50", "\np95")]
    out = table_of("Reading", ["milliseconds", *heads])
    parts = {
        "search": "search",
        "first search": "search, first",
        "window": "window",
        "nearest": "nearest 200",
        "words": "words",
        "first words": "words, first",
    }
    for layout in LAYOUTS:
        out.add_row(f"[bold]{titles[layout]}[/]")
        for part, name in parts.items():
            _add(out, rows, part, layout, name)
    out.add_row("[bold]Writing[/]")
    _add(out, rows, "save", "", "save")
    return out


def _add(out: Table, rows: Sequence[Dict], part: str, layout: str, name: str) -> None:
    by_system = {row["system"]: row for row in rows if (row["what"], row["layout"]) == (part, layout)}
    cells = [
        ms(by_system[system][share]) if system in by_system else ""
        for system in NAMES
        for share in ("p50", "p95")
    ]
    out.add_row(f"  {name}", *cells)


def clients_table(saved: Sequence[Dict]) -> Table:
    """Return saves a second, and how many cores were busy with them."""
    sizes = sorted({one["clients"] for one in saved})
    heads = [(f"{size}\nclients" if size > 1 else "1\nclient", "\nbusy") for size in sizes]
    out = table_of("Saves a second", ["", *(head for pair in heads for head in pair)])
    for system, way in dict.fromkeys((one["system"], one["way"]) for one in saved):
        by_size = {one["clients"]: one for one in saved if (one["system"], one["way"]) == (system, way)}
        cells = [
            cell
            for size in sizes
            for cell in (
                (f"{by_size[size]['per_second']:,.0f}", f"{by_size[size]['busy']:.2f}")
                if size in by_size
                else ("", "")
            )
        ]
        out.add_row(f"{NAMES[system]}, {way}", *cells)
    return out


def print_searches(options: argparse.Namespace, console: Console) -> None:
    """Measure and print searches of many users."""
    each = options.messages // options.users
    console.print(f"{options.users:,} users with {each:,} messages each. {machine()}.", style="dim")
    with (
        tempfile.TemporaryDirectory(prefix="jiyi-bench-", dir="/tmp") as name,
        places(Path(name), options.url) as found,
        Progress(console=Console(stderr=True), transient=True, auto_refresh=False) as bar,
    ):
        folder = Path(name)
        analyse("预热 warm")
        task = bar.add_task("measuring", total=1 + options.rounds)
        write_chat(folder, options.messages, options.users, options.questions, found)
        rows, settings = search_only(folder, options.rounds, lambda: _advance(bar, task))
    heads = [f"{head}{unit}" for unit in ("\nms", "\nbusy") for head in ("search", "bare", "times")]
    out = table_of("Medians", ["round", *heads])
    for number, row in enumerate(rows, 1):
        cells = [
            *(ms(row["search"]), ms(row["bare"]), f"{row['ratio']:.2f}"),
            *(ms(row["search busy"]), ms(row["bare busy"]), f"{row['busy ratio']:.2f}"),
        ]
        out.add_row(f"{number}" if number < len(rows) else "all", *cells)
    console.print(out)
    write_json(options.json, {"server": settings, "rows": rows, "load": load()})


def main() -> None:
    """Measure and print."""
    options = _options()
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    console = Console(highlight=False)
    if options.search:
        print_searches(options, console)
        return
    each = options.messages // options.users
    titles = {
        "many": f"{options.users:,} users with {each:,} messages each",
        "one": f"one user with {options.messages:,} messages",
    }
    console.print(f"The best of {options.rounds} rounds. {machine()}.", style="dim")
    began = time.perf_counter()
    with (
        tempfile.TemporaryDirectory(prefix="jiyi-bench-", dir="/tmp") as name,
        places(Path(name), options.url) as found,
        Progress(console=Console(stderr=True), transient=True, auto_refresh=False) as bar,
    ):
        folder = Path(name)
        analyse("预热 warm")  # the dictionaries, too
        sizes = sorted(set(options.clients))
        steps = 5 + options.rounds * (3 * len(LAYOUTS) + 3) + len(WAYS) * len(sizes)
        task = bar.add_task("measuring", total=steps)
        write_chat(folder, options.messages, options.users, options.questions, found)
        times, settings = measure(folder, options.rounds, lambda: _advance(bar, task))
        saved: list[Dict] = []
        for size in sizes:
            for system, way in WAYS:
                if (way, size) != ("threads", 1):
                    saved.append(_run(clients, system, way, folder, size, options.seconds))
                _advance(bar, task)
    rows = rows_of(times)
    ratios = ratios_of(rows, saved)
    told = ", ".join(f"{key} {value}" for key, value in settings.items())
    console.print(f"Server: {told}.", *_loaded(rows, titles), "", sep="\n", style="dim")
    console.print(verbs_table(rows, titles), "", clients_table(saved), "")
    for key, value in ratios.items():
        console.print(f"{key}: {value:,.2f}" if isinstance(value, float) else f"{key}: {value}")
    took = time.perf_counter() - began
    console.print(f"\n{took:.0f} s in all, load average {load()} at the end.", style="dim")
    told_all = {"server": settings, "rows": rows, "clients": saved, "ratios": ratios, "load": load()}
    write_json(options.json, told_all)


def _advance(bar: Progress, task: TaskID) -> None:
    bar.advance(task)
    bar.refresh()  # by itself it would need a thread, which a process that forks must not have


def _loaded(rows: Sequence[Dict], titles: Dict) -> Iterator[str]:
    for one in rows:
        if one["what"] == "load text":
            yield f"{titles[one['layout']]}, {NAMES[one['system']]}: stored in {one['seconds']:,.0f} s."


def _options() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--messages", type=positive, default=MESSAGES, metavar="N", help="of each layout")
    parser.add_argument("--users", type=positive, default=USERS, metavar="N", help="of the first layout")
    parser.add_argument("--questions", type=positive, default=QUESTIONS, metavar="N", help="of a round")
    parser.add_argument(
        "--rounds", type=positive, default=ROUNDS, metavar="N", help="of which the best counts"
    )
    parser.add_argument("--search", action="store_true", help="only searches of many users on PostgreSQL")
    parser.add_argument("--clients", type=positive, nargs="+", default=CLIENTS, metavar="N", help="at once")
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="S", help="that clients save")
    parser.add_argument("--url", help="an empty database to fill, in place of a server of its own")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures to this file, too")
    options = parser.parse_args()
    if options.users > options.messages:
        parser.error("every user needs a message")
    return options


def _run(step: Callable[..., Dict], *words: object) -> Dict:
    """Let a process of its own do one step and return its answer."""
    here, there = FORK.Pipe()
    process = FORK.Process(target=_answer, args=(there, step, words))
    process.start()
    there.close()
    try:
        answer: Dict = here.recv()
    except EOFError:
        raise SystemExit(f"{step.__name__} {words[0]} failed") from None
    finally:
        process.join()
    return answer


def _answer(there: Connection, step: Callable[..., Dict], words: Sequence[object]) -> None:
    there.send(step(*words))


if __name__ == "__main__":
    main()
