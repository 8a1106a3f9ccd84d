"""`jiyi monitor`: what a database tells of replies, summaries and runs."""

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any

from rich.text import Text

from jiyi import records
from jiyi.cli.options import Shown, on_memory
from jiyi.cli.terminal import safe, say, short, stdout
from jiyi.manager import MemoryManager
from jiyi.monitor import Step, find_drift
from jiyi.monitor.figures import Ring
from jiyi.records import Task

__all__ = ["monitor"]

_RESERVE = 1.5  # what is to be kept free for a reply, as a multiple of the mean
_MOST = 10_000  # messages of a session that are looked at
_WORDS = 200  # characters of a request
_ELSEWHERE = (
    "Windows, the time they take and whether recalled text was used are known to the program that builds "
    "them: memory.monitor there, or its prometheus_text."
)


@on_memory
def monitor(memory: MemoryManager, sessions: int = 50) -> Shown:
    """Show the lengths of stored replies, how often was summarised, and the runs that go astray."""
    tasks = memory.tasks(sessions)
    steps = [step for task in tasks for step in _ended(task)]
    found = {
        **_replies(memory, sessions),
        "summaries": memory.stats()["summary"],
        "steps": len(steps),
        "failed_steps": sum(step.status == "failed" for step in steps),
        "drifting": [run for task in tasks for run in _astray(task)],
    }
    return found, lambda: _print(found)


def _print(found: Mapping[str, Any]) -> None:
    tokens = found["output_tokens"]
    say(f"{found['sessions']} sessions, {found['replies']:,} replies, {found['summaries']} summaries")
    if found["replies"]:
        say(
            f"reply tokens: p50 {tokens['p50']:,}, p95 {tokens['p95']:,}, largest {tokens['largest']:,}; "
            f"keep {found['output_reserve']:,} free for one"
        )
    say(f"{found['steps']:,} steps of tasks, {found['failed_steps']} failed")
    for run in found["drifting"]:
        words = safe(f" {run['task']} {run['request']}: {run['why']}")
        stdout.print(Text.assemble(("astray", "yellow"), words))
    stdout.print(f"[dim]{_ELSEWHERE}[/]")


def _replies(memory: MemoryManager, most: int) -> dict[str, Any]:
    """Return the figures of the replies with words that the newest sessions hold."""
    there = memory.sessions(limit=most)
    lengths = Ring(most * _MOST)
    for session in there:
        for message in memory.session_messages(session.id, limit=_MOST):
            if message.role == "assistant" and message.text.strip():
                lengths.add(message.tokens or memory.counter.count(message))
    spread = lengths.spread()
    return {
        "sessions": len(there),
        "replies": spread.count,
        "output_tokens": {
            "mean": round(spread.mean, 1),
            **{name: int(getattr(spread, name)) for name in ("p50", "p95", "largest")},
        },
        "output_reserve": ceil(_RESERVE * spread.mean),
    }


def _astray(task: Task) -> Iterator[dict[str, str]]:
    """Yield a task in work whose steps leave its request, and why; nothing for any other."""
    done = _ended(task)
    if task.status != "in_progress" or not done:
        return
    steps = [
        Step(text=f"{step.tool_name or ''} {step.description}".strip(), ok=step.status == "completed")
        for step in done
    ]
    drift = find_drift(task.request, steps)
    if drift.drifting:
        yield {"task": task.id, "request": short(task.request, _WORDS), "why": drift.why}


def _ended(task: Task) -> list[records.Step]:
    return [step for step in task.steps if step.status in ("completed", "failed")]
