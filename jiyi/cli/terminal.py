"""Consoles, notes, errors, JSON and progress bars for the commands, all safe to show.

Anyone may have written what a memory holds: control characters in it are printed as visible escapes
such as ``\\x1b``, see `jiyi.telling.safe`.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime, tzinfo
from typing import Any, NoReturn, get_args

import typer
from rich import progress
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from jiyi.records import Kind
from jiyi.telling import plural, safe, safe_json
from jiyi.text import first_words

__all__ = [
    "ProgressBars", "count_kinds", "echo", "fail", "format_time", "note", "plural", "print_json", "safe",
    "shorten", "stderr", "stdout", "tally", "warn",
]  # fmt: skip

_KINDS = get_args(Kind)


class _SafeConsole(Console):
    """Escapes whatever is printed. Text that a layout measures is made `safe` before."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(safe(segment.text), segment.style)


stdout: Console = _SafeConsole(highlight=False, soft_wrap=False)
stderr: Console = _SafeConsole(stderr=True, highlight=False)


def echo(words: str) -> None:
    """Print a text on standard output without markup, and without wrapping it."""
    stdout.print(Text(safe(words)), soft_wrap=True)


def warn(label: str, words: str, *, style: str = "yellow", console: Console = stderr) -> None:
    """Print a coloured label and a text on one line, by default on standard error."""
    console.print(Text.assemble((label, style), " ", safe(words)), soft_wrap=True)


def note(words: str) -> None:
    """Print a note on standard error."""
    warn("note:", words)


def fail(message: str) -> NoReturn:
    """Print an error and end the command with exit code 1."""
    warn("error:", message, style="bold red")
    raise typer.Exit(1)


def print_json(value: Any) -> None:
    """Print a value as indented JSON without colours; what the terminal cannot show is escaped."""
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    typer.echo(safe_json(json.dumps(value, ensure_ascii=not unicode, indent=2, default=datetime.isoformat)))


def shorten(text: str, length: int) -> str:
    """Return a text on one line of at most ``length`` characters, safe to print."""
    return first_words(safe(text[: 4 * length]), length)


def format_time(moment: datetime | None, zone: tzinfo, more: str = "") -> str:
    """Return the date and time of a moment in a zone, "" for none; ``more`` is a strftime format to add."""
    return moment.astimezone(zone).strftime(f"%Y-%m-%d %H:%M {more}").rstrip() if moment else ""


def tally(number: int, nouns: str) -> str:
    """Return a number with what it counts, which is named in the plural: "1 message without words"."""
    head, *rest = re.split(r"(?= of | without | whose )", nouns, maxsplit=1)
    head = re.sub(r"s\b", "", re.sub(r"ies\b", "y", head)) if number == 1 else head
    return "".join([f"{number:,} {head}", *rest])


def count_kinds(counts: Mapping[Any, int]) -> str:
    """Return counts by kind of record as text, "nothing" if all are zero."""
    ordered = sorted(counts.items(), key=lambda item: _KINDS.index(item[0]))
    return ", ".join(plural(count, kind) for kind, count in ordered if count) or "nothing"


class _Rate(progress.ProgressColumn):
    """Shows how much was done per second in the last half minute."""

    def render(self, task: progress.Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if not speed else f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.1f}/s")


class ProgressBars(progress.Progress):
    """Progress bars on standard error, one per kind of work; ``quiet`` shows none."""

    def __init__(self, *, quiet: bool = False) -> None:
        super().__init__(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(bar_width=30),
            progress.MofNCompleteColumn(),
            _Rate(),
            progress.TimeElapsedColumn(),
            console=stderr,
            disable=quiet,
        )
        self._rows: dict[str, progress.TaskID] = {}

    def show(self, what: str, done: int, total: int | None = None) -> None:
        """Set how much of a kind of work is done, at times more than thought; the first call adds its bar."""
        total = total and max(done, total)
        if what not in self._rows:
            self._rows[what] = self.add_task(safe(what), total=total)
        self.update(self._rows[what], completed=done, total=total)

    def end(self) -> None:
        """Set every total to what was done, which fills all bars."""
        for row in self.tasks:
            self.update(row.id, total=row.completed)

    def clear(self, keep: str = "") -> None:
        """Remove all bars except the one to keep."""
        for what in [what for what in self._rows if what != keep]:
            self.remove_task(self._rows.pop(what))
