"""`jiyi demo`: three weeks of an ops agent replayed, and what it should see for three questions."""

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from importlib.resources import files
from operator import itemgetter
from pathlib import Path
from typing import Any, get_args

from rich.rule import Rule
from rich.text import Text

from jiyi.cli.options import Output, json_command
from jiyi.cli.records import episode_view, fact_view
from jiyi.cli.terminal import ProgressBars, echo, fail, stdout
from jiyi.cli.windows import budget_bar, hits_view, window_view
from jiyi.databases import list_users
from jiyi.manager import MemoryManager
from jiyi.records import FactStatus
from jiyi.storage.place import locate
from jiyi.wiring import open as open_memory

_USER = "team-ops"
_MAX_TURNS = 6
_SEARCH_LIMIT = 60  # to find the rank of an answer
_ZONE = "Asia/Shanghai"  # of the team in the example


_Event = tuple[datetime, int, Callable[[], object]]
"""When something happened, its order among events of the same moment, and what replays it."""


@json_command
def demo(db: str = "demo.db", budget: int = 3500, full: bool = False, as_json: bool = False) -> Output:
    """Replay three weeks of an ops agent and show what three questions get."""
    file = _clear_demo_file(db)
    packed = Path(str(files("jiyi") / "examples"))
    examples = packed if packed.is_dir() else Path(__file__).parents[2] / "examples"  # in a checkout
    started = time.perf_counter()
    with open_memory(file, user_id=_USER, background=False, timezone=_ZONE, max_turns=_MAX_TURNS) as memory:
        events = _load_events(memory, examples)
        _replay(memory, events, quiet=as_json)
        questions = json.loads((examples / "ops-questions.json").read_text("utf-8"))
        answers = _ask(memory, questions, budget, events[-1][0], full=full, quiet=as_json)
        if not as_json:
            _print_learned(memory, questions)
        counts = dict(memory.stats())
    seconds = round(time.perf_counter() - started, 1)
    output = {"db": str(file), "user": _USER, "seconds": seconds, "stats": counts, "questions": answers}
    return output, lambda: _print_next_steps(file, seconds)


def _print_next_steps(file: Path, seconds: float) -> None:
    stdout.print(Rule())
    stdout.print(Text(f"{seconds:.0f} s. The memory is in {file}; ask it yourself:\n"))
    jiyi = "jiyi" if shutil.which("jiyi") else sys.argv[0]  # the environment need not be active
    echo(f"  export JIYI_TIMEZONE={_ZONE}")
    echo(f'  {jiyi} search "502" --around 1 --why --db {file}')
    echo(f'  {jiyi} context 2026-03-22-weekly-wrap "pay-gw 现在用哪个端口？" --budget 2000 --db {file}')
    echo(f"  {jiyi} show --db {file}")


def _clear_demo_file(db: str) -> Path:
    """Return the file of the demo, removing that of an earlier demo; refuse any other database."""
    place = locate(db)
    if place.path is None:
        fail(f"the demo overwrites what it is given and so takes a file only, not {place}")
    file = place.path
    if file.exists() and not set(list_users(file)) <= {_USER}:
        fail(f"{file} is not of an earlier demo and stays as it is; name another file with --db")
    for old in (file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))):
        old.unlink(missing_ok=True)
    return file


def _replay(memory: MemoryManager, events: list[_Event], *, quiet: bool) -> None:
    with ProgressBars(quiet=quiet) as bars:
        for done, (_, _, replay) in enumerate(events, 1):
            replay()
            bars.show("saving messages and tasks", done, len(events))
        embedding = partial(bars.show, "embedding, bundled model", total=memory.stats()["vectors_pending"])
        embedding(0)
        memory.flush(embedding)


def _ask(
    memory: MemoryManager, questions: list[Any], budget: int, at: datetime, *, full: bool, quiet: bool
) -> list[dict[str, Any]]:
    answers = []
    session = memory.sessions(limit=1)[0].id
    for question in questions:
        started = time.perf_counter()
        window = memory.build_context(session, question["question"], budget, asked_at=at)
        milliseconds = 1000 * (time.perf_counter() - started)
        included = {item.id for item in window.report.included}
        found = [id_ for id_ in question["evidence"] if id_ in included]
        hits = memory.search(question["question"], limit=_SEARCH_LIMIT, asked_at=at)
        rank = next((n for n, hit in enumerate(hits, 1) if hit.id in found), None)
        figures = {"found": found, "place": rank, "ms": round(milliseconds, 1)}
        answers.append({**question, **figures, "report": window.report.to_dict()})
        if quiet:
            continue
        stdout.print(Rule(Text(question["question"], "bold")))
        if full:
            stdout.print(window_view(window, memory.zone))
        else:
            stdout.print("\n[bold]What is recalled[/] (two best)\n")
            stdout.print(hits_view(replace(hits, hits=hits.hits[:2]), memory.zone))
            stdout.print(f"\n[bold]The window[/], built in {milliseconds:.0f} ms\n")
            stdout.print(budget_bar(window.report, stdout.width))
        verdict = f"yes, place {rank} of what is recalled" if rank else "yes" if found else "no"
        stdout.print(Text(f"\nAnswer in window: {verdict}. {question['answer']}\n"))
    return answers


def _print_learned(memory: MemoryManager, questions: list[dict[str, Any]]) -> None:
    """Print a changed fact from the evidence of the answers, and the newest episode."""
    facts = {fact.id: fact for fact in memory.facts(status=get_args(FactStatus), limit=1_000)}
    evidence = {id_ for question in questions for id_ in question["evidence"]}
    certain_first = sorted(facts.values(), key=lambda fact: fact.status != "superseded")
    for before in certain_first:
        after = facts.get(before.superseded_by or "")
        if after and not evidence.isdisjoint(after.sources):
            stdout.print(Rule("[bold]One fact that changed"))
            stdout.print(fact_view(before, memory.zone), fact_view(after, memory.zone), sep="\n")
            break
    for episode in memory.episodes(limit=1):
        stdout.print(Rule("[bold]One lesson learned"))
        stdout.print(episode_view(episode, memory.zone))


def _load_events(memory: MemoryManager, examples: Path) -> list[_Event]:
    events: list[_Event] = []
    for line in (examples / "ops.jsonl").read_text("utf-8").splitlines():
        message = json.loads(line)
        at = datetime.fromisoformat(message["created_at"])
        events.append((at, 0, partial(memory.save_message, message.pop("session_id"), message)))
    for task in json.loads((examples / "ops-tasks.json").read_text("utf-8")):
        events += _task_events(memory, task)
    return sorted(events, key=itemgetter(0, 1))


def _task_events(memory: MemoryManager, task: dict[str, Any]) -> Iterator[_Event]:
    started, completed = (datetime.fromisoformat(task[name]) for name in ("started_at", "completed_at"))
    ids: list[str] = []  # of the task, once it was started

    def start() -> None:
        fields = {name: task[name] for name in ("session_id", "request", "target", "trigger_type", "tags")}
        ids.append(memory.start_task(**fields, started_at=started).id)

    def take_step(data: dict[str, Any], ended: datetime) -> None:
        fields = {name: data[name] for name in ("description", "tool_name", "args")}
        step = memory.add_step(ids[0], **fields, at=datetime.fromisoformat(data["started_at"]))
        memory.update_step(step.id, status=data["status"], result=data["result"], at=ended)

    def complete() -> None:
        memory.complete_task(ids[0], outcome=task["outcome"], summary=task["summary"], at=completed)

    yield started, 1, start
    for step in task["steps"]:
        ended = datetime.fromisoformat(step["completed_at"])
        yield ended, 2, partial(take_step, step, ended)
    yield completed, 3, complete
