"""`jiyi forget`, `restore`, `pin` and `maintain`: the life of what is remembered."""

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import typer
from rich.console import Group
from rich.text import Text

from jiyi.cli.options import (
    AGENT_DB,
    Anywhere,
    Db,
    Shown,
    db_option,
    on_memory,
    opened,
    parse_moment,
    require_database,
    telling,
)
from jiyi.cli.terminal import Bars, counted, counted_kinds, fail, note, safe, say, short, stdout
from jiyi.databases import list_users
from jiyi.long_term import ForgetReceipt, Maintained, RestoreReceipt
from jiyi.long_term.forgetting.plan import Forgotten
from jiyi.manager import MemoryManager
from jiyi.records import Kind
from jiyi.storage.place import Place

__all__ = ["forget", "maintain", "pin", "restore"]

_SHOWN = 20  # records named of each sort
_WORDS = 80  # characters of one of them


@telling
def forget(
    query: str | None = None,
    db: Anywhere = AGENT_DB,
    user: str | None = None,
    ids: list[str] | None = None,
    session: str | None = None,
    kind: list[str] | None = None,
    everything: bool = False,
    since: str | None = None,
    until: str | None = None,
    limit: int = 1_000,
    purge: bool = False,
    dry_run: bool = False,
    yes: bool = False,
    as_json: bool = False,
) -> Shown:
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
                stdout.print(_plan_view(receipt))
            if not dry_run and (receipt.total or purge):
                _ask(purge)
        if not dry_run:
            receipt = memory.forget(query, **what)
    return asdict(receipt), lambda: None if dry_run else say(_forgotten_text(receipt, db, user))


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


@on_memory
def restore(memory: MemoryManager, ids: list[str] | None = None, at: str | None = None) -> Shown:
    """Bring back what was forgotten, with what went along."""
    if not (ids or at):
        fail("say what to restore: ids, or --at with the moment that forget told")
    receipt = memory.restore(ids or None, forgotten_at=parse_moment(at, "at"))
    return asdict(receipt), lambda: stdout.print(_restored_view(receipt))


@on_memory
def pin(memory: MemoryManager, ids: list[str], off: bool = False) -> Shown:
    """Keep records whatever happens, or with --off no longer."""
    count = memory.unpin(ids) if off else memory.pin(ids)
    told = {"pinned": 0 if off else count, "unpinned": count if off else 0}
    return told, lambda: say(f"{counted(count, 'record')} {'un' * off}pinned")


@telling
def maintain(
    db: Db = AGENT_DB,
    user: str | None = None,
    dry_run: bool = False,
    as_json: bool = False,
) -> Shown:
    """Read what is due, end facts that are over, consolidate, and let go of what no longer matters.

    Settings say by which rules.
    """
    require_database(db)
    names = [user] if user else list_users(db)
    options: dict[str, Any] = {}
    done: dict[str, Maintained] = {}
    several = len(names) > 1
    with Bars(quiet=as_json) as bars:
        if several:
            bars.show("users", 0, len(names))
        for number, name in enumerate(names, 1):
            with opened(db, name, **options) as memory:
                done[name] = _maintain(memory, bars, name, dry_run=dry_run)
                read, state = done[name].reading, memory.reading()
            if read and read.notes and state and state.failures:  # it is not waited for once for each user
                options["reader"] = "off"
            if several:  # there may be more users than lines
                bars.clear(keep="users")
                bars.show("users", number)
        bars.end()
    return {name: asdict(one) for name, one in done.items()}, lambda: _tell_maintained(done)


def _maintain(memory: MemoryManager, bars: Bars, user: str, *, dry_run: bool) -> Maintained:
    def show(part: str, done: int, total: int | None) -> None:
        bars.show(f"{user}: {part}", done, total)

    done = memory.maintain(dry_run=dry_run, progress=show)
    pending = 0 if dry_run else memory.stats()["vectors_pending"]
    if pending:
        memory.flush(lambda count: show("vectors", count, max(count, pending)))
    return done


def _tell_maintained(done: dict[str, Maintained]) -> None:
    for name, one in done.items():
        lines = list(_maintained(one)) or [Text("  nothing to do", "dim")]
        stdout.print(Text("\n").join([Text.assemble((safe(name), "bold"), ":"), *lines]), soft_wrap=True)
        for part in (one.reading, one.consolidation):
            for words in part.notes if part else ():
                note(words)
    if not done:
        say("nobody has a memory there")


def _maintained(one: Maintained) -> Iterator[Text]:
    gate, made, read = one.gate, one.consolidation, one.reading
    did = " would be" if gate.dry_run else ""
    if read and (read.stretches or read.waiting):
        stretches = counted(read.stretches, "stretch")
        yield Text(
            f"  {stretches} of talk read, {read.new:,} new facts, {read.waiting:,} messages still to read"
        )
    if one.expired:
        yield Text(f"  {counted(one.expired, 'fact')} came to an end")
    if made and made.episodes:
        grown = f"{len(made.created):,} new and {len(made.updated):,} grown knowledge"
        yield Text(f"  {counted(made.episodes, 'episode')} went into {grown}")
    if gate.recomputed:
        yield Text(f"  {counted(gate.recomputed, 'episode')}{did} rated again")
    if gate.total:
        yield Text(f"  {counted(gate.total, 'record')}{did} put into the trash")
    for kind, reasons in gate.discarded.items():
        for reason, count in reasons.items():
            yield Text(f"    {counted(count, kind)}: {reason}")
    for item in gate.items[:_SHOWN] if gate.dry_run else ():
        worth = "" if item.importance is None else f" {item.importance:.2f}"
        yield Text(f"    {item.kind}{worth}: {short(item.text, _WORDS)}  {safe(item.id)}", "dim")
    if gate.dry_run and len(gate.items) > _SHOWN:
        yield Text(f"    … {len(gate.items) - _SHOWN:,} more (use --json)", "dim")
    if gate.erased:
        yield Text(f"  {counted(gate.erased, 'record')}{did} dropped from the trash for good")


def _plan_view(receipt: ForgetReceipt) -> Group:
    return Group(
        *_rows(receipt.items, "taken", receipt.counts, "would be forgotten"),
        *(_rows(receipt.items, "changed", receipt.changed, "would be changed") if receipt.changed else ()),
    )


def _forgotten_text(receipt: ForgetReceipt, db: Place, user: str | None) -> str:
    lines = [f"forgotten: {counted_kinds(receipt.counts)}"]
    if receipt.changed:
        lines.append(f"changed, because others went: {counted_kinds(receipt.changed)}")
    if receipt.erased:
        done = "overwritten on disk" if receipt.overwritten else "dropped for good"
        lines.append(f"{done}: {counted(receipt.erased, 'record')}")
    elif receipt.total:
        where = db_option(db) + (f" --user {shlex.quote(user)}" if user else "")
        lines.append(f"bring it back with: jiyi restore --at {receipt.at.isoformat()} {where}")
    return "\n".join(lines)


def _restored_view(receipt: RestoreReceipt) -> Group:
    left = _rows(receipt.items, "left", receipt.left, "left in the trash", "yellow") if receipt.left else ()
    return Group(*_rows(receipt.items, "restored", receipt.counts, "brought back"), *left)


def _rows(
    items: Sequence[Forgotten], action: str, counts: Mapping[Kind, int], what: str, style: str = ""
) -> Iterator[Text]:
    """Yield how many records met with this action, then a line for each of the first."""
    yield Text(f"{counted_kinds(counts)} {what}", style)
    for item in [item for item in items if item.action == action][:_SHOWN]:
        facts, words = f"{item.kind} · {safe(item.why)}: ", short(item.text, _WORDS)
        yield Text.assemble("  ", (facts, "dim"), words, (f"  {safe(item.id)}", "dim"))
    if (total := sum(counts.values())) > _SHOWN:
        yield Text(f"  … {total - _SHOWN:,} more (use --json)", "dim")
