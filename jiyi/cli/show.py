"""`jiyi show`: what is in a memory."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.markup import escape

from jiyi.cli.options import print_json, stdout
from jiyi.cli.views import message_panel, sessions_table
from jiyi.manager import MemoryManager
from jiyi.records import Message, Record

__all__ = ["record_json", "run_show"]


def run_show(memory: MemoryManager, name: str | None, *, as_json: bool) -> None:
    """Print the sessions and tasks, or whatever has the id ``name``."""
    if name is None:
        _overview(memory, as_json=as_json)
        return
    found: Sequence[Record] = memory.session_messages(name) or [memory.get(name)]
    if as_json:
        print_json([record_json(record) for record in found])
        return
    for record in found:
        if isinstance(record, Message):
            stdout.print(message_panel(record, memory.zone))
        else:
            stdout.print_json(data=record_json(record), default=str)


def _overview(memory: MemoryManager, *, as_json: bool) -> None:
    sessions, tasks = memory.sessions(limit=1_000), memory.tasks(limit=1_000)
    if as_json:
        print_json({"sessions": [record_json(s) for s in sessions], "tasks": [record_json(t) for t in tasks]})
        return
    stdout.print(sessions_table(sessions, memory.zone))
    for task in tasks:
        state = f"{task.status}, {len(task.steps)} steps"
        stdout.print(f"\ntask {escape(task.id)} [dim]{state}[/]: {escape(task.request)}", soft_wrap=True)


def record_json(record: Record) -> dict[str, Any]:
    """Return a record as plain values; a message as the OpenAI dict it is, with its date and id."""
    if isinstance(record, Message):
        return {"id": record.id, "seq": record.seq, "created_at": record.created_at, **record.to_dict()}
    fields = asdict(record)
    scope = fields.pop("scope")
    for step in fields.get("steps", ()):
        step.pop("scope")
    return {"session_id": scope["session_id"], **fields}
