"""`jiyi search` and `jiyi context`: hits, messages, windows and their budget reports, for the terminal."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

from jiyi.cli.options import Output, memory_command, note_pending_vectors, parse_moment
from jiyi.cli.terminal import fail, format_time, note, plural, safe, shorten, stdout
from jiyi.manager import MemoryManager
from jiyi.records import DOUBT, SEARCHABLE, Hit, Hits, Message, Report, ReportItem, Window
from jiyi.storage.database import grouped
from jiyi.text.lexicon import read_toml

STYLES: Mapping[str, Mapping[str, str]] = read_toml(__package__, "styles")
"""The colour of each role, section and status."""

_BAR_CELLS = 30
_SHORT_BAR_CELLS = 24  # on a wide terminal
_MAX_ROWS = 15  # of what was left out for one reason


def speaker_label(message: Message) -> str:
    """Return who speaks: the role and, where there is one, the name."""
    return safe(f"{message.role} {message.name}" if message.name else message.role)


def format_doubt(probability: float) -> str:
    """Return the probability that the memory holds no answer as a percentage with its label."""
    return f"nothing relevant: {100 * probability:.0f} %"


def section_tokens(report: Report) -> list[tuple[str, int]]:
    """Return the tokens of each section in order, then those of the framing between messages."""
    return [*report.sections.items(), ("framing", report.framing)]


def message_panel(message: Message, zone: tzinfo) -> Panel:
    """Return a whole message with its id, date and tokens."""
    head = f"{speaker_label(message)} · {format_time(message.created_at, zone, '%Z')} · {message.id}"
    if message.tokens is not None:
        head += f" · {plural(message.tokens, 'token')}"
    return _text_panel(head, message.search_text, STYLES["role"][message.role])


def window_view(window: Window, zone: tzinfo, *, lines: int | None = None) -> Group:
    """Return the messages and the report of a window; ``lines`` limits the lines shown of each message."""
    report = _report_panel(window.report, zone)
    return Group(*(_excerpt(message, lines) for message in window.messages), report)


def _excerpt(message: Mapping[str, Any], lines: int | None) -> Panel:
    parsed = Message.from_openai(message)
    rows = (text := safe(parsed.search_text)).splitlines()
    if lines is not None and len(rows) > lines:
        text = "\n".join([*rows[:lines], f"… {plural(len(rows) - lines, 'more line')}"])
    return _text_panel(message["role"], text, STYLES["role"][parsed.role])


def _text_panel(title: str, text: str, style: str) -> Panel:
    return Panel(Text(safe(text)), title=Text(safe(title)), title_align="left", border_style=style)


def budget_bar(report: Report, width: int) -> Text:
    """Return the tokens of a window by section as one coloured line of at most `width` cells."""
    limit = report.budget.max_input_tokens
    parts = [(name, tokens) for name, tokens in section_tokens(report) if tokens]
    cells = max(min(_SHORT_BAR_CELLS, width // 4), 1)
    bar, used, styles = Text(), 0, STYLES["section"]
    for name, tokens in parts:
        start, used = used, used + tokens
        bar.append("█" * (round(cells * used / limit) - round(cells * start / limit)), styles[name])
    bar.append("·" * (cells - len(bar)), "bright_black")
    bar.append(f" {report.tokens:,}/{limit:,}", "bold")
    for name, tokens in parts:
        bar.append(f" {name} {tokens:,}", styles[name])
    if (report.nothing_relevant or 0.0) > DOUBT:
        bar.append(f" {format_doubt(report.nothing_relevant or 0.0)}", "yellow")
    bar.truncate(max(width, 1), overflow="ellipsis")
    bar.no_wrap = True
    return bar


def _report_panel(report: Report, zone: tzinfo) -> Panel:
    counter = report.counted_by if report.exact else f"{report.counted_by}, an estimate"
    title = f"{report.tokens:,} of {report.budget.max_input_tokens:,} tokens ({counter})"
    if report.budget.max_output_tokens:
        title += f", {report.budget.max_output_tokens:,} more kept free for the reply"
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, tokens in section_tokens(report):
        bar = "█" * round(_BAR_CELLS * tokens / report.budget.max_input_tokens)
        table.add_row(name, f"{tokens:,}", Text(bar, style="cyan"))
    parts: list[RenderableType] = [table]
    if report.nothing_relevant is not None:
        parts.append(Text(f"\n{format_doubt(report.nothing_relevant)}"))
    if report.included:
        parts += [Text(f"\nIn the window ({len(report.included)}), times in {zone}", style="bold")]
        parts += _included_tables(report.included, zone)
    if report.left_out:
        parts += [Text(f"\nLeft out ({len(report.left_out)})", style="bold")]
        parts += _left_out_tables(report.left_out, zone)
    if report.notes:
        parts.append(Text())
    parts += [Text(f"note: {safe(note)}", style="yellow") for note in report.notes]
    return Panel(Group(*parts), title=Text(safe(title)), title_align="left", border_style="dim")


def _included_tables(items: Sequence[ReportItem], zone: tzinfo) -> Iterator[RenderableType]:
    """Yield a table for each section; what its reasons have in common stands in the heading."""
    for section, group in grouped((item.section, item) for item in items).items():
        shared = _shared_reason([item.reason for item in group])
        reasons = (item.reason[len(shared) :].lstrip(",; ") for item in group)
        yield _heading(f"{section}: {shared}" if shared else section, group)
        yield _table(group, reasons, zone)


def _left_out_tables(items: Sequence[ReportItem], zone: tzinfo) -> Iterator[RenderableType]:
    for reason, group in grouped((item.reason, item) for item in items).items():
        yield _heading(reason, group)
        yield _table(group[:_MAX_ROWS], (item.section for item in group), zone)
        if len(group) > _MAX_ROWS:
            yield Text(f"    … {len(group) - _MAX_ROWS} more (use --json)", style="dim")


def _heading(words: str, items: Sequence[ReportItem]) -> Text:
    size = f" · {plural(len(items), 'item')}, {plural(sum(item.tokens for item in items), 'token')}"
    return Text.assemble("  ", safe(words), (size, "dim"))


def _table(items: Sequence[ReportItem], remarks: Iterator[str], zone: tzinfo) -> Table:
    """Return a table whose rows never wrap, however narrow the terminal."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(justify="right", min_width=9, no_wrap=True)
    table.add_column(min_width=16, no_wrap=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(max_width=24, no_wrap=True, overflow="ellipsis")
    for item, remark in zip(items, remarks, strict=False):
        title = Text(safe(item.title))
        time = format_time(item.created_at, zone)
        table.add_row(f"{item.tokens:,}", time, title, Text(safe(remark), "dim"))
    return table


def _shared_reason(reasons: Sequence[str]) -> str:
    """Return the reason that all share, else the first clause that all share, else ""."""
    if len(set(reasons)) == 1:
        return reasons[0]
    clauses = {re.split("[,;]", reason, maxsplit=1)[0] for reason in reasons}
    return clauses.pop() if len(clauses) == 1 else ""


_MAX_CHARS = 200  # characters of a hit
_MAX_FEATURES = 5  # of a hit, with --why
_HIT_FIELDS = (  # in --json, besides kind, id and session
    "created_at", "score", "relevance", "why", "outdated_by", "maybe_outdated_by", "secrets", "text",
)  # fmt: skip


@memory_command
def search(
    memory: MemoryManager,
    query: str,
    limit: int = 10,
    kind: list[str] | None = None,
    session: str | None = None,
    role: str | None = None,
    speaker: str | None = None,
    since: str | None = None,
    until: str | None = None,
    asked_at: str | None = None,
    around: int = 0,
    min_score: float = 0.0,
    why: bool = False,
) -> Output:
    """Search messages, episodes, knowledge and facts, best first."""
    dates = {"since": parse_moment(since, "since"), "until": parse_moment(until, "until")}
    filters = {"role": role, **({} if speaker is None else {"speaker": speaker}), **dates}
    options: dict[str, Any] = {"limit": limit, "kinds": tuple(kind) if kind else SEARCHABLE, "around": around}
    options |= {"filters": filters, "asked_at": parse_moment(asked_at, "asked-at"), "min_score": min_score}
    hits = memory.search(query, session_id=session, **options)
    note_pending_vectors(memory)

    def print_hits() -> None:
        for words in hits.notes:
            note(words)
        stdout.print(hits_view(hits, memory.zone, why=why))

    output = {"query": query, "hits": [_hit_json(hit) for hit in hits]}
    output |= {"nothing_relevant": _round_floats(hits.nothing_relevant), "notes": hits.notes}
    return output, print_hits


@memory_command
def context(
    memory: MemoryManager, session: str, query: str | None = None, budget: int | None = None, lines: int = 40
) -> Output:
    """Show what the model would see now, with the budget report."""
    if not memory.session_messages(session, limit=1):
        (fail if query is None else note)(f"no session {session!r}; list them with: jiyi show")
    window = memory.build_context(session, query, budget)
    note_pending_vectors(memory)
    output = {"messages": window.messages, "report": window.report.to_dict()}
    return output, lambda: stdout.print(window_view(window, memory.zone, lines=lines))


def hits_view(hits: Hits, zone: tzinfo, *, why: bool = False) -> RenderableType:
    """Return hits, best first, then the probability that none of them answers.

    Each hit has a heading and its text, between the messages around it if those were asked for;
    ``why`` adds its strongest features.
    """
    if not hits:
        return "nothing found"
    table = Table.grid(Column(justify="right"), Column(), padding=(0, 2, 0, 0))
    for hit in hits:
        table.add_row(f"{hit.score:.2f}", Group(_hit_heading(hit, zone), *_hit_lines(hit)))
        if why:
            strongest = sorted(hit.why.items(), key=lambda item: -abs(item[1]))[:_MAX_FEATURES]
            shares = " · ".join(f"{name} {share:+.2f}" for name, share in strongest)
            table.add_row("", Text(f"why: {shares}", "dim"))
    doubt = hits.nothing_relevant
    return table if doubt is None else Group(table, Text(f"\n{format_doubt(doubt)}", "dim"))


def _hit_heading(hit: Hit, zone: tzinfo) -> Text:
    """Return the line above a hit: speaker or kind, time, session, and warnings."""
    message = hit.record if isinstance(hit.record, Message) else None
    facts = Text(speaker_label(message) if message else hit.kind)
    facts.stylize(STYLES["role"][message.role] if message else "blue")
    scope = hit.record.scope
    for part in (format_time(hit.created_at, zone, "%Z"), scope.session_id if scope else None):
        if part:
            facts.append(f" · {safe(part)}", "dim")
    if hit.outdated_by:
        facts.append(f" · outdated by {safe(hit.outdated_by)}", "yellow")
    elif hit.maybe_outdated_by:
        facts.append(f" · may have changed with {safe(hit.maybe_outdated_by)}", "yellow")
    if hit.secrets:
        facts.append(f" · holds a {' and a '.join(hit.secrets)}", "red")
    return facts


def _hit_lines(hit: Hit) -> Iterator[RenderableType]:
    """Yield the text of a hit; the messages before and after it are indented."""
    seq = hit.record.seq or 0 if isinstance(hit.record, Message) else 0
    before = [m for m in hit.around if (m.seq or 0) < seq]
    yield from map(_nearby_line, before)
    yield Text.assemble(shorten(hit.text, _MAX_CHARS), (f"  {safe(hit.id)}", "dim"))
    yield from map(_nearby_line, hit.around[len(before) :])


def _nearby_line(message: Message) -> RenderableType:
    words = Text(f"{speaker_label(message)}: {shorten(message.search_text, _MAX_CHARS)}", "dim")
    return Padding(words, (0, 0, 0, 2))


def _hit_json(hit: Hit) -> dict[str, Any]:
    scope = hit.record.scope
    fields = {name: _round_floats(getattr(hit, name)) for name in _HIT_FIELDS}
    names = ("id", "created_at", "role", "name")
    around = [{**{name: getattr(m, name) for name in names}, "text": m.search_text} for m in hit.around]
    session = scope.session_id if scope else None
    return {"kind": hit.kind, "id": hit.id, "session_id": session, **fields, "around": around}


def _round_floats(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _round_floats(item) for name, item in value.items()}
    return round(value, 4) if isinstance(value, float) else value
