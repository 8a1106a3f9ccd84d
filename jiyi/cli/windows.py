"""What the commands show of messages, windows and their budget reports."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from jiyi.cli.terminal import counted, safe, when
from jiyi.records import DOUBT, Message, Report, ReportItem, Window

__all__ = ["ROLE_STYLES", "budget_bar", "doubt", "message_panel", "shares", "speaker", "window_view"]

ROLE_STYLES = {"system": "magenta", "user": "cyan", "assistant": "green", "tool": "yellow"}
"""The colour of each role."""

_BAR = 30
_SHORT_BAR = 24  # cells of the bar on one line, on a wide terminal
_STYLES = {
    "system": "magenta",
    "skills": "bright_magenta",
    "profile": "bright_cyan",
    "summary": "yellow",
    "history": "cyan",
    "task": "blue",
    "knowledge": "green",
    "episodes": "bright_green",
    "recalled": "bright_blue",
    "input": "white",
    "framing": "bright_black",
}
_MOST = 15  # rows shown of what was left out for one reason


def speaker(message: Message) -> str:
    """Return who speaks: the role and, where there is one, the name."""
    return safe(f"{message.role} {message.name}" if message.name else message.role)


def doubt(probability: float) -> str:
    """Return in words how likely it is that the memory holds no answer."""
    return f"nothing relevant: {100 * probability:.0f} %"


def shares(report: Report) -> list[tuple[str, int]]:
    """Return the tokens of each section in its order, and of what holds them together."""
    return [*report.sections.items(), ("framing", report.framing)]


def message_panel(message: Message, zone: tzinfo) -> Panel:
    """Return one message whole, with its id, date and tokens."""
    head = f"{speaker(message)} · {when(message.created_at, zone, '%Z')} · {message.id}"
    if message.tokens is not None:
        head += f" · {message.tokens} tokens"
    return _panel(head, message.search_text, ROLE_STYLES[message.role])


def window_view(window: Window, zone: tzinfo, *, lines: int | None = None) -> Group:
    """Return a window message by message; ``lines`` cuts each message for the screen only."""
    return Group(*(_excerpt(message, lines) for message in window.messages), _report(window.report, zone))


def _excerpt(message: Mapping[str, Any], lines: int | None) -> Panel:
    parsed = Message.from_openai(message)
    text = safe(parsed.search_text)
    rows = text.splitlines()
    if lines is not None and len(rows) > lines:
        text = "\n".join([*rows[:lines], f"… {len(rows) - lines} more lines"])
    return _panel(message["role"], text, ROLE_STYLES[parsed.role])


def _panel(title: str, text: str, style: str) -> Panel:
    return Panel(Text(safe(text)), title=Text(safe(title)), title_align="left", border_style=style)


def budget_bar(report: Report, width: int) -> Text:
    """Return how full a window is, by section, as one coloured line of at most `width` cells."""
    most = report.budget.max_input_tokens
    parts = [(name, tokens) for name, tokens in shares(report) if tokens]
    cells = max(min(_SHORT_BAR, width // 4), 1)
    bar, done = Text(), 0
    for name, tokens in parts:
        before, done = done, done + tokens
        bar.append("█" * (round(cells * done / most) - round(cells * before / most)), _STYLES[name])
    bar.append("·" * (cells - len(bar)), "bright_black")
    bar.append(f" {report.tokens:,}/{most:,}", "bold")
    for name, tokens in parts:
        bar.append(f" {name} {tokens:,}", _STYLES[name])
    if (report.nothing_relevant or 0.0) > DOUBT:
        bar.append(f" {doubt(report.nothing_relevant or 0.0)}", "yellow")
    bar.truncate(max(width, 1), overflow="ellipsis")
    bar.no_wrap = True
    return bar


def _report(report: Report, zone: tzinfo) -> Panel:
    counted = report.counted_by if report.exact else f"{report.counted_by}, an estimate"
    title = f"{report.tokens:,} of {report.budget.max_input_tokens:,} tokens ({counted})"
    if report.budget.max_output_tokens:
        title += f", {report.budget.max_output_tokens:,} more kept free for the reply"
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, tokens in shares(report):
        bar = "█" * round(_BAR * tokens / report.budget.max_input_tokens)
        table.add_row(name, f"{tokens:,}", Text(bar, style="cyan"))
    parts: list[RenderableType] = [table]
    if report.nothing_relevant is not None:
        parts.append(Text(f"\n{doubt(report.nothing_relevant)}"))
    if report.included:
        parts += [Text(f"\nIn the window ({len(report.included)}), times in {zone}", style="bold")]
        parts += _included(report.included, zone)
    if report.left_out:
        parts += [Text(f"\nLeft out ({len(report.left_out)})", style="bold")]
        parts += _left_out(report.left_out, zone)
    if report.notes:
        parts.append(Text())
    parts += [Text(f"note: {safe(note)}", style="yellow") for note in report.notes]
    return Panel(Group(*parts), title=Text(safe(title)), title_align="left", border_style="dim")


def _included(items: Sequence[ReportItem], zone: tzinfo) -> Iterator[RenderableType]:
    """Yield what went in, by section; what the reasons of a section share is said once."""
    sections: dict[str, list[ReportItem]] = defaultdict(list)
    for item in items:
        sections[item.section].append(item)
    for section, some in sections.items():
        shared = _shared([item.reason for item in some])
        reasons = (item.reason[len(shared) :].lstrip(",; ") for item in some)
        yield _heading(f"{section}: {shared}" if shared else section, some)
        yield _rows(some, reasons, zone)


def _left_out(items: Sequence[ReportItem], zone: tzinfo) -> Iterator[RenderableType]:
    reasons: dict[str, list[ReportItem]] = defaultdict(list)
    for item in items:
        reasons[item.reason].append(item)
    for reason, some in reasons.items():
        yield _heading(reason, some)
        yield _rows(some[:_MOST], (item.section for item in some), zone)
        if len(some) > _MOST:
            yield Text(f"    … {len(some) - _MOST} more (use --json)", style="dim")


def _heading(words: str, items: Sequence[ReportItem]) -> Text:
    tokens = sum(item.tokens for item in items)
    return Text.assemble("  ", safe(words), (f" · {counted(len(items), 'item')}, {tokens:,} tokens", "dim"))


def _rows(items: Sequence[ReportItem], remarks: Iterator[str], zone: tzinfo) -> Table:
    """Return a table whose every row is one line, however narrow the terminal."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(justify="right", min_width=9, no_wrap=True)
    table.add_column(min_width=16, no_wrap=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(max_width=24, no_wrap=True, overflow="ellipsis")
    for item, remark in zip(items, remarks, strict=False):
        title = Text(safe(item.title))
        table.add_row(f"{item.tokens:,}", when(item.created_at, zone), title, Text(safe(remark), "dim"))
    return table


def _shared(reasons: Sequence[str]) -> str:
    """Return the reason where all are alike, else the clause that all begin with, else nothing."""
    if len(set(reasons)) == 1:
        return reasons[0]
    clauses = {re.split("[,;]", reason, maxsplit=1)[0] for reason in reasons}
    return clauses.pop() if len(clauses) == 1 else ""
