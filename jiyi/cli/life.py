"""`jiyi forget`, `restore`, `pin` and `maintain`: the lifecycle of records."""

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import typer
from rich.console import Group
from rich.text import Text

from jiyi.cli.options import (
    DEFAULT_DB,
    Db,
    DbOrServer,
    Output,
    db_option,
    json_command,
    memory_command,
    open_user_memory,
    parse_moment,
    require_database,
)
from jiyi.cli.terminal import ProgressBars, count_kinds, echo, fail, note, plural, safe, shorten, stdout
from jiyi.databases import list_users
from jiyi.long_term import ForgetReceipt, Maintained
from jiyi.long_term.forgetting.plan import Forgotten
from jiyi.manager import MemoryManager
from jiyi.records import Kind
from jiyi.storage.place import Place

_MAX_ROWS = 20  # records shown per action
_MAX_CHARS = 80  # of the text of a record


@json_command
def forget(
    query: str | None = None,
    db: DbOrServer = DEFAULT_DB,
    user: str | None = None,
    ids: list[str] | None = None,
    session: str | None = None,
    kind: list[str] | None = None,
    everything: bool = False,
    speaker: str | None = None,
    since: str | None = None,
    until: str | None = None,
    limit: int = 1_000,
    purge: bool = False,
    dry_run: bool = False,
    yes: bool = False,
    as_json: bool = False,
) -> Output:
    """Forget records with everything derived from them; show what goes and ask first."""
    bounds = {"since": since, "until": until}
    filters: Any = {name: parse_moment(text, name) for name, text in bounds.items() if text is not None}
    if speaker is not None:
        filters["speaker"] = speaker
    if not (query or ids or session or everything or filters):
        fail("say what to forget: words, --id, --session, --speaker, --since, --until or --everything")
    if as_json and not (yes or dry_run):
        fail("say --yes to forget without being asked, or --dry-run to look only")
    options: dict[str, Any] = {"ids": ids or None, "session_id": session, "kinds": kind or None}
    options |= {"everything": everything, "filters": filters, "purge": purge, "limit": limit}
    with open_user_memory(db, user) as memory:
        if dry_run or not yes:
            receipt = memory.forget(query, dry_run=True, **options)
            if not as_json:
                stdout.print(Group(*_rows(receipt.items, "taken", receipt.counts, "would be forgotten")))
                if receipt.changed:
                    stdout.print(Group(*_rows(receipt.items, "changed", receipt.changed, "would be changed")))
            if not dry_run and (receipt.total or purge):
                _confirm(purge)
        if not dry_run:
            receipt = memory.forget(query, **options)
    return asdict(receipt), lambda: None if dry_run else echo(_forgotten_text(receipt, db, user))


def _confirm(purge: bool) -> None:
    """Ask for confirmation; end the command without it, also at the end of the input."""
    typer.echo(f"{'Overwrite this for good?' if purge else 'Forget this?'} [y/N]: ", nl=False, err=True)
    answer = sys.stdin.readline()
    if not answer:
        typer.echo(err=True)
        fail("nothing was forgotten; say --yes to forget without being asked")
    if answer.strip().lower() not in ("y", "yes"):
        fail("nothing was forgotten")


@memory_command
def restore(memory: MemoryManager, ids: list[str] | None = None, at: str | None = None) -> Output:
    """Bring back what was forgotten, with what was forgotten along with it."""
    if not (ids or at):
        fail("say what to restore: ids, or --at with the moment that `jiyi forget` printed")
    receipt = memory.restore(ids or None, forgotten_at=parse_moment(at, "at"))
    left = _rows(receipt.items, "left", receipt.left, "left in the trash", "yellow") if receipt.left else ()
    rows = (*_rows(receipt.items, "restored", receipt.counts, "brought back"), *left)
    return asdict(receipt), lambda: stdout.print(Group(*rows))


@memory_command
def pin(memory: MemoryManager, ids: list[str], off: bool = False) -> Output:
    """Protect records from the forget gate and keep messages in their window; --off undoes it."""
    count = memory.unpin(ids) if off else memory.pin(ids)
    output = {"pinned": 0 if off else count, "unpinned": count if off else 0}
    return output, lambda: echo(f"{plural(count, 'record')} {'un' * off}pinned")


@json_command
def maintain(
    db: Db = DEFAULT_DB, user: str | None = None, dry_run: bool = False, as_json: bool = False
) -> Output:
    """Read what is due, end facts that are over, consolidate, and remove what no longer matters.

    Settings say by which rules.
    """
    require_database(db)
    names = [user] if user else list_users(db)
    options: dict[str, Any] = {}
    done: dict[str, Maintained] = {}
    with ProgressBars(quiet=as_json) as bars:
        if several := len(names) > 1:
            bars.show("users", 0, len(names))
        for number, name in enumerate(names, 1):
            with open_user_memory(db, name, **options) as memory:
                done[name] = _maintain(memory, bars, name, dry_run=dry_run)
                read, state = done[name].reading, memory.reading()
            if read and read.notes and state and state.failures:  # do not wait for it again for every user
                options["reader"] = "off"
            if several:  # there may be more users than lines
                bars.clear(keep="users")
                bars.show("users", number)
        bars.end()
    return {name: asdict(result) for name, result in done.items()}, lambda: _print_maintenance(done)


def _maintain(memory: MemoryManager, bars: ProgressBars, user: str, *, dry_run: bool) -> Maintained:
    def show(part: str, done: int, total: int | None) -> None:
        bars.show(f"{user}: {part}", done, total)

    done = memory.maintain(dry_run=dry_run, progress=show)
    if pending := 0 if dry_run else memory.stats()["vectors_pending"]:
        memory.flush(lambda count: show("vectors", count, pending))
    return done


def _print_maintenance(done: dict[str, Maintained]) -> None:
    for name, result in done.items():
        lines = list(_maintenance_lines(result)) or [Text("  nothing to do", "dim")]
        stdout.print(Text("\n").join([Text.assemble((safe(name), "bold"), ":"), *lines]), soft_wrap=True)
        for part in (result.reading, result.consolidation):
            for reading_note in part.notes if part else ():
                note(reading_note)
    if not done:
        echo("nobody has a memory there")


def _maintenance_lines(result: Maintained) -> Iterator[Text]:
    gate, consolidation, reading = result.gate, result.consolidation, result.reading
    tense = " would be" if gate.dry_run else ""
    if reading and (reading.stretches or reading.waiting):
        read = f"{plural(reading.stretches, 'stretch')} of talk read, {plural(reading.new, 'new fact')}"
        yield Text(f"  {read}, {plural(reading.waiting, 'message')} still to read")
    if result.expired:
        yield Text(f"  {plural(result.expired, 'fact')} came to an end")
    if consolidation and consolidation.episodes:
        grown = f"{len(consolidation.created):,} new and {len(consolidation.updated):,} grown knowledge"
        yield Text(f"  {plural(consolidation.episodes, 'episode')} went into {grown}")
    if gate.recomputed:
        yield Text(f"  {plural(gate.recomputed, 'episode')}{tense} rated again")
    if gate.total:
        yield Text(f"  {plural(gate.total, 'record')}{tense} put into the trash")
    for kind, reasons in gate.discarded.items():
        for reason, count in reasons.items():
            yield Text(f"    {plural(count, kind)}: {reason}")
    for item in gate.items[:_MAX_ROWS] if gate.dry_run else ():
        worth = "" if item.importance is None else f" {item.importance:.2f}"
        yield Text(f"    {item.kind}{worth}: {shorten(item.text, _MAX_CHARS)}  {safe(item.id)}", "dim")
    if gate.dry_run and len(gate.items) > _MAX_ROWS:
        yield Text(f"    … {len(gate.items) - _MAX_ROWS:,} more (use --json)", "dim")
    if gate.erased:
        yield Text(f"  {plural(gate.erased, 'record')}{tense} dropped from the trash for good")


def _forgotten_text(receipt: ForgetReceipt, db: Place, user: str | None) -> str:
    lines = [f"forgotten: {count_kinds(receipt.counts)}"]
    if receipt.changed:
        lines.append(f"changed, because others went: {count_kinds(receipt.changed)}")
    if receipt.erased:
        done = "overwritten on disk" if receipt.overwritten else "dropped for good"
        lines.append(f"{done}: {plural(receipt.erased, 'record')}")
    elif receipt.total:
        where = db_option(db) + (f" --user {shlex.quote(user)}" if user else "")
        lines.append(f"bring it back with: jiyi restore --at {receipt.at.isoformat()} {where}")
    return "\n".join(lines)


def _rows(
    items: Sequence[Forgotten], action: str, counts: Mapping[Kind, int], label: str, style: str = ""
) -> Iterator[Text]:
    """Yield the count of records with this action, then a line for each of the first."""
    yield Text(f"{count_kinds(counts)} {label}", style)
    for item in [item for item in items if item.action == action][:_MAX_ROWS]:
        facts, words = f"{item.kind} · {safe(item.why)}: ", shorten(item.text, _MAX_CHARS)
        yield Text.assemble("  ", (facts, "dim"), words, (f"  {safe(item.id)}", "dim"))
    if (total := sum(counts.values())) > _MAX_ROWS:
        yield Text(f"  … {total - _MAX_ROWS:,} more (use --json)", "dim")
