"""Does a memory on a server keep what it promised, whatever happens to the server?

    python bench/faults.py [--saves N] [--faults NAME ...] [--json OUT]

About five minutes with 10,000 saves. It starts a server of its own in a temporary folder (the
extra ``server``). Two programs with five threads each save; half of the messages of both go into
one session. Every fault is made three times in the middle: the server is stopped and started,
killed with all its processes, cuts every connection for a while, or the network falls silent;
"none" is for comparison, and in "killed program" one of the two programs is killed.

Afterwards all is read: every acknowledged message must be there once, in its place, and found by
its words and by its vector. "errors" are those the programs saw; "longest pause" is the longest
time without any acknowledged save.
"""

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from postgres_faults.agreement import check_whole, order_of
from postgres_faults.happenings import cut_off, killed, stopped
from postgres_faults.proxy import Proxy
from postgres_faults.saving import Savers, saving
from postgres_server import PostgresServer

SAVES, PROGRAMS, THREADS, TIMES = 10_000, ("one", "two"), 5, 3
FOUND = 500  # messages that are searched for, of all
SILENT = 12.0  # seconds: longer than a program waits for an answer, with these settings
SETTINGS = {"reconnect_seconds": 120.0, "statement_seconds": 5.0, "pool_max": 4.0}

OF_SERVER = {"stopped": stopped, "killed": killed, "cut": cut_off}
FAULTS = ("none", *OF_SERVER, "silent", "killed program")


def silence(wire: Proxy) -> None:
    """Let the network take every byte and bring none, for a while."""
    wire.silence()
    time.sleep(SILENT)
    wire.speak()


def longest_pause(savers: Savers, ended: list[bool]) -> float:
    """Watch until the savers end; return the longest time without an acknowledged save."""
    longest, count, since = 0.0, 0, time.monotonic()
    while not ended:
        if len(savers.saved) != count or not count:
            count, since = len(savers.saved), time.monotonic()
        longest = max(longest, time.monotonic() - since)
        time.sleep(0.005)
    return longest


def measure(server: PostgresServer, name: str, saves: int) -> dict[str, Any]:
    """Let the programs save while a fault happens; check all and return the figures."""
    url, count = server.make(), saves // (len(PROGRAMS) * THREADS)
    with ExitStack() as stack:
        wire = stack.enter_context(Proxy(url))
        way = f"{wire.url}?connect_timeout=2" if name == "silent" else url
        watcher = stack.enter_context(ThreadPoolExecutor(1))
        savers = stack.enter_context(saving(way, PROGRAMS, threads=THREADS, count=count, **SETTINGS))
        began, ended = time.monotonic(), list[bool]()
        pause = watcher.submit(longest_pause, savers, ended)
        try:
            for n in range(1, 1 + TIMES):
                savers.wait_for(n * savers.expected // (TIMES + 2), seconds=300)
                if name in OF_SERVER:
                    OF_SERVER[name](server, url, savers)
                elif name == "silent":
                    silence(wire)
            if name == "killed program":
                savers.kill(0)
            savers.finish(seconds=600)
        finally:
            ended.append(True)
    seconds = time.monotonic() - began
    there = check_whole(url, savers.saved, every=max(1, len(savers.saved) // FOUND))
    assert all(said == sorted(said) for said in order_of(url, "ana", "shared").values())
    server.drop(url)
    return {
        "fault": name,
        "saved": len(savers.saved),
        "there": there,
        "errors": len(savers.failed),
        "programs that closed": savers.closed,
        "seconds": round(seconds, 1),
        "saves/s": round(len(savers.saved) / seconds),
        "longest pause, s": round(pause.result(), 1),
        "first error": savers.failed[0] if savers.failed else "",
    }


def show(rows: list[dict[str, Any]]) -> None:
    table = Table()
    for column in list(rows[0])[:-1]:
        table.add_column(column, justify="left" if column == "fault" else "right")
    for row in rows:
        table.add_row(
            *(f"{value:,}" if isinstance(value, int) else str(value) for value in list(row.values())[:-1])
        )
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--saves", type=int, default=SAVES)
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--json", type=Path)
    told = parser.parse_args()
    server = PostgresServer()
    try:
        rows = [measure(server, name, told.saves) for name in told.faults]
    finally:
        server.close()
    show(rows)
    if told.json:
        told.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
