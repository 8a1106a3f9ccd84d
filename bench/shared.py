"""What the programs here share: options, steps in processes of their own, tables, and the machine."""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


def parser_of(docstring: str | None) -> argparse.ArgumentParser:
    """Return a parser that describes a program by the first line of its docstring."""
    return argparse.ArgumentParser(description=(docstring or "").partition("\n")[0])


def at_least(least: int) -> Callable[[str], int]:
    """Return the type of an option that is a whole number from ``least`` on."""

    def number(word: str) -> int:
        if int(word) < least:
            raise argparse.ArgumentTypeError(f"{word} must be at least {least}")
        return int(word)

    return number


positive = at_least(1)


def answer_of(program: Path, *words: object, env: Mapping[str, str] | None = None) -> Any:
    """Let a process of its own do one step and return the JSON in its last line."""
    done = subprocess.run(
        [sys.executable, str(program), *map(str, words)],
        env=os.environ | dict(env or {}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words[:2]))} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


class Checkout:
    """A process of a program here that runs on another checkout's package, and answers calls."""

    def __init__(self, root: Path, program: Path, *words: object) -> None:
        self.root = root
        path = os.pathsep.join([str(root), str(Path(__file__).parent)])
        self.process = subprocess.Popen(
            [sys.executable, str(program), *map(str, words)],
            env=os.environ | dict.fromkeys(ONE_THREAD, "1") | {"PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self) -> None:
        """Wait until it is ready."""
        there = Path(self._answer())
        if self.root not in there.parents:
            raise SystemExit(f"{self.root} holds no package jiyi: {there} was imported")

    def ask(self, *call: object) -> Any:
        """Return what a method of its worker says to these arguments."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps(call) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def stop(self) -> None:
        """End it."""
        self.process.communicate()

    def _answer(self) -> Any:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the process of {self.root} ended")
        return json.loads(line)


def answer_calls(worker: object) -> None:
    """Be the process of a `Checkout`: answer lines of JSON, a call of the worker each, until they end."""
    print(json.dumps(sys.modules["jiyi"].__file__), flush=True)
    for line in sys.stdin:
        name, *given = json.loads(line)
        print(json.dumps(getattr(worker, name)(*given)), flush=True)


def timed(action: Callable[[], object]) -> float:
    """Return the seconds that an action takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def table_of(title: str, columns: Sequence[str], *, left: int = 1) -> Table:
    """Return a table that fits into 80 columns; its first ``left`` columns are words, the others numbers."""
    narrow: Any = {"box": None, "padding": (0, 1, 0, 0), "pad_edge": False}
    out = Table(title=title or None, title_justify="left", title_style="bold", **narrow)
    for place, column in enumerate(columns):
        out.add_column(column, justify="left" if place < left else "right", no_wrap=True)
    return out


def write_json(file: Path | None, found: Any) -> None:
    """Write figures to a file, where there is one."""
    if file is not None:
        file.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def load() -> str:
    """Return the load average."""
    return f"{os.getloadavg()[0]:.1f}"


def machine() -> str:
    """Return what the figures were measured on."""
    return f"{os.cpu_count()} cores, load average {load()} at the start; Python {platform.python_version()}"


def ms(seconds: float) -> str:
    """Return milliseconds in three digits."""
    found = 1000 * seconds
    return f"{found:,.2f}" if found < 10 else f"{found:,.1f}" if found < 100 else f"{found:,.0f}"


def duration(seconds: float | None) -> str:
    """Return a time with its unit; "" for None."""
    if seconds is None:
        return ""
    if seconds < 1e-3:
        return f"{seconds * 1e6:,.0f} us"
    return f"{seconds * 1e3:,.1f} ms" if seconds < 1 else f"{seconds:,.2f} s"


def times(ratio: float | None) -> str:
    """Return a ratio in two or three digits; "" for None."""
    if ratio is None:
        return ""
    digits = 0 if ratio >= 10 else 2 if ratio >= 0.1 else 3
    return f"{ratio:,.{digits}f}"
