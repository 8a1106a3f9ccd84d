"""`jiyi copy` and `jiyi reembed`: to another database, and to another embedder."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.progress import Progress, TaskID

from jiyi.cli.options import (
    AGENT_DB,
    Db,
    Json,
    db_option,
    fail,
    print_json,
    progress_bar,
    require_database,
    stderr,
    stdout,
    told_briefly,
)
from jiyi.cli.receipts import counted
from jiyi.cli.views import safe
from jiyi.errors import SettingsError
from jiyi.settings import load_settings
from jiyi.storage.backend import open_backend
from jiyi.storage.place import Place, locate
from jiyi.storage.transfer.copy import CopyReceipt, copy_memory
from jiyi.wiring import open_memory

__all__ = ["copy", "reembed"]


def _place(given: str) -> Place:
    try:
        return locate(given)
    except SettingsError as error:
        raise typer.BadParameter(str(error)) from None


def copy(
    source: Annotated[
        Place,
        typer.Argument(metavar="FROM", parser=_place, help="A file, or postgresql://…; it stays."),
    ],
    target: Annotated[
        Place, typer.Argument(metavar="TO", parser=_place, help="Another one; what is missing is made.")
    ],
    user: Annotated[
        list[str] | None, typer.Option("--user", help="Only this user's memory; repeatable.")
    ] = None,
    without_trash: Annotated[bool, typer.Option("--without-trash", help="Leave the trash behind.")] = False,
    as_json: Json = False,
) -> None:
    """Copy whole memories to another database, with vectors and trash, and verify the copy.

    Run it again after a break, or when the source changed meanwhile. Exit code 1 where something
    was left out or differs.
    """
    with told_briefly():
        require_database(source)
        if _resolved(source) == _resolved(target):
            fail(f"{source} is both FROM and TO; name two databases")
        settings = load_settings()
        here = open_backend(source, settings)
        try:
            there = open_backend(target, settings)
            try:
                with progress_bar(quiet=as_json) as bar:
                    receipt = copy_memory(
                        here, there, users=user, trash=not without_trash, progress=_rows(bar)
                    )
            finally:
                there.store.close()
        finally:
            here.store.close()
    if as_json:
        print_json(asdict(receipt) | {"checked": _checked(receipt)})
    else:
        _tell(receipt, target)
    if receipt.conflicting or receipt.changed:
        raise typer.Exit(1)


def reembed(db: Db = AGENT_DB, as_json: Json = False) -> None:
    """Finish pending vectors, of all users; if there are none, make every vector anew.

    With another embedder in the settings all are made anew, too. The memory is searched by the old
    vectors until the new ones are whole. Run it again after a break.
    """
    with told_briefly():
        require_database(db)
        with (
            open_memory(db, background=False, check_embedder=False) as memory,
            progress_bar(quiet=as_json) as bar,
        ):
            row = bar.add_task("vectors", total=None)
            done = memory.reembed(partial(_advance, bar, row))
            bar.update(row, total=done)
    if as_json:
        print_json({"embedded": done})
    else:
        stdout.print(f"{done} records embedded")


def _advance(bar: Progress, row: TaskID, count: int) -> None:
    bar.update(row, completed=count)


def _rows(bar: Progress) -> Callable[[str, int, int], None]:
    """Return what shows each kind of work in a row of its own, from its beginning on."""
    rows: dict[str, TaskID] = {}

    def told(what: str, done: int, total: int) -> None:
        if what not in rows:
            rows[what] = bar.add_task(what, total=total)
        bar.update(rows[what], completed=done, total=total)

    return told


def _resolved(place: Place) -> object:
    return place.url if place.path is None else place.path.expanduser().resolve()


def _checked(receipt: CopyReceipt) -> dict[str, Any]:
    return {part: {"count": seen.count, "digest": seen.hex} for part, seen in receipt.checked.items()}


def _tell(receipt: CopyReceipt, target: Place) -> None:
    say = partial(stdout.print, soft_wrap=True)
    say(f"{_counted(receipt)} copied, {receipt.known:,} were there already, {receipt.vectors:,} got vectors")
    for part, seen in receipt.checked.items():
        if seen.count:
            say(f"{seen.count:>10,}  {part:<10} {seen.hex}")
    note = partial(stderr.print, soft_wrap=True)
    for conflict in receipt.conflicts:
        what = f"{conflict.part} {conflict.id} of {conflict.user_id}: {conflict.why}"
        note(f"[yellow]left out[/] {escape(safe(what))}")
    if receipt.conflicting > len(receipt.conflicts):
        note(f"[yellow]left out[/] {receipt.conflicting - len(receipt.conflicts):,} more")
    if receipt.embedder is None and any(receipt.added.values()):
        note(
            f"[yellow]note:[/] no vectors were taken over, the embedders differ or there is none; "
            f"make what is missing: jiyi reembed {escape(db_option(target))}"
        )
    if receipt.extra:
        note(f"[yellow]note:[/] {receipt.extra:,} more records of them are only in {escape(str(target))}")
    for user in receipt.changed:
        note(f"[yellow]changed[/] the memory of {escape(safe(user))} meanwhile; run the command again")


def _counted(receipt: CopyReceipt) -> str:
    kinds = {part: count for part, count in receipt.added.items() if part != "trash" and count}
    trash = receipt.added.get("trash", 0)
    words = counted(kinds) if kinds else "0 records"
    return f"{words} and {trash:,} in the trash" if trash else words
