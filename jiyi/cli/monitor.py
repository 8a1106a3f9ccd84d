"""`jiyi monitor`: figures of the replies, summaries and runs in a database."""

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any

from rich.text import Text

from jiyi import records
from jiyi.cli.options import Output, memory_command
from jiyi.cli.terminal import echo, safe, shorten, stdout
from jiyi.manager import MemoryManager
from jiyi.monitor import Step, find_drift
from jiyi.monitor.figures import RecentValues
from jiyi.records import Task

__all__ = ["monitor"]

_RESERVE_FACTOR = 1.5  # tokens to reserve for a reply, as a multiple of the mean
_MAX_MESSAGES = 10_000  # read of a session
_MAX_CHARS = 200  # of a request
_HINT = (
    "Windows, the time they take and whether recalled text was used are known to the program that builds "
    "them: memory.monitor there, or its prometheus_text."
)


@memory_command
def monitor(memory: MemoryManager, sessions: int = 50) -> Output:
    """Show the lengths of stored replies, how often was summarised, and the runs that go astray."""
    tasks = memory.tasks(sessions)
    steps = [step for task in tasks for step in _finished_steps(task)]
    figures = {
        **_reply_figures(memory, sessions),
        "summaries": memory.stats()["summary"],
        "steps": len(steps),
        "failed_steps": sum(step.status == "failed" for step in steps),
        "drifting": [run for task in tasks for run in _drifting_runs(task)],
    }
    return figures, lambda: _print_figures(figures)


def _print_figures(figures: Mapping[str, Any]) -> None:
    tokens = figures["output_tokens"]
    echo(f"{figures['sessions']} sessions, {figures['replies']:,} replies, {figures['summaries']} summaries")
    if figures["replies"]:
        echo(
            f"reply tokens: p50 {tokens['p50']:,}, p95 {tokens['p95']:,}, largest {tokens['largest']:,}; "
            f"keep {figures['output_reserve']:,} free for one"
        )
    echo(f"{figures['steps']:,} steps of tasks, {figures['failed_steps']} failed")
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
    return {
        "sessions": len(newest),
        "replies": spread.count,
        "output_tokens": {
            "mean": round(spread.mean, 1),
            **{name: int(getattr(spread, name)) for name in ("p50", "p95", "largest")},
        },
        "output_reserve": ceil(_RESERVE_FACTOR * spread.mean),
    }


def _drifting_runs(task: Task) -> Iterator[dict[str, str]]:
    """Yield a task in progress whose steps drift from its request, and why; nothing for other tasks."""
    finished = _finished_steps(task)
    if task.status != "in_progress" or not finished:
        return
    steps = [
        Step(text=f"{step.tool_name or ''} {step.description}".strip(), ok=step.status == "completed")
        for step in finished
    ]
    drift = find_drift(task.request, steps)
    if drift.drifting:
        yield {"task": task.id, "request": shorten(task.request, _MAX_CHARS), "why": drift.why}


def _finished_steps(task: Task) -> list[records.Step]:
    return [step for step in task.steps if step.status in ("completed", "failed")]
