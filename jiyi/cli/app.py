"""The command line: `jiyi COMMAND --help` explains each."""

import io
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import Progress, TaskID

from jiyi.cli.chat import chat
from jiyi.cli.database import migrate, serve_db
from jiyi.cli.demo import run_demo
from jiyi.cli.doctor import run_doctor
from jiyi.cli.evaluate import evaluate_files
from jiyi.cli.life import export, forget, maintain, pin, restore
from jiyi.cli.listing import list_episodes, list_facts, list_knowledge, list_tasks
from jiyi.cli.model import model
from jiyi.cli.monitor import monitor
from jiyi.cli.move import copy, reembed
from jiyi.cli.options import (
    AGENT_DB,
    Db,
    Json,
    User,
    db_option,
    fail,
    note_pending,
    opened,
    parse_moment,
    print_json,
    progress_bar,
    stderr,
    stdout,
    told_briefly,
)
from jiyi.cli.receipts import counted
from jiyi.cli.show import run_show
from jiyi.cli.views import hits_json, hits_view, safe, window_view
from jiyi.errors import ImportFailed
from jiyi.manager import MemoryManager
from jiyi.records import SEARCHABLE, Kind
from jiyi.storage import ImportReceipt, Rejected
from jiyi.storage.place import locate

__all__ = ["app", "main"]

app = typer.Typer(
    name="jiyi",
    help="jiyi (记忆): memory for LLM agents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        stdout.print(f"jiyi {version('jiyi')}")
        raise typer.Exit


@app.callback()
def _root(
    ver: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    db: Annotated[
        str, typer.Option("--db", metavar="FILE", help="Where to keep it; overwritten.")
    ] = "demo.db",
    budget: Annotated[int, typer.Option(help="Tokens of each window.")] = 3500,
    full: Annotated[bool, typer.Option("--full", help="Print the windows whole.")] = False,
    as_json: Json = False,
) -> None:
    """Replay three weeks of an ops agent and show what three questions get."""
    with told_briefly():
        place = locate(db)
    if place.path is None:
        fail(f"the demo overwrites what it is given and so takes a file only, not {place}")
    else:
        run_demo(place.path, budget=budget, full=full, as_json=as_json)


@app.command(name="import")
def import_(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="What `jiyi export` wrote, JSONL or JSON of OpenAI messages, or the neutral format.",
            exists=True,
            dir_okay=False,
        ),
    ],
    db: Db = AGENT_DB,
    user: User = None,
    session: Annotated[str | None, typer.Option(help="The session of messages that name none.")] = None,
    vectors: Annotated[
        bool,
        typer.Option(
            help="Also make the vectors now; else jiyi reembed does, or a program that opens the memory."
        ),
    ] = True,
    as_json: Json = False,
) -> None:
    """Import conversations or an export; bad lines are reported, the rest goes in, nothing goes in twice."""
    with (
        opened(db, user, create=True) as memory,
        progress_bar(quiet=as_json) as bar,
    ):
        receipts = []
        for file in files:
            row = bar.add_task(f"{escape(safe(file.name))}: records", total=None)
            receipts.append(_import_one(memory, file, session, partial(_advance, bar, row)))
            bar.update(row, total=bar.tasks[row].completed)
        pending = memory.stats()["vectors_pending"]
        if vectors and pending:
            row = bar.add_task("vectors", total=pending)
            memory.flush(partial(_advance, bar, row))
    added, known = sum(r.added for r in receipts), sum(r.known for r in receipts)
    rejected = [{"where": bad.where, "reason": bad.reason} for r in receipts for bad in r.rejected]
    if as_json:
        print_json({"added": added, "known": known, "rejected": rejected})
    else:
        for bad in rejected:
            stderr.print(f"[yellow]rejected[/] {escape(bad['where'] + ': ' + bad['reason'])}", soft_wrap=True)
        counts = sum((Counter(r.counts) for r in receipts), Counter[Kind]())
        what = counted(counts) if set(counts) - {"message"} else f"{added} messages"
        stdout.print(f"{what} added, {known} were there already, {len(rejected)} rejected", soft_wrap=True)
    if any(r.rejected and not r.added + r.known for r in receipts):
        raise typer.Exit(1)


def _import_one(
    memory: MemoryManager, file: Path, session: str | None, progress: Callable[[int], None]
) -> ImportReceipt:
    """Import a file; one that cannot be imported at all does not keep the others out."""
    try:
        return memory.import_(file, session_id=session, progress=progress)
    except ImportFailed as error:
        return ImportReceipt(added=0, known=0, rejected=(Rejected(where=file.name, reason=str(error)),))


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="Words or a question, Chinese or English.")],
    db: Db = AGENT_DB,
    user: User = None,
    limit: Annotated[int, typer.Option(help="How many hits at most.")] = 10,
    kind: Annotated[
        list[str] | None, typer.Option(help="message, episode, knowledge or fact; repeatable.")
    ] = None,
    session: Annotated[str | None, typer.Option(help="Only this conversation.")] = None,
    role: Annotated[str | None, typer.Option(help="Only messages of this role.")] = None,
    since: Annotated[str | None, typer.Option(help="Only from this ISO 8601 date on.")] = None,
    until: Annotated[str | None, typer.Option(help="Only before this ISO 8601 date.")] = None,
    asked_at: Annotated[
        str | None, typer.Option(help='When it is asked: what "yesterday" in it means; now by default.')
    ] = None,
    around: Annotated[int, typer.Option(help="Messages shown before and behind each message found.")] = 0,
    why: Annotated[bool, typer.Option("--why", help="Also show what speaks for each hit.")] = False,
    as_json: Json = False,
) -> None:
    """Search messages, episodes, knowledge and facts, best first."""
    filters = {"role": role, "since": parse_moment(since, "since"), "until": parse_moment(until, "until")}
    kinds: tuple[Kind, ...] = tuple(kind) if kind else SEARCHABLE  # type: ignore[arg-type]
    with opened(db, user) as memory:
        hits = memory.search(
            query,
            limit=limit,
            kinds=kinds,
            session_id=session,
            filters=filters,
            asked_at=parse_moment(asked_at, "asked-at"),
            around=around,
        )
        note_pending(memory)
    if as_json:
        print_json(hits_json(query, hits))
        return
    for note in hits.notes:
        stderr.print(f"[yellow]note:[/] {escape(note)}", soft_wrap=True)
    stdout.print(hits_view(hits, memory.zone, why=why) if hits else "nothing found")


@app.command()
def context(
    session: Annotated[str, typer.Argument(help="The conversation.")],
    query: Annotated[
        str | None, typer.Argument(help="The question; the newest user message by default.")
    ] = None,
    db: Db = AGENT_DB,
    user: User = None,
    budget: Annotated[int | None, typer.Option(help="Input tokens of the window.")] = None,
    lines: Annotated[int, typer.Option(help="Lines shown of each message.")] = 40,
    as_json: Json = False,
) -> None:
    """Show what the model would see now, with the budget report."""
    with opened(db, user) as memory:
        if query is None and not memory.session_messages(session, limit=1):
            fail(f"no session {session!r}; list them with: jiyi show {db_option(db)}")
        window = memory.build_context(session, query, budget)
        note_pending(memory)
    if as_json:
        print_json({"messages": window.messages, "report": window.report.to_dict()})
    else:
        stdout.print(window_view(window, memory.zone, lines=lines))


@app.command()
def show(
    name: Annotated[str | None, typer.Argument(help="The id of a session, or of any record.")] = None,
    db: Db = AGENT_DB,
    user: User = None,
    as_json: Json = False,
) -> None:
    """List the sessions and tasks, or show one session or record whole."""
    with opened(db, user) as memory:
        run_show(memory, name, as_json=as_json)


@app.command()
def stats(db: Db = AGENT_DB, user: User = None, as_json: Json = False) -> None:
    """Count what is stored."""
    with opened(db, user) as memory:
        counts = dict(memory.stats())
    if as_json:
        print_json(counts)
        return
    for name, count in counts.items():
        stdout.print(f"{count:>10,}  {name}")


@app.command()
def doctor(
    db: Db = AGENT_DB,
    mend: Annotated[
        bool, typer.Option("--repair", help="Also mend what can be mended: vectors that lie elsewhere.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check model, database and terminal, and say what to fix."""
    run_doctor(db, mend=mend, as_json=as_json)


app.command(name="tasks")(list_tasks)
app.command(name="episodes")(list_episodes)
app.command(name="knowledge")(list_knowledge)
app.command(name="facts")(list_facts)
app.command()(forget)
app.command()(restore)
app.command()(pin)
app.command()(maintain)
app.command()(monitor)
app.command()(export)
app.command(name="evaluate")(evaluate_files)
app.command()(chat)
app.command()(copy)
app.command()(reembed)
app.command()(model)
app.command()(migrate)
app.command(name="serve-db")(serve_db)


def _advance(bar: Progress, row: TaskID, count: int) -> None:
    bar.update(row, completed=count)


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Chinese shows "?", not a traceback
    app()
