"""`jiyi tasks`, `episodes`, `knowledge` and `facts`: what a memory holds, as lists or JSON."""

from collections.abc import Callable, Sequence
from datetime import tzinfo
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from jiyi.cli.lists import episodes_list, facts_list, knowledge_list, tasks_list
from jiyi.cli.options import AGENT_DB, Db, Json, User, opened, parse_moment, print_json, stdout
from jiyi.cli.show import record_json
from jiyi.records import Fact, FactStatus, Record, TaskStatus

__all__ = ["list_episodes", "list_facts", "list_knowledge", "list_tasks"]

_STATES: tuple[FactStatus, ...] = ("active", "unsure", "superseded", "retracted", "expired")

_Limit = Annotated[int, typer.Option(help="How many at most.")]


def list_tasks(
    db: Db = AGENT_DB,
    user: User = None,
    status: Annotated[str | None, typer.Option(help="Only those in_progress, completed or failed.")] = None,
    limit: _Limit = 50,
    as_json: Json = False,
) -> None:
    """List tasks, newest first, with the step in work."""
    state: TaskStatus | None = status  # type: ignore[assignment]  # the verb refuses what is none
    with opened(db, user) as memory:
        _print(memory.tasks(limit, status=state), tasks_list, memory.zone, as_json)


def list_episodes(db: Db = AGENT_DB, user: User = None, limit: _Limit = 50, as_json: Json = False) -> None:
    """List finished tasks, newest first, with what they are worth to the forget gate."""
    with opened(db, user) as memory:
        _print(memory.episodes(limit), episodes_list, memory.zone, as_json)


def list_knowledge(db: Db = AGENT_DB, user: User = None, limit: _Limit = 50, as_json: Json = False) -> None:
    """List what episodes taught, newest first."""
    with opened(db, user) as memory:
        _print(memory.knowledge(limit), knowledge_list, memory.zone, as_json)


def list_facts(
    subject: Annotated[str | None, typer.Argument(help="Only about this, by any of its names.")] = None,
    db: Db = AGENT_DB,
    user: User = None,
    as_of: Annotated[str | None, typer.Option(help="What held at this ISO 8601 date.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also unsure, superseded, retracted and expired ones.")
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Only what every window of the user shows.")
    ] = False,
    limit: _Limit = 100,
    as_json: Json = False,
) -> None:
    """List the facts that hold, oldest first, or those that held at another time."""
    moment = parse_moment(as_of, "as-of")
    with opened(db, user) as memory:
        status = _STATES if everything else None
        facts: list[Fact] = (
            memory.profile()[-limit:]
            if profile
            else memory.facts(subject, as_of=moment, status=status, limit=limit)
        )
        _print(facts, facts_list, memory.zone, as_json)


def _print(
    records: Sequence[Any],
    view: Callable[[Sequence[Any], tzinfo], RenderableType],
    zone: tzinfo,
    as_json: bool,
) -> None:
    if as_json:
        plain: Sequence[Record] = records
        print_json([record_json(record) for record in plain])
    elif records:
        stdout.print(view(records, zone))
    else:
        stdout.print("nothing there")
