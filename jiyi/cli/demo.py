"""`jiyi demo`: three weeks of an ops agent replayed, and what it should see for three questions."""

import json
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

from rich.markup import escape
from rich.rule import Rule

from jiyi.cli.lists import episodes_list, facts_list
from jiyi.cli.options import print_json, progress_bar, stdout, told_briefly
from jiyi.cli.views import budget_bar, hits_view, window_view
from jiyi.databases import users_of
from jiyi.errors import StorageError
from jiyi.manager import MemoryManager
from jiyi.records import FactStatus
from jiyi.wiring import open_memory

__all__ = ["run_demo"]

_USER = "team-ops"
_TURNS = 6
_RANKED = 60  # hits among which the place of an answer is told
_ZONE = "Asia/Shanghai"  # of the team in the example


@dataclass(frozen=True, slots=True)
class _Event:
    """Something that happened: a message, or a change of a task."""

    at: datetime
    order: int  # among events of the same moment
    verb: str  # "message", "start", "step", "end"
    data: dict[str, Any]


def run_demo(db: Path, *, budget: int, full: bool, as_json: bool) -> None:
    """Replay the example into ``db``, which is overwritten, and print what it knows for three questions.

    ``full``: the windows whole.
    """
    examples = _examples()
    with told_briefly():
        if db.exists() and not set(users_of(db)) <= {_USER}:  # somebody's memory must not be lost to a demo
            raise StorageError(
                f"{db} is not of an earlier demo and stays as it is; name another file with --db"
            )
    for file in (db, *(db.with_name(db.name + end) for end in ("-wal", "-shm"))):
        file.unlink(missing_ok=True)
    started = time.perf_counter()
    with told_briefly(), _open(db) as memory:
        events = list(_events(examples))
        _replay(memory, events, quiet=as_json)
        questions = json.loads((examples / "ops-questions.json").read_text("utf-8"))
        answers = _ask(memory, questions, budget, events[-1].at, full=full, quiet=as_json)
        if not as_json:
            _print_learned(memory, questions)
        counts = dict(memory.stats())
    seconds = time.perf_counter() - started
    if as_json:
        print_json(
            {
                "db": str(db),
                "user": _USER,
                "seconds": round(seconds, 1),
                "stats": counts,
                "questions": answers,
            }
        )
        return
    stdout.print(Rule())
    stdout.print(f"{seconds:.0f} s. The memory is in {escape(str(db))}; ask it yourself:\n")
    jiyi = "jiyi" if shutil.which("jiyi") else sys.argv[0]  # the environment need not be active
    for line in (
        f"export JIYI_TIMEZONE={_ZONE}",
        f'{jiyi} search "502" --around 1 --why --db {db}',
        f'{jiyi} context 2026-03-22-weekly-wrap "pay-gw 现在用哪个端口？" --budget 2000 --db {db}',
        f"{jiyi} show --db {db}",
    ):
        stdout.print(f"  {line}", markup=False, soft_wrap=True)


def _open(db: Path) -> MemoryManager:
    return open_memory(
        db,
        user_id=_USER,
        background=False,
        timezone=_ZONE,
        max_turns=_TURNS,
    )


def _replay(memory: MemoryManager, events: list[_Event], *, quiet: bool) -> None:
    """Save everything in the order it happened."""
    tasks: dict[str, str] = {}
    with progress_bar(quiet=quiet) as bar:
        row = bar.add_task("saving messages and tasks", total=len(events))
        for event in events:
            if event.verb == "message":
                memory.save_message(event.data["session_id"], _without_session(event.data))
            else:
                _work(memory, event, tasks)
            bar.advance(row)
        row = bar.add_task("embedding, bundled model", total=memory.stats()["vectors_pending"])
        memory.flush(lambda done: bar.update(row, completed=done))


def _without_session(message: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != "session_id"}


def _work(memory: MemoryManager, event: _Event, tasks: dict[str, str]) -> None:
    data = event.data
    if event.verb == "start":
        task = memory.start_task(
            data["session_id"],
            data["request"],
            target=data["target"],
            trigger_type=data["trigger_type"],
            tags=data["tags"],
            started_at=event.at,
        )
        tasks[data["id"]] = task.id
    elif event.verb == "step":
        step = memory.add_step(
            tasks[data["task"]],
            data["description"],
            tool_name=data["tool_name"],
            args=data["args"],
            at=datetime.fromisoformat(data["started_at"]),
        )
        memory.update_step(step.id, status=data["status"], result=data["result"], at=event.at)
    else:
        memory.complete_task(tasks[data["id"]], outcome=data["outcome"], summary=data["summary"], at=event.at)


def _ask(
    memory: MemoryManager,
    questions: list[dict[str, Any]],
    budget: int,
    at: datetime,
    *,
    full: bool,
    quiet: bool,
) -> list[dict[str, Any]]:
    answers = []
    session = memory.sessions(limit=1)[0].id
    for question in questions:
        started = time.perf_counter()
        window = memory.build_context(session, question["question"], budget, asked_at=at)
        took = 1000 * (time.perf_counter() - started)
        shown = {item.id for item in window.report.included}
        found = [id_ for id_ in question["evidence"] if id_ in shown]
        hits = memory.search(question["question"], limit=_RANKED, asked_at=at)
        place = next((n for n, hit in enumerate(hits, 1) if hit.id in found), None)
        figures = {"found": found, "place": place, "ms": round(took, 1)}
        answers.append({**question, **figures, "report": window.report.to_dict()})
        if quiet:
            continue
        stdout.print(Rule(f"[bold]{escape(question['question'])}"))
        if full:
            stdout.print(window_view(window, memory.zone))
        else:
            stdout.print("\n[bold]What is recalled[/] (two best)\n")
            stdout.print(hits_view(replace(hits, hits=hits.hits[:2]), memory.zone))
            stdout.print(f"\n[bold]The window[/], built in {took:.0f} ms\n")
            stdout.print(budget_bar(window.report))
        there = f"yes, place {place} of what is recalled" if place else "yes" if found else "no"
        stdout.print(f"\nAnswer in window: {there}. {escape(question['answer'])}\n")
    return answers


def _print_learned(memory: MemoryManager, questions: list[dict[str, Any]]) -> None:
    """Print a fact that changed with what the answers rest on, and what a finished task left."""
    facts = {fact.id: fact for fact in memory.facts(status=get_args(FactStatus), limit=1_000)}
    evidence = {id_ for question in questions for id_ in question["evidence"]}
    for before in facts.values():
        after = facts.get(before.superseded_by or "")
        if after and not evidence.isdisjoint(after.sources):
            stdout.print(Rule("[bold]One fact that changed"))
            stdout.print(facts_list([before, after], memory.zone))
            break
    if episodes := memory.episodes(limit=1):
        stdout.print(Rule("[bold]One lesson learned"))
        stdout.print(episodes_list(episodes, memory.zone))


def _events(examples: Path) -> Iterator[_Event]:
    events = []
    for line in (examples / "ops.jsonl").read_text("utf-8").splitlines():
        message = json.loads(line)
        events.append(_Event(datetime.fromisoformat(message["created_at"]), 0, "message", message))
    for task in json.loads((examples / "ops-tasks.json").read_text("utf-8")):
        events.append(_Event(datetime.fromisoformat(task["started_at"]), 1, "start", task))
        for step in task["steps"]:
            ended = datetime.fromisoformat(step["completed_at"])
            events.append(_Event(ended, 2, "step", {**step, "task": task["id"]}))
        events.append(_Event(datetime.fromisoformat(task["completed_at"]), 3, "end", task))
    return iter(sorted(events, key=lambda event: (event.at, event.order)))


def _examples() -> Path:
    """Return the folder of example data: inside an installed package, beside it in a checkout."""
    inside = Path(str(files("jiyi") / "examples"))
    return inside if inside.is_dir() else Path(__file__).parents[2] / "examples"
