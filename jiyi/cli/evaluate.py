"""`jiyi evaluate`: measure a memory by files of questions with known evidence."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from jiyi import wiring
from jiyi.cli.options import exit_on_error
from jiyi.cli.terminal import ProgressBars, note, plural, shorten, stdout
from jiyi.errors import InputError
from jiyi.evaluate import METRICS, Dataset, Evaluation, Run, Scores, evaluate, load_dataset, openers_for
from jiyi.evaluate.baselines import check_baselines
from jiyi.evaluate.systems import SQLITE
from jiyi.records import Budget
from jiyi.settings import load_settings
from jiyi.text.lexicon import read_toml

_headings = cache(partial(read_toml, __package__, "evaluate"))
_NO_VALUE = "-"
_COLUMN_GAP = 2  # spaces
_MAX_CATEGORY_CHARS = 26
_MAX_LINE_CHARS = 1_000  # of a name or a note


@dataclass(frozen=True, slots=True)
class _Column:
    heading: str  # two lines
    cells: list[str]


def evaluate_files(
    files: list[Path],
    out: Path | None = None,
    backend: list[str] | None = None,
    budget: list[int] | None = None,
    by: str | None = None,
    baseline: list[str] | None = None,
) -> None:
    """Ask fresh memories questions with known evidence, and measure what they find."""
    with exit_on_error():
        budgets, baselines = budget or [], check_baselines(baseline or [])
        for size in budgets:
            Budget(max_input_tokens=size)
        if by not in (None, "category"):
            raise InputError(f"--by {by!r}: there is only --by category")
        datasets = [load_dataset(file) for file in files]
        openers = openers_for(backend or [SQLITE])
        if out is not None:
            _check_writable(out, files)
        embedder = wiring.embedder_for(load_settings())
        runs: list[Run] = []
        for dataset in datasets:
            with ProgressBars() as bars:
                show = partial(_show_progress, bars, shorten(dataset.file, _MAX_LINE_CHARS))
                show("messages", 0)
                show("questions", 0)
                options: Any = {"embedder": embedder, "budgets": budgets, "baselines": baselines}
                evaluation = evaluate(dataset, open=openers, progress=show, **options)
            runs += evaluation.runs
            _print_evaluation(dataset, evaluation, by_category=by is not None)
            if out is not None:  # after each file, so that a later failure loses nothing
                figures = json.dumps(Evaluation(runs=tuple(runs)).as_dict(), ensure_ascii=False, indent=2)
                with _writing(out):
                    out.write_bytes(f"{figures}\n".encode("utf-8", "backslashreplace"))


def _show_progress(bars: ProgressBars, file: str, what: str, done: int, total: int | None = None) -> None:
    bars.show(f"{file}: {what}", done, total)


def _check_writable(out: Path, files: Sequence[Path]) -> None:
    """Raise `InputError` before the work begins if the file cannot be written; leave no file behind."""
    with _writing(out):
        existed = out.exists()
        if existed and any(out.samefile(file) for file in files):
            raise InputError(f"--json {out} is a file of questions; name another file")
        with out.open("a", encoding="utf-8"):
            pass
        if not existed:
            out.unlink()


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"--json {out} cannot be written: {reason}; name another file") from error


def _print_evaluation(dataset: Dataset, evaluation: Evaluation, *, by_category: bool) -> None:
    runs = evaluation.runs
    answerable = sum(question.answerable for question in dataset.questions)
    abstain = sum(question.abstain for question in dataset.questions)
    counts = (len(dataset.conversations), dataset.messages, len(dataset.questions))
    file, language = shorten(dataset.file, _MAX_LINE_CHARS), shorten(dataset.language, _MAX_LINE_CHARS)
    stdout.print(Text.assemble("\n", (file, "bold"), f"  {language}"))
    content = ", ".join(map(plural, counts, ("conversation", "message", "question")))
    stdout.print(f"{content}: {answerable:,} with evidence, {abstain:,} to abstain on", style="dim")
    backends = [run.backend for run in runs if run.backend]
    stdout.print(Text(f"{', '.join(backends)} · {shorten(runs[0].embedder or '', _MAX_LINE_CHARS)}", "dim"))
    head = [_Column("system\n", [_system_label(run, backends) for run in runs])]
    for columns in (_metric_columns([run.scores for run in runs]), _window_and_cost_columns(runs)):
        _print_table(head, columns)
    if by_category:
        _print_table(*_category_columns(runs))
    for line in dict.fromkeys(f"{run.system}: {line}" for run in runs for line in run.notes):
        note(shorten(line, _MAX_LINE_CHARS))


def _system_label(run: Run, backends: Sequence[str]) -> str:
    return f"{run.system} {run.backend}" if run.backend and len(backends) > 1 else run.system


def _metric_columns(scores: Sequence[Scores]) -> Iterator[_Column]:
    for name in METRICS:
        yield _Column(_headings()["metrics"][name], [_figure(one.metrics[name]) for one in scores])


def _window_and_cost_columns(runs: Sequence[Run]) -> Iterator[_Column]:
    for size in runs[0].evidence_in_context:
        yield _Column(f"in window\n@{size}", [_figure(run.evidence_in_context[size]) for run in runs])
    for name, heading in _headings()["latencies"].items():
        latencies = [getattr(run.latency, name) for run in runs]
        yield _Column(heading, [_figure(ms, 1 if ms is not None and ms < 100 else 0) for ms in latencies])
    yield _Column("text\ns", [f"{run.ingest.seconds_text:.2f}" for run in runs])
    # A second backend reuses the vectors of the first.
    yield _Column("vectors\ns", [_figure(run.ingest.seconds_vectors, 1) for run in runs])


def _category_columns(runs: Sequence[Run]) -> tuple[list[_Column], Iterable[_Column]]:
    """Return the naming columns and the figure columns, with a row for each category and system."""
    rows = [(name, run) for name in runs[0].by_category for run in runs]
    backends = [run.backend for run in runs if run.backend]
    scores = [run.by_category[name] for name, run in rows]
    head = [
        _Column("category\n", [shorten(name, _MAX_CATEGORY_CHARS) for name, _ in rows]),
        _Column("asked\n", [f"{score.questions:,}" for score in scores]),
        _Column("system\n", [_system_label(run, backends) for _, run in rows]),
    ]
    return head, _metric_columns(scores)


def _print_table(head: Sequence[_Column], columns: Iterable[_Column]) -> None:
    """Print a table without the columns and rows that have no figure."""
    columns = [column for column in columns if set(column.cells) != {_NO_VALUE}]
    table = Table(box=None, pad_edge=False, padding=(0, _COLUMN_GAP, 0, 0), header_style="dim")
    for column in head:
        table.add_column(Text(column.heading), no_wrap=True)
    for column in columns:
        table.add_column(Text(column.heading, justify="right"), justify="right", no_wrap=True)
    for cells in zip(*(column.cells for column in [*head, *columns]), strict=True):
        if any(cell != _NO_VALUE for cell in cells[len(head) :]):
            table.add_row(*map(Text, cells))
    # A narrow terminal wraps the lines; no figure is cut.
    table.width = stdout.measure(table, options=stdout.options.update(width=_MAX_LINE_CHARS)).maximum
    stdout.print()
    stdout.print(table, crop=False, no_wrap=True, overflow="ignore")


def _figure(value: float | None, digits: int = 3) -> str:
    return _NO_VALUE if value is None else f"{value:.{digits}f}"
