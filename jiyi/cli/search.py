"""`jiyi search` and `jiyi context`: search a memory, and show the window a model would see."""

from collections.abc import Iterator, Mapping
from datetime import tzinfo
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from jiyi.cli.options import Output, memory_command, note_pending_vectors, parse_moment
from jiyi.cli.terminal import fail, format_time, note, safe, shorten, stdout
from jiyi.cli.windows import STYLES, format_doubt, speaker_label, window_view
from jiyi.manager import MemoryManager
from jiyi.records import SEARCHABLE, Hit, Hits, Kind, Message

__all__ = ["context", "hits_view", "search"]

_MAX_CHARS = 200  # characters of a hit
_MAX_FEATURES = 5  # of a hit, with --why
_HIT_FIELDS = (  # in --json, besides kind, id and session
    "created_at",
    "score",
    "relevance",
    "why",
    "outdated_by",
    "maybe_outdated_by",
    "secrets",
    "text",
)


@memory_command
def search(
    memory: MemoryManager,
    query: str,
    limit: int = 10,
    kind: list[str] | None = None,
    session: str | None = None,
    role: str | None = None,
    since: str | None = None,
    until: str | None = None,
    asked_at: str | None = None,
    around: int = 0,
    min_score: float = 0.0,
    why: bool = False,
) -> Output:
    """Search messages, episodes, knowledge and facts, best first."""
    filters = {"role": role, "since": parse_moment(since, "since"), "until": parse_moment(until, "until")}
    kinds: tuple[Kind, ...] = tuple(kind) if kind else SEARCHABLE  # type: ignore[arg-type]
    hits = memory.search(
        query,
        limit=limit,
        kinds=kinds,
        session_id=session,
        filters=filters,
        asked_at=parse_moment(asked_at, "asked-at"),
        around=around,
        min_score=min_score,
    )
    note_pending_vectors(memory)

    def print_hits() -> None:
        for words in hits.notes:
            note(words)
        stdout.print(hits_view(hits, memory.zone, why=why))

    output = {
        "query": query,
        "hits": [_hit_json(hit) for hit in hits],
        "nothing_relevant": _round_floats(hits.nothing_relevant),
        "notes": hits.notes,
    }
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
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right")
    table.add_column()
    for hit in hits:
        table.add_row(f"{hit.score:.2f}", Group(_hit_heading(hit, zone), *_hit_lines(hit)))
        if why:
            strongest = sorted(hit.why.items(), key=lambda item: -abs(item[1]))[:_MAX_FEATURES]
            shares = " · ".join(f"{name} {share:+.2f}" for name, share in strongest)
            table.add_row("", Text(f"why: {shares}", "dim"))
    if hits.nothing_relevant is None:
        return table
    return Group(table, Text(f"\n{format_doubt(hits.nothing_relevant)}", "dim"))


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
    words = f"{speaker_label(message)}: {shorten(message.search_text, _MAX_CHARS)}"
    return Padding(Text(words, "dim"), (0, 0, 0, 2))


def _hit_json(hit: Hit) -> dict[str, Any]:
    scope = hit.record.scope
    return {
        "kind": hit.kind,
        "id": hit.id,
        "session_id": scope.session_id if scope else None,
        **{name: _round_floats(getattr(hit, name)) for name in _HIT_FIELDS},
        "around": [
            {"id": m.id, "created_at": m.created_at, "role": m.role, "name": m.name, "text": m.search_text}
            for m in hit.around
        ],
    }


def _round_floats(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _round_floats(item) for name, item in value.items()}
    return round(value, 4) if isinstance(value, float) else value
