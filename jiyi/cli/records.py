"""`jiyi show`, `stats`, `tasks`, `episodes`, `knowledge` and `facts`: what a memory holds.

In a list each record has a line of facts, then its words.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from datetime import tzinfo
from typing import Any, TypeVar, get_args

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from jiyi.cli.options import Shown, on_memory, parse_moment
from jiyi.cli.terminal import counted, print_json, safe, say, short, stdout, when
from jiyi.cli.windows import message_panel
from jiyi.manager import MemoryManager
from jiyi.records import Episode, Fact, FactStatus, Knowledge, Message, Record, Session, Task, TaskStatus

__all__ = [
    "episode_view",
    "fact_view",
    "list_episodes",
    "list_facts",
    "list_knowledge",
    "list_tasks",
    "show",
    "stats",
]

_STATES: tuple[FactStatus, ...] = get_args(FactStatus)
_WORDS = 300  # characters of one text
_STYLES = {
    "success": "green",
    "partial": "yellow",
    "failed": "red",
    "in_progress": "cyan",
    "completed": "green",
    "active": "green",
    "unsure": "yellow",
    "superseded": "yellow",
    "retracted": "red",
    "expired": "red",
}

_R = TypeVar("_R", bound=Record)


@on_memory
def show(memory: MemoryManager, name: str | None = None) -> Shown:
    """List the sessions and tasks, or show one session or record whole."""
    if name is None:
        return _overview(memory)
    found: Sequence[Record] = memory.session_messages(name) or [memory.get(name)]
    return [_record_json(record) for record in found], lambda: _show_whole(found, memory.zone)


def _show_whole(found: Sequence[Record], zone: tzinfo) -> None:
    for record in found:
        if isinstance(record, Message):
            stdout.print(message_panel(record, zone))
        else:
            print_json(_record_json(record))


def _overview(memory: MemoryManager) -> Shown:
    sessions, tasks = memory.sessions(limit=1_000), memory.tasks(limit=1_000)
    told: dict[str, Sequence[Record]] = {"sessions": sessions, "tasks": tasks}

    def print_them() -> None:
        stdout.print(_sessions_table(sessions, memory.zone))
        for task in tasks:
            state = Text(f"{task.status}, {len(task.steps)} steps", "dim")
            line = Text.assemble("\ntask ", safe(task.id), " ", state, ": ", safe(task.request))
            stdout.print(line, soft_wrap=True)

    return {name: [_record_json(record) for record in some] for name, some in told.items()}, print_them


def _sessions_table(sessions: Sequence[Session], zone: tzinfo) -> Table:
    table = Table("session", "messages", "from", f"to ({zone})", box=None, pad_edge=False, header_style="dim")
    for session in sessions:
        ends = (when(session.started_at, zone), when(session.last_active_at, zone))
        table.add_row(Text(safe(session.id)), str(session.messages), *ends)
    return table


@on_memory
def stats(memory: MemoryManager) -> Shown:
    """Count what is stored."""
    counts = dict(memory.stats())
    return counts, lambda: say("\n".join(f"{count:>10,}  {name}" for name, count in counts.items()))


@on_memory
def list_tasks(memory: MemoryManager, status: str | None = None, limit: int = 50) -> Shown:
    """List tasks, newest first, with the step in work."""
    state: TaskStatus | None = status  # type: ignore[assignment]  # the verb refuses what is none
    return _listed(memory.tasks(limit, status=state), _task_view, memory.zone)


@on_memory
def list_episodes(memory: MemoryManager, limit: int = 50) -> Shown:
    """List finished tasks, newest first, with what they are worth to the forget gate."""
    return _listed(memory.episodes(limit), episode_view, memory.zone)


@on_memory
def list_knowledge(memory: MemoryManager, limit: int = 50) -> Shown:
    """List what episodes taught, newest first."""
    return _listed(memory.knowledge(limit), _knowledge_view, memory.zone)


@on_memory
def list_facts(
    memory: MemoryManager,
    subject: str | None = None,
    as_of: str | None = None,
    everything: bool = False,
    profile: bool = False,
    limit: int = 100,
) -> Shown:
    """List the facts that hold, oldest first, or those that held at another time."""
    moment, status = parse_moment(as_of, "as-of"), _STATES if everything else None
    facts = memory.profile()[-limit:] if profile else None
    if facts is None:
        facts = memory.facts(subject, as_of=moment, status=status, limit=limit)
    return _listed(facts, fact_view, memory.zone)


def _listed(records: Sequence[_R], view: Callable[[_R, tzinfo], RenderableType], zone: tzinfo) -> Shown:
    found = Group(*(view(record, zone) for record in records)) if records else "nothing there"
    return [_record_json(record) for record in records], lambda: stdout.print(found)


def _record_json(record: Record) -> dict[str, Any]:
    """Return a record as plain values; a message as the OpenAI dict it is, with its date and id."""
    if isinstance(record, Message):
        return {"id": record.id, "seq": record.seq, "created_at": record.created_at, **record.to_dict()}
    fields = asdict(record)
    scope = fields.pop("scope")
    for step in fields.get("steps", ()):
        step.pop("scope")
    return {"session_id": scope["session_id"], **fields}


def _task_view(task: Task, zone: tzinfo) -> RenderableType:
    step = task.current_step if task.status == "in_progress" else None
    facts = [_target(task.target), counted(len(task.steps), "step")]
    more = [f"now: {short(step.description, _WORDS)}"] if step else []
    return _entry((when(task.started_at, zone, "%Z"), task.status), facts, task.request, task.id, more)


def episode_view(episode: Episode, zone: tzinfo) -> RenderableType:
    """Return an episode with its outcome, how much it matters and how often it was recalled."""
    facts = [
        _target(episode.target),
        f"importance {episode.importance:.2f}",
        _recalled(episode.access_count),
        "pinned" * episode.pinned,
        "consolidated" * episode.consolidated,
    ]
    words = f"{episode.trigger_summary} -> {episode.outcome_summary}"
    return _entry((when(episode.created_at, zone, "%Z"), episode.outcome), facts, words, episode.id)


def _knowledge_view(one: Knowledge, zone: tzinfo) -> RenderableType:
    facts = [
        "from " + counted(len(one.source_episodes), "episode"),
        _recalled(one.access_count),
        "pinned" * one.pinned,
    ]
    points = [f"- {short(point, _WORDS)}" for point in one.key_points]
    begin = (when(one.updated_at, zone, "%Z"), f"confidence {one.confidence:.2f}")
    return _entry(begin, facts, f"{one.topic}: {one.content}", one.id, points)


def fact_view(fact: Fact, zone: tzinfo) -> RenderableType:
    """Return a fact with its state, since when and until when it holds, and who said it."""
    facts = [
        f"until {when(fact.valid_to, zone)}" if fact.valid_to else "",
        f"said by {fact.speaker}" if fact.speaker else "",
        "pinned" * fact.pinned,
    ]
    begins = when(fact.valid_from or fact.created_at, zone, "%Z")
    return _entry((begins, fact.status), facts, fact.line, fact.id)


def _entry(
    begin: tuple[str, str], facts: Iterable[str], words: str, record_id: str, more: Sequence[str] = ()
) -> RenderableType:
    moment, state = begin
    head = Text.assemble((moment, "dim"), " · ", (state, _STYLES.get(state, "")), overflow="fold")
    for fact in filter(None, facts):
        head.append(f" · {safe(fact)}", "dim")
    body = Text.assemble(short(words, _WORDS), (f"  {safe(record_id)}", "dim"), overflow="fold")
    return Group(head, *(Padding(part, (0, 0, 0, 2)) for part in (body, *map(Text, more))))


def _target(target: str | None) -> str:
    return f"about {short(target, _WORDS)}" if target else ""


def _recalled(times: int) -> str:
    return "recalled " + counted(times, "time") if times else ""
