"""`jiyi search` and `jiyi context`: what a memory finds, and the window a model would see."""

from collections.abc import Iterator, Mapping
from datetime import tzinfo
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from jiyi.cli.options import Shown, note_pending, on_memory, parse_moment
from jiyi.cli.terminal import fail, note, safe, short, stdout, when
from jiyi.cli.windows import ROLE_STYLES, doubt, speaker, window_view
from jiyi.manager import MemoryManager
from jiyi.records import SEARCHABLE, Hit, Hits, Kind, Message

__all__ = ["context", "hits_view", "search"]

_WORDS = 200  # characters of a hit
_STRONGEST = 5  # features named of a hit
_OF_HIT = (  # what --json shows of one, beside its kind, id and session
    "created_at",
    "score",
    "relevance",
    "why",
    "outdated_by",
    "maybe_outdated_by",
    "secrets",
    "text",
)


@on_memory
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
) -> Shown:
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
    note_pending(memory)

    def print_hits() -> None:
        for words in hits.notes:
            note(words)
        stdout.print(hits_view(hits, memory.zone, why=why))

    return _hits_json(query, hits), print_hits


@on_memory
def context(
    memory: MemoryManager, session: str, query: str | None = None, budget: int | None = None, lines: int = 40
) -> Shown:
    """Show what the model would see now, with the budget report."""
    if query is None and not memory.session_messages(session, limit=1):
        fail(f"no session {session!r}; list them with: jiyi show")
    window = memory.build_context(session, query, budget)
    note_pending(memory)
    told = {"messages": window.messages, "report": window.report.to_dict()}
    return told, lambda: stdout.print(window_view(window, memory.zone, lines=lines))


def hits_view(hits: Hits, zone: tzinfo, *, why: bool = False) -> RenderableType:
    """Return hits, best first, and below them how likely it is that none of them answers.

    Each has a line of facts and its words, between what was said around it where that was
    asked for; ``why`` names its strongest features.
    """
    if not hits:
        return "nothing found"
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right")
    table.add_column()
    for hit in hits:
        table.add_row(f"{hit.score:.2f}", Group(_facts(hit, zone), *_passage(hit)))
        if why:
            table.add_row("", Text(_strongest(hit), "dim"))
    if hits.nothing_relevant is None:
        return table
    return Group(table, Text(f"\n{doubt(hits.nothing_relevant)}", "dim"))


def _facts(hit: Hit, zone: tzinfo) -> Text:
    """Return the line above a hit: who or what, when and where, and what may be wrong with it."""
    message = hit.record if isinstance(hit.record, Message) else None
    facts = Text(speaker(message) if message else hit.kind)
    facts.stylize(ROLE_STYLES[message.role] if message else "blue")
    scope = hit.record.scope
    for place in (when(hit.created_at, zone, "%Z"), scope.session_id if scope else None):
        if place:
            facts.append(f" · {safe(place)}", "dim")
    if hit.outdated_by:
        facts.append(f" · outdated by {safe(hit.outdated_by)}", "yellow")
    elif hit.maybe_outdated_by:
        facts.append(f" · may have changed with {safe(hit.maybe_outdated_by)}", "yellow")
    if hit.secrets:
        facts.append(f" · holds a {' and a '.join(hit.secrets)}", "red")
    return facts


def _passage(hit: Hit) -> Iterator[RenderableType]:
    """Yield a hit's words; what was said before and after it is indented."""
    place = hit.record.seq or 0 if isinstance(hit.record, Message) else 0
    before = [m for m in hit.around if (m.seq or 0) < place]
    yield from map(_turn, before)
    yield Text.assemble(short(hit.text, _WORDS), (f"  {safe(hit.id)}", "dim"))
    yield from map(_turn, hit.around[len(before) :])


def _turn(message: Message) -> RenderableType:
    words = f"{speaker(message)}: {short(message.search_text, _WORDS)}"
    return Padding(Text(words, "dim"), (0, 0, 0, 2))


def _strongest(hit: Hit) -> str:
    some = sorted(hit.why.items(), key=lambda item: -abs(item[1]))[:_STRONGEST]
    return "why: " + " · ".join(f"{name} {share:+.2f}" for name, share in some)


def _hits_json(query: str, hits: Hits) -> dict[str, Any]:
    return {
        "query": query,
        "hits": [_hit_json(hit) for hit in hits],
        "nothing_relevant": _rounded(hits.nothing_relevant),
        "notes": hits.notes,
    }


def _hit_json(hit: Hit) -> dict[str, Any]:
    scope = hit.record.scope
    return {
        "kind": hit.kind,
        "id": hit.id,
        "session_id": scope.session_id if scope else None,
        **{name: _rounded(getattr(hit, name)) for name in _OF_HIT},
        "around": [
            {"id": m.id, "created_at": m.created_at, "role": m.role, "name": m.name, "text": m.search_text}
            for m in hit.around
        ],
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _rounded(one) for name, one in value.items()}
    return round(value, 4) if isinstance(value, float) else value
