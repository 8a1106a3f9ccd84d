"""What the commands show of receipts: how many, of what, which, and why."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from rich.console import Group, RenderableType
from rich.text import Text

from jiyi.cli.options import db_option
from jiyi.cli.views import safe, short
from jiyi.long_term import ForgetReceipt, Maintained, RestoreReceipt
from jiyi.long_term.forgetting.receipt import Forgotten
from jiyi.records import Kind
from jiyi.storage.place import Place

__all__ = ["counted", "forgotten_text", "maintained_text", "plan_view", "restored_view"]

_SHOWN = 20  # records named of each sort
_WORDS = 80  # characters of one of them
_KINDS = get_args(Kind)
_MANY = {"knowledge": "knowledge"}  # where more than one is not an "s" more


def counted(counts: Mapping[Any, int]) -> str:
    """Return counts by kind in words, "nothing" where there are none."""
    ordered = sorted(counts.items(), key=lambda item: _KINDS.index(item[0]))
    parts = (f"{count:,} {_plural(kind, count)}" for kind, count in ordered if count)
    return ", ".join(parts) or "nothing"


def plan_view(receipt: ForgetReceipt) -> RenderableType:
    """Return what would be forgotten, each with why and its id, and what would change by it."""
    taken = [item for item in receipt.items if item.action == "taken"]
    changed = [item for item in receipt.items if item.action == "changed"]
    parts = [Text(f"{counted(receipt.counts)} would be forgotten"), *_rows(taken, receipt.total)]
    if changed:
        parts.append(Text(f"{counted(receipt.changed)} would be changed"))
        parts += _rows(changed, sum(receipt.changed.values()))
    return Group(*parts)


def forgotten_text(receipt: ForgetReceipt, db: Place, user: str | None) -> str:
    """Return what was forgotten, and the command that brings it back."""
    lines = [f"forgotten: {counted(receipt.counts)}"]
    if receipt.changed:
        lines.append(f"changed, because others went: {counted(receipt.changed)}")
    if receipt.erased:
        lines.append(f"overwritten on disk: {receipt.erased:,} {_plural('record', receipt.erased)}")
    elif receipt.total:
        where = db_option(db) + (f" --user {shlex.quote(user)}" if user else "")
        lines.append(f"bring it back with: jiyi restore --at {receipt.at.isoformat()} {where}")
    return "\n".join(lines)


def restored_view(receipt: RestoreReceipt) -> RenderableType:
    """Return what is there again, and what stayed in the trash and why."""
    back = [item for item in receipt.items if item.action == "restored"]
    left = [item for item in receipt.items if item.action == "left"]
    parts = [Text(f"{counted(receipt.counts)} brought back"), *_rows(back, receipt.total)]
    if left:
        parts.append(Text(f"{counted(receipt.left)} left in the trash", "yellow"))
        parts += _rows(left, sum(receipt.left.values()))
    return Group(*parts)


def maintained_text(user: str, one: Maintained) -> Text:
    """Return what maintenance did for a user, or would do, where it was anything."""
    lines = list(_maintained(one)) or [Text("  nothing to do", "dim")]
    return Text("\n").join([Text.assemble((safe(user), "bold"), ":"), *lines])


def _maintained(one: Maintained) -> Iterator[Text]:
    gate, made = one.gate, one.consolidation
    did = " would be" if gate.dry_run else ""
    if one.reading is not None and (one.reading.stretches or one.reading.waiting):
        read = f"{one.reading.stretches:,} {_plural('stretch', one.reading.stretches)} of talk read"
        yield Text(f"  {read}, {one.reading.new:,} new facts, {one.reading.waiting:,} messages still to read")
    if one.expired:
        yield Text(f"  {one.expired:,} {_plural('fact', one.expired)} came to an end")
    if made is not None and made.episodes:
        grown = f"{len(made.created):,} new and {len(made.updated):,} grown knowledge"
        yield Text(f"  {made.episodes:,} {_plural('episode', made.episodes)} went into {grown}")
    if gate.recomputed:
        yield Text(f"  {gate.recomputed:,} {_plural('episode', gate.recomputed)}{did} rated anew")
    if gate.total:
        yield Text(f"  {gate.total:,} {_plural('record', gate.total)}{did} put into the trash")
    for kind, reasons in gate.discarded.items():
        for reason, count in reasons.items():
            yield Text(f"    {count:,} {_plural(kind, count)}: {reason}")
    for item in gate.items[:_SHOWN] if gate.dry_run else ():
        worth = "" if item.importance is None else f" {item.importance:.2f}"
        yield Text(f"    {item.kind}{worth}: {short(item.text, _WORDS)}  {safe(item.id)}", "dim")
    if gate.dry_run and len(gate.items) > _SHOWN:
        yield Text(f"    … {len(gate.items) - _SHOWN:,} more (use --json)", "dim")
    if gate.erased:
        yield Text(f"  {gate.erased:,} {_plural('record', gate.erased)}{did} dropped from the trash for good")


def _rows(items: Sequence[Forgotten], total: int) -> list[Text]:
    """Return a line for each record, cut to a number of records."""
    rows = [_row(item) for item in items[:_SHOWN]]
    if total > _SHOWN:
        rows.append(Text(f"  … {total - _SHOWN:,} more (use --json)", "dim"))
    return rows


def _row(item: Forgotten) -> Text:
    words = short(item.text, _WORDS)
    return Text.assemble(
        "  ", (f"{item.kind} · {safe(item.why)}: ", "dim"), words, (f"  {safe(item.id)}", "dim")
    )


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else _MANY.get(noun, f"{noun}s")
