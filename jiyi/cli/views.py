"""What the commands show: hits, windows with their reports, records."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from jiyi.records import Hit, Hits, Message, Report, ReportItem, Session, Window

__all__ = [
    "budget_bar",
    "doubt",
    "hits_json",
    "hits_view",
    "message_panel",
    "report_view",
    "safe",
    "sessions_table",
    "short",
    "when",
    "window_view",
]

_ROLE_STYLES = {"system": "magenta", "user": "cyan", "assistant": "green", "tool": "yellow"}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BAR = 30
_BAR_STYLES = ("magenta", "cyan", "green", "yellow", "blue", "red", "white")
_WORDS = 200  # characters of a hit
_MOST = 15  # rows shown of what was left out for one reason
_STRONGEST = 5  # features named of a hit


def hits_json(query: str, hits: Hits) -> dict[str, Any]:
    """Return the answer of a search as plain JSON values."""
    return {
        "query": query,
        "hits": [_hit_json(hit) for hit in hits],
        "nothing_relevant": None if hits.nothing_relevant is None else round(hits.nothing_relevant, 4),
        "notes": list(hits.notes),
    }


def hits_view(hits: Hits, zone: tzinfo, *, why: bool = False) -> RenderableType:
    """Return hits, best first, and below them how likely it is that none of them answers.

    Each has a line of facts and its words, between what was said around it where that was
    asked for; ``why`` names its strongest features.
    """
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right")
    table.add_column()
    for hit in hits:
        scope = hit.record.scope
        kind = hit.record.role if isinstance(hit.record, Message) else hit.kind
        who = _speaker(hit.record) if isinstance(hit.record, Message) else hit.kind
        places = [when(hit.created_at, zone, "%Z"), scope.session_id if scope else None]
        facts = Text.assemble(
            (safe(who), _ROLE_STYLES.get(kind, "blue")),
            *((safe(f" · {place}"), "dim") for place in places if place),
            *([(safe(f" · {changed}"), "yellow")] if (changed := _changed(hit)) else []),
            *([(f" · holds a {' and a '.join(hit.secrets)}", "red")] if hit.secrets else []),
        )
        table.add_row(f"{hit.score:.2f}", Group(facts, *_passage(hit)))
        if why:
            table.add_row("", Text(_strongest(hit), "dim"))
    if hits.nothing_relevant is None:
        return table
    return Group(table, Text(f"\n{doubt(hits.nothing_relevant)}", "dim"))


def doubt(probability: float) -> str:
    """Return in words how likely it is that the memory holds no answer."""
    return f"nothing relevant: {100 * probability:.0f} %"


def window_view(window: Window, zone: tzinfo, *, lines: int | None = None) -> RenderableType:
    """Return a window message by message; ``lines`` cuts each message for the screen only."""
    panels = [_panel(message, lines) for message in window.messages]
    return Group(*panels, report_view(window.report, zone))


def budget_bar(report: Report) -> RenderableType:
    """Return a window's tokens by section as one bar, with a line that names them."""
    parts = [(name, n) for name, n in [*report.sections.items(), ("framing", report.framing)] if n]
    bar, names = Text("  "), Text("  ", overflow="fold")
    for place, (name, tokens) in enumerate(parts):
        style = _BAR_STYLES[place % len(_BAR_STYLES)]
        bar.append("█" * max(1, round(2 * _BAR * tokens / report.budget.max_input_tokens)), style)
        names.append(f"{name} {tokens:,}  ", style)
    names.append(f"= {report.tokens:,} of {report.budget.max_input_tokens:,} tokens")
    return Group(bar, names)


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
    parts += [Text(f"note: {note}", style="yellow") for note in report.notes]
    return Panel(Group(*parts), title=title, title_align="left", border_style="dim")


def message_panel(message: Message, zone: tzinfo) -> RenderableType:
    """Return one message whole, with its id, date and tokens."""
    head = f"{_speaker(message)} · {when(message.created_at, zone, '%Z')} · {message.id}"
    if message.tokens is not None:
        head += f" · {message.tokens} tokens"
    return Panel(
        Text(safe(message.search_text)),
        title=escape(head),
        title_align="left",
        border_style=_ROLE_STYLES[message.role],
    )


def sessions_table(sessions: Sequence[Session], zone: tzinfo) -> Table:
    """Return sessions as a table, newest first."""
    table = Table("session", "messages", "from", f"to ({zone})", box=None, pad_edge=False, header_style="dim")
    for session in sessions:
        ends = (when(session.started_at, zone), when(session.last_active_at, zone))
        table.add_row(escape(session.id), str(session.messages), *ends)
    return table


def _hit_json(hit: Hit) -> dict[str, Any]:
    scope = hit.record.scope
    return {
        "kind": hit.kind,
        "id": hit.id,
        "session_id": scope.session_id if scope else None,
        "created_at": hit.created_at,
        "score": round(hit.score, 4),
        "why": {name: round(share, 4) for name, share in hit.why.items()},
        "outdated_by": hit.outdated_by,
        "maybe_outdated_by": hit.maybe_outdated_by,
        "secrets": list(hit.secrets),
        "text": hit.text,
        "around": [
            {"id": m.id, "created_at": m.created_at, "role": m.role, "name": m.name, "text": m.search_text}
            for m in hit.around
        ],
    }


def _changed(hit: Hit) -> str:
    """Return what took a hit's place, or may have; "" for nothing."""
    if hit.outdated_by:
        return f"outdated by {hit.outdated_by}"
    return f"may have changed with {hit.maybe_outdated_by}" if hit.maybe_outdated_by else ""


def _passage(hit: Hit) -> Iterator[RenderableType]:
    """Yield a hit's words between what was said before and behind it, which is indented."""
    words = Text.assemble(short(hit.text, _WORDS), (f"  {safe(hit.id)}", "dim"))
    place = hit.record.seq or 0 if isinstance(hit.record, Message) else 0
    before = [m for m in hit.around if (m.seq or 0) < place]
    yield from map(_turn, before)
    yield words
    yield from map(_turn, hit.around[len(before) :])


def _turn(message: Message) -> RenderableType:
    words = f"{safe(_speaker(message))}: {short(message.search_text, _WORDS)}"
    return Padding(Text(words, "dim"), (0, 0, 0, 2))


def _strongest(hit: Hit) -> str:
    """Return what moved a hit's score most, for and against it."""
    some = sorted(hit.why.items(), key=lambda item: -abs(item[1]))[:_STRONGEST]
    return "why: " + " · ".join(f"{name} {share:+.2f}" for name, share in some)


def _speaker(message: Message) -> str:
    return f"{message.role} {message.name}" if message.name else message.role


def _included(items: Sequence[ReportItem], zone: tzinfo) -> Iterator[RenderableType]:
    """Yield what went in, by section; what the reasons of a section share is said once."""
    sections: dict[str, list[ReportItem]] = defaultdict(list)
    for item in items:
        sections[item.section].append(item)
    for section, some in sections.items():
        shared = _shared([item.reason for item in some])
        yield _heading(f"{section}: {shared}" if shared else section, some)
        rows = _rows()
        for item in some:
            rows.add_row(*_facts(item, zone), Text(item.reason[len(shared) :].lstrip(",; "), "dim"))
        yield rows


def _left_out(items: Sequence[ReportItem], zone: tzinfo) -> Iterator[RenderableType]:
    """Yield what stayed out, by reason."""
    reasons: dict[str, list[ReportItem]] = defaultdict(list)
    for item in items:
        reasons[item.reason].append(item)
    for reason, some in reasons.items():
        yield _heading(reason, some)
        rows = _rows()
        for item in some[:_MOST]:
            rows.add_row(*_facts(item, zone), Text(item.section, "dim"))
        yield rows
        if len(some) > _MOST:
            yield Text(f"    … {len(some) - _MOST} more (use --json)", style="dim")


def _heading(words: str, items: Sequence[ReportItem]) -> Text:
    count = f"{len(items)} item" + "s" * (len(items) != 1)
    return Text.assemble("  ", words, (f" · {count}, {sum(item.tokens for item in items):,} tokens", "dim"))


def _rows() -> Table:
    """Return a table whose every row is one line, however narrow the terminal."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(justify="right", min_width=9, no_wrap=True)
    table.add_column(min_width=16, no_wrap=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(max_width=24, no_wrap=True, overflow="ellipsis")
    return table


def _facts(item: ReportItem, zone: tzinfo) -> tuple[str, str, Text]:
    return f"{item.tokens:,}", when(item.created_at, zone), Text(safe(item.title))


def _shared(reasons: Sequence[str]) -> str:
    """Return the reason where all are alike, else the clause that all begin with, else nothing."""
    if len(set(reasons)) == 1:
        return reasons[0]
    clauses = {re.split("[,;]", reason, maxsplit=1)[0] for reason in reasons}
    return clauses.pop() if len(clauses) == 1 else ""


def _panel(message: Mapping[str, Any], lines: int | None) -> Panel:
    text = safe(Message.from_openai(message).search_text)
    rows = text.splitlines()
    if lines is not None and len(rows) > lines:
        text = "\n".join([*rows[:lines], f"… {len(rows) - lines} more lines"])
    role = str(message["role"])
    return Panel(
        Text(text), title=escape(role), title_align="left", border_style=_ROLE_STYLES.get(role, "white")
    )


def short(text: str, length: int) -> str:
    """Return a text on one line, cut to a length, safe to print."""
    flat = " ".join(safe(text[: 4 * length]).split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"


def safe(text: str) -> str:
    """Make control characters visible: what was stored must not steer the terminal."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def when(moment: datetime | None, zone: tzinfo, more: str = "") -> str:
    """Return a moment as a date and a time of day in a zone, "" for none."""
    return moment.astimezone(zone).strftime(f"%Y-%m-%d %H:%M {more}").rstrip() if moment else ""
