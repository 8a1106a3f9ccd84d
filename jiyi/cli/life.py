"""`jiyi forget`, `restore`, `pin`, `maintain` and `export`: the life of what is remembered."""

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.progress import Progress, TaskID

from jiyi.cli.options import (
    AGENT_DB,
    Db,
    Json,
    User,
    fail,
    opened,
    parse_moment,
    print_json,
    progress_bar,
    require_database,
    stderr,
    stdout,
    told_briefly,
)
from jiyi.cli.receipts import forgotten_text, maintained_text, plan_view, restored_view
from jiyi.cli.views import safe
from jiyi.databases import users_of
from jiyi.long_term import Maintained
from jiyi.manager import MemoryManager

__all__ = ["export", "forget", "maintain", "pin", "restore"]


def forget(
    query: Annotated[
        str | None, typer.Argument(help="Words; records that have all of them are forgotten.")
    ] = None,
    db: Db = AGENT_DB,
    user: User = None,
    ids: Annotated[list[str] | None, typer.Option("--id", help="This record; repeatable.")] = None,
    session: Annotated[str | None, typer.Option(help="Only there; alone: the whole conversation.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Only message, episode, knowledge, fact or task; repeatable."),
    ] = None,
    everything: Annotated[bool, typer.Option("--everything", help="All of the user.")] = False,
    since: Annotated[str | None, typer.Option(help="Only from this ISO 8601 date on.")] = None,
    until: Annotated[str | None, typer.Option(help="Only before this ISO 8601 date.")] = None,
    limit: Annotated[int, typer.Option(help="How many records words may be in; more is refused.")] = 1_000,
    purge: Annotated[
        bool, typer.Option("--purge", help="Overwrite it on disk: it cannot be brought back.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Forget records with everything derived from them; shows what goes and asks first."""
    moments = {"since": parse_moment(since, "since"), "until": parse_moment(until, "until")}
    filters = {name: moment for name, moment in moments.items() if moment is not None}
    if not (query or ids or session or everything or filters):
        fail("say what to forget: words, --id, --session, --since, --until or --everything")
    if as_json and not (yes or dry_run):
        fail("say --yes to forget without being asked, or --dry-run to look only")
    what: dict[str, Any] = {
        "ids": ids or None,
        "session_id": session,
        "kinds": kind or None,
        "everything": everything,
        "filters": filters,
        "purge": purge,
        "limit": limit,
    }
    with opened(db, user) as memory:
        if dry_run or not yes:
            receipt = memory.forget(query, dry_run=True, **what)
            if not as_json:
                stdout.print(plan_view(receipt))
            if not dry_run and (receipt.total or purge):
                _ask(purge)
        if not dry_run:
            receipt = memory.forget(query, **what)
    if as_json:
        print_json(asdict(receipt))
    elif not dry_run:
        stdout.print(forgotten_text(receipt, db, user), soft_wrap=True, markup=False)


def restore(
    ids: Annotated[list[str] | None, typer.Argument(help="What to bring back.")] = None,
    db: Db = AGENT_DB,
    user: User = None,
    at: Annotated[
        str | None, typer.Option(help="All that was forgotten at this moment, as `forget` said.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Bring back what was forgotten, with what went along."""
    if not (ids or at):
        fail("say what to restore: ids, or --at with the moment that forget told")
    with opened(db, user) as memory:
        receipt = memory.restore(ids or None, forgotten_at=parse_moment(at, "at"))
    if as_json:
        print_json(asdict(receipt))
    else:
        stdout.print(restored_view(receipt))


def pin(
    ids: Annotated[list[str], typer.Argument(help="Messages, episodes, knowledge or facts.")],
    db: Db = AGENT_DB,
    user: User = None,
    off: Annotated[bool, typer.Option("--off", help="Unpin instead.")] = False,
    as_json: Json = False,
) -> None:
    """Keep records whatever happens, or with --off no longer."""
    with opened(db, user) as memory:
        count = memory.unpin(ids) if off else memory.pin(ids)
    if as_json:
        print_json({"pinned": 0 if off else count, "unpinned": count if off else 0})
    else:
        stdout.print(f"{count} record{'s' * (count != 1)} {'un' * off}pinned")


def maintain(
    db: Db = AGENT_DB,
    user: Annotated[
        str | None, typer.Option("--user", help="Only this user's memory; of all users by default.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what the forget gate would let go.")
    ] = False,
    threshold: Annotated[float | None, typer.Option(help="Instead of forget_threshold.")] = None,
    min_age_days: Annotated[float | None, typer.Option(help="Instead of forget_min_age_days.")] = None,
    max_episodes: Annotated[int | None, typer.Option(help="Instead of forget_max_episodes.")] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NUMBER", help="Instead of that one of forget_weights; repeatable."),
    ] = None,
    grace_days: Annotated[float | None, typer.Option(help="Instead of forget_grace_days.")] = None,
    min_episodes: Annotated[int | None, typer.Option(help="Instead of consolidation_min_episodes.")] = None,
    as_json: Json = False,
) -> None:
    """Read what is due, end facts that are over, consolidate, and let go of what no longer matters.

    Settings say by which rules; an option holds for this run.
    """
    with told_briefly():
        require_database(db)
        names = [user] if user else users_of(db)
    done: dict[str, Maintained] = {}
    options: dict[str, Any] = {
        "forget_threshold": threshold,
        "forget_min_age_days": min_age_days,
        "forget_max_episodes": max_episodes,
        "forget_weights": dict(map(_weight, weight)) if weight else None,
        "forget_grace_days": grace_days,
        "consolidation_min_episodes": min_episodes,
    }
    with progress_bar(quiet=as_json) as bar:
        users = bar.add_task("users", total=len(names)) if len(names) > 1 else None
        for name in names:
            parts = _Parts(bar, name, stay=len(names) == 1)
            with opened(db, name, **options) as memory:
                done[name] = _maintain(memory, parts, dry_run=dry_run)
                read, state = done[name].reading, memory.reading()
            if read and read.notes and state and state.failures:  # it is not waited for once for each user
                options["reader"] = "off"
            if users is not None:
                bar.advance(users)
    if as_json:
        print_json({name: asdict(one) for name, one in done.items()})
    else:
        _tell_maintained(done)


def _weight(given: str) -> tuple[str, float]:
    name, _, number = given.partition("=")
    try:
        return name.strip(), float(number)
    except ValueError:
        raise typer.BadParameter(f"--weight {given!r} is not like age=0.2") from None


def _tell_maintained(done: dict[str, Maintained]) -> None:
    for name, one in done.items():
        stdout.print(maintained_text(name, one), soft_wrap=True)
        told = [part.notes for part in (one.reading, one.consolidation) if part is not None]
        for note in (note for notes in told for note in notes):
            stderr.print(f"[yellow]note:[/] {escape(note)}", soft_wrap=True)
    if not done:
        stdout.print("nobody has a memory there")


def export(
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    db: Db = AGENT_DB,
    user: User = None,
    form: Annotated[
        str, typer.Option("--format", help="jsonl, which `jiyi import` reads back, or markdown, to read.")
    ] = "jsonl",
    as_json: Json = False,
) -> None:
    """Write everything of a user into a file."""
    if form not in ("jsonl", "markdown"):
        fail(f"--format {form!r} is neither jsonl nor markdown")
    chosen: Literal["jsonl", "markdown"] = "markdown" if form == "markdown" else "jsonl"
    with opened(db, user) as memory, progress_bar(quiet=as_json) as bar:
        row = bar.add_task("records", total=None)
        receipt = memory.export(file, format=chosen, progress=partial(_completed, bar, row))
        bar.update(row, completed=receipt.total, total=receipt.total)
    if as_json:
        print_json({"path": str(receipt.path), "counts": dict(receipt.counts), "bytes": receipt.bytes})
    else:
        stdout.print(f"{receipt.total:,} records, {receipt.bytes:,} bytes in {receipt.path}", soft_wrap=True)


def _ask(purge: bool) -> None:
    """Go on only if the user says so; no answer is none."""
    question = "Overwrite this for good?" if purge else "Forget this?"
    typer.echo(f"{question} [y/N]: ", nl=False, err=True)
    said = sys.stdin.readline()
    if not said:
        typer.echo(err=True)
        fail("nothing was forgotten; say --yes to forget without being asked")
    if said.strip().lower() not in ("y", "yes"):
        fail("nothing was forgotten")


def _maintain(memory: MemoryManager, parts: "_Parts", *, dry_run: bool) -> Maintained:
    done = memory.maintain(dry_run=dry_run, progress=parts)
    pending = 0 if dry_run else memory.stats()["vectors_pending"]
    if pending:
        memory.flush(lambda count: parts("vectors", count, max(count, pending)))
    parts.end()
    return done


class _Parts:
    """Shows how far each part of the maintenance of a user is.

    Of several users each makes room for the next: there may be more of them than lines.
    """

    def __init__(self, bar: Progress, user: str, *, stay: bool) -> None:
        self._bar = bar
        self._user = escape(safe(user))
        self._stay = stay
        self._rows: dict[str, TaskID] = {}

    def __call__(self, part: str, done: int, total: int | None) -> None:
        if part not in self._rows:
            self._rows[part] = self._bar.add_task(f"{self._user}: {part}", total=total)
        self._bar.update(self._rows[part], completed=done, total=total)

    def end(self) -> None:
        """Fill the bars whose end was not known, or take them away."""
        for row in self._rows.values():
            if self._stay:
                self._bar.update(row, total=self._bar.tasks[self._bar.task_ids.index(row)].completed)
            else:
                self._bar.remove_task(row)


def _completed(bar: Progress, row: TaskID, count: int) -> None:
    bar.update(row, completed=count)
