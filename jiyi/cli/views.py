"""What the commands show: hits, windows with their reports, records."""

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from jiyi.records import Hit, Message, Report, ReportItem, Session, Window

__all__ = ["hit_json", "hits_table", "message_panel", "report_view", "sessions_table", "window_view"]

_ROLE_STYLES = {"system": "magenta", "user": "cyan", "assistant": "green", "tool": "yellow"}
_BAR = 30


def hit_json(hit: Hit) -> dict[str, Any]:
    """Return a hit as plain JSON values."""
    scope = hit.record.scope
    return {
        "kind": hit.kind,
        "id": hit.id,
        "session_id": scope.session_id if scope else None,
        "created_at": hit.created_at,
        "score": round(hit.score, 4),
        "why": {name: round(share, 4) for name, share in hit.why.items()},
        "text": hit.text,
    }


def hits_table(hits: Sequence[Hit], zone: tzinfo) -> Table:
    """Return hits as a table, best first."""
    table = Table("score", "why", "when", "what", box=None, pad_edge=False, header_style="dim")
    for hit in hits:
        why = " ".join(f"{name} {share:+.1f}" for name, share in hit.why.items())
        kind = hit.record.role if isinstance(hit.record, Message) else hit.kind
        words = Text.assemble(
            (f"{kind} ", _ROLE_STYLES.get(kind, "blue")), _short(hit.text, 160), (f"  {hit.id}", "dim")
        )
        table.add_row(f"{hit.score:.2f}", why, _when(hit.created_at, zone), words)
    return table


def window_view(window: Window, zone: tzinfo, *, lines: int | None = None) -> RenderableType:
    """Return a window message by message; ``lines`` cuts each message for the screen only."""
    panels = [_panel(message, lines) for message in window.messages]
    return Group(*panels, report_view(window.report, zone))


def report_view(report: Report, zone: tzinfo) -> RenderableType:
    """Return a budget report: tokens by section, what went in, what stayed out, and why."""
    counted = report.counted_by if report.exact else f"{report.counted_by}, an estimate"
    title = f"{report.tokens:,} of {report.budget.max_input_tokens:,} tokens ({counted})"
    if report.budget.max_output_tokens:
        title += f", {report.budget.max_output_tokens:,} more kept free for the reply"
    shares = Table(box=None, show_header=False, pad_edge=False)
    for name, tokens in [*report.sections.items(), ("framing", report.framing)]:
        bar = "█" * round(_BAR * tokens / report.budget.max_input_tokens)
        shares.add_row(name, f"{tokens:,}", Text(bar, style="cyan"))
    parts: list[RenderableType] = [shares]
    for heading, items in (("In the window", report.included), ("Left out", report.left_out)):
        if items:
            parts += [Text(f"\n{heading} ({len(items)})", style="bold"), _items(items, zone)]
    parts += [Text(f"note: {note}", style="yellow") for note in report.notes]
    return Panel(Group(*parts), title=title, title_align="left", border_style="dim")


def message_panel(message: Message, zone: tzinfo) -> RenderableType:
    """Return one message whole, with its id, date and tokens."""
    head = f"{message.role} {message.name or ''} · {_when(message.created_at, zone)} · {message.id}"
    if message.tokens is not None:
        head += f" · {message.tokens} tokens"
    return Panel(
        Text(message.search_text),
        title=escape(head),
        title_align="left",
        border_style=_ROLE_STYLES[message.role],
    )


def sessions_table(sessions: Sequence[Session], zone: tzinfo) -> Table:
    """Return sessions as a table, newest first."""
    table = Table("session", "messages", "from", "to", box=None, pad_edge=False, header_style="dim")
    for session in sessions:
        ends = (_when(session.started_at, zone), _when(session.last_active_at, zone))
        table.add_row(escape(session.id), str(session.messages), *ends)
    return table


def _items(items: Sequence[ReportItem], zone: tzinfo) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for item in items:
        title = Text(item.title)
        table.add_row(
            item.section, f"{item.tokens:,}", _when(item.created_at, zone), title, Text(item.reason, "dim")
        )
    return table


def _panel(message: Mapping[str, Any], lines: int | None) -> Panel:
    text = Message.from_openai(message).search_text
    rows = text.splitlines()
    if lines is not None and len(rows) > lines:
        text = "\n".join([*rows[:lines], f"… {len(rows) - lines} more lines"])
    role = str(message["role"])
    return Panel(
        Text(text), title=escape(role), title_align="left", border_style=_ROLE_STYLES.get(role, "white")
    )


def _short(text: str, length: int) -> str:
    flat = " ".join(text[: 4 * length].split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"


def _when(moment: datetime | None, zone: tzinfo) -> str:
    return moment.astimezone(zone).strftime("%Y-%m-%d %H:%M") if moment else ""
