"""`jiyi show`, `stats`, `tasks`, `episodes`, `knowledge`, `facts`, `monitor`: list and show what is stored.

In a list each record has a heading, then its text.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import tzinfo
from math import ceil
from typing import Any, TypeVar, get_args

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from jiyi import records
from jiyi.cli.options import Output, memory_command, parse_moment
from jiyi.cli.terminal import echo, format_time, note, plural, print_json, safe, shorten, stdout
from jiyi.cli.windows import STYLES, message_panel
from jiyi.manager import MemoryManager
from jiyi.monitor import Step, find_drift
from jiyi.monitor.figures import RESERVE_FACTOR, RecentValues
from jiyi.records import Episode, Fact, FactStatus, Knowledge, Message, Record, Session, Task, TaskStatus

_ALL_STATUSES: tuple[FactStatus, ...] = get_args(FactStatus)
_CURRENT_STATUSES: tuple[FactStatus, ...] = ("active", "unsure")
_MAX_CHARS = 300  # of a text

_R = TypeVar("_R", bound=Record)


@memory_command
def show(memory: MemoryManager, name: str | None = None) -> Output:
    """List the sessions and tasks, or show one session or record in full."""
    if name is None:
        return _overview(memory)
    records: Sequence[Record] = memory.session_messages(name) or [memory.get(name)]
    return [_record_json(record) for record in records], lambda: _print_records(records, memory.zone)


def _print_records(records: Sequence[Record], zone: tzinfo) -> None:
    for record in records:
        if isinstance(record, Message):
            stdout.print(message_panel(record, zone))
        else:
            print_json(_record_json(record))


def _overview(memory: MemoryManager) -> Output:
    sessions, show_sessions, *_ = _list_output(memory.sessions(limit=1_000), _session_view, memory.zone)
    tasks, show_tasks, *_ = _list_output(memory.tasks(limit=1_000), _task_view, memory.zone)

    def show_both() -> None:
        for heading, lines in (("sessions", show_sessions), ("tasks", show_tasks)):
            stdout.print(f"[bold]{heading}[/]")
            lines()

    return {"sessions": sessions, "tasks": tasks}, show_both


def _session_view(session: Session, zone: tzinfo) -> RenderableType:
    begin = (format_time(session.started_at, zone, "%Z"), f"to {format_time(session.last_active_at, zone)}")
    return _entry(begin, [plural(session.messages, "message")], "", session.id)


@memory_command
def stats(memory: MemoryManager) -> Output:
    """Count what is stored."""
    counts = dict(memory.stats())
    return counts, lambda: echo("\n".join(f"{count:>10,}  {name}" for name, count in counts.items()))


@memory_command
def list_tasks(memory: MemoryManager, status: str | None = None, limit: int = 50) -> Output:
    """List tasks, newest first, with the current step."""
    state: TaskStatus | None = status  # type: ignore[assignment]  # the verb validates it
    return _list_output(memory.tasks(limit, status=state), _task_view, memory.zone)


@memory_command
def list_episodes(memory: MemoryManager, limit: int = 50) -> Output:
    """List finished tasks, newest first, with their importance to the forget gate."""
    return _list_output(memory.episodes(limit), episode_view, memory.zone)


@memory_command
def list_knowledge(memory: MemoryManager, limit: int = 50) -> Output:
    """List what was learned from episodes, newest first."""
    return _list_output(memory.knowledge(limit), _knowledge_view, memory.zone)


@memory_command
def list_facts(
    memory: MemoryManager,
    subject: str | None = None,
    as_of: str | None = None,
    everything: bool = False,
    profile: bool = False,
    limit: int = 100,
) -> Output:
    """List the facts that hold or may have changed, oldest first, or those that held at another time."""
    moment = parse_moment(as_of, "as-of")
    status = _ALL_STATUSES if everything else None if moment else _CURRENT_STATUSES
    if profile:
        return _list_output(memory.profile()[-limit:], fact_view, memory.zone)
    facts = memory.facts(subject, as_of=moment, status=status, limit=limit)
    if subject and not facts and (known := sorted({fact.subject for fact in memory.facts(limit=1_000)})):
        note(f"there are facts about {shorten(', '.join(known), _MAX_CHARS)}")
    return _list_output(facts, fact_view, memory.zone)


def _list_output(records: Sequence[_R], view: Callable[[_R, tzinfo], RenderableType], zone: tzinfo) -> Output:
    output = Group(*(view(record, zone) for record in records)) if records else "nothing there"
    if getattr(records, "next", None):
        note(f"only {len(records):,} are shown; there are more")
    return [_record_json(record) for record in records], lambda: stdout.print(output)


def _record_json(record: Record) -> dict[str, Any]:
    """Return a record as a dict; a message as its OpenAI dict with id, seq and date."""
    if isinstance(record, Message):
        return {"id": record.id, "seq": record.seq, "created_at": record.created_at, **record.to_dict()}
    fields = asdict(record)
    for step in fields.get("steps", ()):
        step.pop("scope")
    return {"session_id": fields.pop("scope")["session_id"], **fields}


def _task_view(task: Task, zone: tzinfo) -> RenderableType:
    step = task.current_step if task.status == "in_progress" else None
    facts = [_target_text(task.target), plural(len(task.steps), "step")]
    more = [f"now: {shorten(step.description, _MAX_CHARS)}"] if step else []
    return _entry((format_time(task.started_at, zone, "%Z"), task.status), facts, task.request, task.id, more)


def episode_view(episode: Episode, zone: tzinfo) -> RenderableType:
    """Return an episode with its outcome, importance and number of recalls."""
    facts = [_target_text(episode.target), f"importance {episode.importance:.2f}"]
    facts.append(_recall_count(episode.access_count))
    facts += ["pinned" * episode.pinned, "consolidated" * episode.consolidated]
    words = f"{episode.trigger_summary} -> {episode.outcome_summary}"
    return _entry((format_time(episode.created_at, zone, "%Z"), episode.outcome), facts, words, episode.id)


def _knowledge_view(knowledge: Knowledge, zone: tzinfo) -> RenderableType:
    facts = ["from " + plural(len(knowledge.source_episodes), "episode")]
    facts += [_recall_count(knowledge.access_count), "pinned" * knowledge.pinned]
    points = [f"- {shorten(point, _MAX_CHARS)}" for point in knowledge.key_points]
    begin = (format_time(knowledge.updated_at, zone, "%Z"), f"confidence {knowledge.confidence:.2f}")
    return _entry(begin, facts, f"{knowledge.topic}: {knowledge.content}", knowledge.id, points)


def fact_view(fact: Fact, zone: tzinfo) -> RenderableType:
    """Return a fact with its status, validity and speaker."""
    until = f"until {format_time(fact.valid_to, zone)}" if fact.valid_to else ""
    facts = [until, f"said by {fact.speaker}" if fact.speaker else "", "pinned" * fact.pinned]
    begins = format_time(fact.valid_from or fact.created_at, zone, "%Z")
    return _entry((begins, fact.status), facts, fact.line, fact.id)


def _entry(
    begin: tuple[str, str], facts: Iterable[str], words: str, record_id: str, more: Sequence[str] = ()
) -> RenderableType:
    moment, state = begin
    head = Text.assemble((moment, "dim"), " · ", (state, STYLES["status"].get(state, "")), overflow="fold")
    for fact in filter(None, facts):
        head.append(f" · {safe(fact)}", "dim")
    gap = "  " if words else ""
    body = Text.assemble(shorten(words, _MAX_CHARS), (gap + safe(record_id), "dim"), overflow="fold")
    return Group(head, *(Padding(part, (0, 0, 0, 2), expand=False) for part in (body, *map(Text, more))))


def _target_text(target: str | None) -> str:
    return f"about {shorten(target, _MAX_CHARS)}" if target else ""


def _recall_count(times: int) -> str:
    return "recalled " + plural(times, "time") if times else ""


_MAX_MESSAGES = 10_000  # read of a session
_MAX_REQUEST_CHARS = 200
_HINT = (
    "Windows, the time they take and whether recalled text was used are known to the program that builds "
    "them: memory.monitor there, or its prometheus_text."
)


@memory_command
def monitor(memory: MemoryManager, sessions: int = 50) -> Output:
    """Show the lengths of stored replies, the number of summaries, and tasks whose steps drift."""
    tasks = memory.tasks(sessions)
    steps = [step for task in tasks for step in _finished_steps(task)]
    figures = _reply_figures(memory, sessions) | {"summaries": memory.stats()["summary"]}
    figures |= {"steps": len(steps), "failed_steps": sum(step.status == "failed" for step in steps)}
    figures["drifting"] = [run for task in tasks for run in _drifting_runs(task)]
    return figures, lambda: _print_figures(figures)


def _print_figures(figures: Mapping[str, Any]) -> None:
    tokens = figures["output_tokens"]
    nouns = {"sessions": "session", "replies": "reply", "summaries": "summary"}
    echo(", ".join(plural(figures[name], noun) for name, noun in nouns.items()))
    if figures["replies"]:
        spread = ", ".join(f"{name} {tokens[name]:,}" for name in ("p50", "p95", "largest"))
        echo(f"reply tokens: {spread}; keep {figures['output_reserve']:,} free for one")
    echo(f"{plural(figures['steps'], 'step')} of tasks, {figures['failed_steps']} failed")
    for run in figures["drifting"]:
        words = safe(f" {run['task']} {run['request']}: {run['why']}")
        stdout.print(Text.assemble(("astray", "yellow"), words))
    stdout.print(f"[dim]{_HINT}[/]")


def _reply_figures(memory: MemoryManager, max_sessions: int) -> dict[str, Any]:
    """Return the token counts of the replies in the newest sessions, without empty replies."""
    newest = memory.sessions(limit=max_sessions)
    lengths = RecentValues(max_sessions * _MAX_MESSAGES)
    for session in newest:
        for message in memory.session_messages(session.id, limit=_MAX_MESSAGES):
            if message.role == "assistant" and message.text.strip():
                lengths.add(message.tokens or memory.counter.count(message))
    spread = lengths.spread()
    tokens = {name: int(getattr(spread, name)) for name in ("p50", "p95", "largest")}
    output_tokens = {"mean": round(spread.mean, 1), **tokens}
    counts = {"sessions": len(newest), "replies": spread.count, "output_tokens": output_tokens}
    return counts | {"output_reserve": ceil(RESERVE_FACTOR * spread.mean)}


def _drifting_runs(task: Task) -> Iterator[dict[str, str]]:
    """Yield a task in progress whose steps drift from its request, and why; nothing for other tasks."""
    finished = _finished_steps(task)
    if task.status != "in_progress" or not finished:
        return
    texts = (f"{step.tool_name or ''} {step.description}".strip() for step in finished)
    steps = [Step(text=t, ok=s.status == "completed") for t, s in zip(texts, finished, strict=True)]
    drift = find_drift(task.request, steps)
    if drift.drifting:
        yield {"task": task.id, "request": shorten(task.request, _MAX_REQUEST_CHARS), "why": drift.why}


def _finished_steps(task: Task) -> list[records.Step]:
    return [step for step in task.steps if step.status in ("completed", "failed")]
