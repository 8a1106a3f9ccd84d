"""`jiyi evaluate`: is the memory any good? Figures for files of questions with known evidence."""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files as data_files
from pathlib import Path
from typing import Literal

from rich.table import Table
from rich.text import Text

from jiyi import wiring
from jiyi.cli.options import brief_errors
from jiyi.cli.terminal import Bars, counted, note, short, stdout
from jiyi.errors import InputError
from jiyi.evaluate import (
    METRICS,
    Dataset,
    Evaluation,
    Run,
    evaluate,
    load_dataset,
    openers_for,
)
from jiyi.evaluate.baselines import check_baselines
from jiyi.evaluate.systems import SQLITE
from jiyi.records import Budget
from jiyi.settings import load_settings

__all__ = ["evaluate_files"]

_NONE = "-"
_GAP = 2  # spaces between columns
_CATEGORY = 26  # characters of a category at most
_LINE = 1_000  # characters of a name or a note at most


@cache
def _headings(of: Literal["metrics", "latencies"]) -> Mapping[str, str]:
    tables: dict[str, dict[str, str]] = tomllib.loads(
        (data_files(__package__) / "evaluate.toml").read_text("utf-8")
    )
    return tables[of]


@dataclass(frozen=True, slots=True)
class _Column:
    heading: str  # two lines
    cells: list[str]

    @property
    def applies(self) -> bool:
        """Whether any row has a figure here."""
        return any(cell != _NONE for cell in self.cells)


def evaluate_files(
    files: list[Path],
    out: Path | None = None,
    backend: list[str] | None = None,
    budget: list[int] | None = None,
    by: str | None = None,
    baseline: list[str] | None = None,
) -> None:
    """Ask fresh memories questions with known evidence, and measure what they find."""
    with brief_errors():
        budgets, baselines = budget or [], check_baselines(baseline or [])
        for size in budgets:
            Budget(max_input_tokens=size)
        if by not in (None, "category"):
            raise InputError(f"--by {by!r}: there is only --by category")
        datasets = [load_dataset(file) for file in files]
        places = openers_for(backend or [SQLITE])
        if out is not None:
            _check_writable(out, files)
        embedder = wiring.embedder_for(load_settings())
        runs: list[Run] = []
        for dataset in datasets:
            with Bars() as bars:
                show = partial(_show, bars, short(dataset.file, _LINE))
                show("messages", 0)
                show("questions", 0)
                found = evaluate(
                    dataset,
                    open=places,
                    embedder=embedder,
                    budgets=budgets,
                    baselines=baselines,
                    progress=show,
                )
            runs += found.runs
            _print(dataset, found, by_category=by is not None)
            if out is not None:  # after each file: what is done is not lost when the next one fails
                _write(out, Evaluation(runs=tuple(runs)))


def _show(bars: Bars, file: str, what: str, done: int, total: int | None = None) -> None:
    bars.show(f"{file}: {what}", done, total)


def _check_writable(out: Path, files: Sequence[Path]) -> None:
    """Refuse a place that cannot be written before the work begins, and leave no file there."""
    try:
        there = out.exists()
        if there and any(out.samefile(file) for file in files):
            raise InputError(f"--json {out} is a file of questions; name another file")
        with out.open("a", encoding="utf-8"):
            pass
        if not there:
            out.unlink()
    except (OSError, ValueError) as error:
        raise _unwritable(out, error) from error


def _write(out: Path, evaluation: Evaluation) -> None:
    text = json.dumps(evaluation.as_dict(), ensure_ascii=False, indent=2) + "\n"
    try:
        out.write_bytes(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise _unwritable(out, error) from error


def _unwritable(out: Path, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or error
    return InputError(f"--json {out} cannot be written: {reason}; name another file")


def _print(dataset: Dataset, evaluation: Evaluation, *, by_category: bool) -> None:
    runs = evaluation.runs
    answerable = sum(question.answerable for question in dataset.questions)
    abstain = sum(question.abstain for question in dataset.questions)
    counts = (
        counted(len(dataset.conversations), "conversation"),
        counted(dataset.messages, "message"),
        counted(len(dataset.questions), "question"),
    )
    file, language = short(dataset.file, _LINE), short(dataset.language, _LINE)
    stdout.print(Text.assemble("\n", (file, "bold"), f"  {language}"))
    held = ", ".join(counts)
    stdout.print(f"{held}: {answerable:,} with evidence, {abstain:,} to abstain on", style="dim")
    backends = [run.backend for run in runs if run.backend]
    stdout.print(Text(f"{', '.join(backends)} · {short(runs[0].embedder or '', _LINE)}", "dim"))
    names = [_Column("system\n", [_name(run, backends) for run in runs])]
    for some in (_quality(runs), _windows_and_costs(runs)):
        _table(names, [column for column in some if column.applies])
    if by_category:
        _table(*_categories(runs))
    for words in dict.fromkeys(f"{run.system}: {words}" for run in runs for words in run.notes):
        note(short(words, _LINE))


def _name(run: Run, backends: Sequence[str]) -> str:
    return f"{run.system} {run.backend}" if run.backend and len(backends) > 1 else run.system


def _quality(runs: Sequence[Run]) -> Iterator[_Column]:
    for name in METRICS:
        yield _Column(_headings("metrics")[name], [_share(run.scores.metrics[name]) for run in runs])


def _windows_and_costs(runs: Sequence[Run]) -> Iterator[_Column]:
    """Yield what windows hold, latencies in milliseconds and loading times in seconds."""
    for size in runs[0].evidence_in_context:
        cells = [_share(run.evidence_in_context[size]) for run in runs]
        yield _Column(f"in window\n@{size}", cells)
    for name, heading in _headings("latencies").items():
        yield _Column(heading, [_ms(getattr(run.latency, name)) for run in runs])
    yield _Column("text\ns", [f"{run.ingest.seconds_text:.2f}" for run in runs])
    yield _Column("vectors\ns", [_seconds(run) for run in runs])


def _categories(runs: Sequence[Run]) -> tuple[list[_Column], list[_Column]]:
    """Return the columns that name a row, and those of the figures, for each category and system."""
    rows = [(name, run) for name in runs[0].by_category for run in runs]
    backends = [run.backend for run in runs if run.backend]
    scores = [run.by_category[name] for name, run in rows]
    head = [
        _Column("category\n", [short(name, _CATEGORY) for name, _ in rows]),
        _Column("asked\n", [f"{one.questions:,}" for one in scores]),
        _Column("system\n", [_name(run, backends) for _, run in rows]),
    ]
    headings = _headings("metrics")
    figures = [_Column(headings[name], [_share(one.metrics[name]) for one in scores]) for name in METRICS]
    return head, [column for column in figures if column.applies]


def _table(head: Sequence[_Column], columns: Sequence[_Column]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for column in head:
        table.add_column(Text(column.heading), no_wrap=True)
    for column in columns:
        table.add_column(Text(column.heading, justify="right"), justify="right", no_wrap=True)
    for cells in zip(*(column.cells for column in [*head, *columns]), strict=True):
        if any(cell != _NONE for cell in cells[len(head) :]):
            table.add_row(*map(Text, cells))
    # A narrow terminal wraps the lines; no figure is cut.
    table.width = stdout.measure(table, options=stdout.options.update(width=_LINE)).maximum
    stdout.print()
    stdout.print(table, crop=False, no_wrap=True, overflow="ignore")


def _seconds(run: Run) -> str:
    """Return when the vectors were there; a second backend gets those of the first."""
    return _NONE if run.ingest.seconds_vectors is None else f"{run.ingest.seconds_vectors:.1f}"


def _share(value: float | None) -> str:
    return _NONE if value is None else f"{value:.3f}"


def _ms(value: float | None) -> str:
    return _NONE if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"
