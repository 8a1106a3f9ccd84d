"""`jiyi import`, `export`, `copy`, `repair` and `reembed`: move records in, out and between databases."""

from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from jiyi.cli.options import (
    DEFAULT_DB,
    Db,
    DbOrServer,
    Output,
    db_option,
    json_command,
    memory_command,
    open_user_memory,
    parse_place,
    require_database,
)
from jiyi.cli.terminal import ProgressBars, count_kinds, echo, fail, note, plural, tally, warn
from jiyi.client.memory import RemoteMemory
from jiyi.errors import ImportFailed
from jiyi.exporters import WRITERS, Exported, export_for
from jiyi.importers.run import is_remote_source
from jiyi.manager import MemoryManager
from jiyi.records import Kind
from jiyi.settings import load_settings
from jiyi.storage import ExportReceipt, ImportReceipt, Rejected
from jiyi.storage.backend import open_backend
from jiyi.storage.place import Place
from jiyi.storage.transfer.copy import CopyReceipt, copy_memory
from jiyi.storage.transfer.export import is_export
from jiyi.storage.transfer.files import path_to_write
from jiyi.storage.transfer.repair import repair_file
from jiyi.telling import mask
from jiyi.wiring import open as open_memory

_MAX_REJECTIONS = 20  # shown


@json_command
def import_(
    files: list[str],
    db: DbOrServer = DEFAULT_DB,
    user: str | None = None,
    session: str | None = None,
    vectors: bool = True,
    dry_run: bool = False,
    as_json: bool = False,
) -> Output:
    """Import conversations or an export; bad lines are reported, and nothing is imported twice.

    mem0's API, such as mem0://api.mem0.ai, is read with the key in MEM0_API_KEY.
    """
    for file in files:
        if not (is_remote_source(file) or Path(file).exists()):
            raise typer.BadParameter(f"{mask(file)} does not exist", param_hint="FILES")
    with open_user_memory(db, user, create=True) as memory, ProgressBars(quiet=as_json) as bars:
        receipts = [_import_file(memory, file, session, dry_run, bars) for file in files]
        pending = 0 if dry_run else memory.stats()["vectors_pending"]
        if vectors and pending and not isinstance(memory, RemoteMemory):
            memory.flush(partial(bars.show, "vectors", total=pending))
    added, known = sum(r.added for r in receipts), sum(r.known for r in receipts)
    rejected = [asdict(rejection) for receipt in receipts for rejection in receipt.rejected]
    left_out = sum((Counter(r.left_out) for r in receipts), Counter[str]())
    output = {"added": added, "known": known, "rejected": rejected, "left_out": dict(left_out)}
    counts = sum((Counter(r.counts) for r in receipts), Counter[Kind]())

    def show() -> None:
        for rejection in rejected[:_MAX_REJECTIONS]:
            warn("rejected", f"{rejection['where']}: {rejection['reason']}")
        if len(rejected) > _MAX_REJECTIONS:
            note(f"{len(rejected) - _MAX_REJECTIONS:,} more were rejected; --json lists them all")
        what = count_kinds(counts) if set(counts) - {"message"} else plural(added, "message")
        echo(f"{what} {'would be ' * dry_run}added, {known} were there already, {len(rejected)} rejected")
        if left_out:
            note("left out: " + ", ".join(tally(count, what) for what, count in left_out.most_common()))

    return output, show, any(r.rejected and not r.added + r.known for r in receipts)


def _import_file(
    memory: MemoryManager, file: str, session: str | None, dry_run: bool, bars: ProgressBars
) -> ImportReceipt:
    """Import a file; one that cannot be imported becomes a rejection, so that the others go on."""
    name = mask(file).rstrip("/").rpartition("/")[2]
    show = partial(bars.show, f"{name}: records")
    show(0)
    try:
        return memory.import_(file, session_id=session, dry_run=dry_run, progress=show)
    except ImportFailed as error:
        return ImportReceipt(added=0, known=0, rejected=(Rejected(where=name, reason=str(error)),))
    finally:
        bars.end()


@memory_command
def export(
    memory: MemoryManager, file: Path, to: str = "jsonl", force: bool = False, as_json: bool = False
) -> Output:
    """Write everything of a user into a file, or the part that another program can import."""
    if to not in (formats := ("jsonl", "markdown", *WRITERS)):
        fail(f"--to {to!r} is none of {', '.join(formats)}")
    exists = path_to_write(file).is_file() and file.stat().st_size
    if exists and not force and not (to == "jsonl" and is_export(file)):
        fail(f"{file} exists and would be replaced; name another file, or say --force")
    with ProgressBars(quiet=as_json) as bars:
        show = partial(bars.show, "records")
        show(0)
        receipt: ExportReceipt | Exported
        if to in WRITERS:
            receipt = export_for(to, memory, file, progress=show)
        else:
            receipt = memory.export(file, format=to, progress=show)  # type: ignore[arg-type]
        total = sum(receipt.counts.values())
        show(total, total)

    def tell() -> None:
        echo(f"{plural(total, 'record')}, {receipt.bytes:,} bytes in {receipt.path}")
        if isinstance(receipt, ExportReceipt) and receipt.damaged:
            echo(f"{plural(receipt.damaged, 'damaged record')} left out; see jiyi doctor")
        for reason, count in receipt.left_out.items() if isinstance(receipt, Exported) else ():
            echo(f"{count:,} of them left out: {reason}")

    return {**asdict(receipt), "path": str(receipt.path)}, tell


@json_command
def repair(source: Path, target: Path) -> Output:
    """Save every intact record of a damaged file into a new one, and count the others."""
    receipt = repair_file(source, target, load_settings())

    def show() -> None:
        kinds = {kind: count for kind, count in receipt.saved.items() if kind != "trash"}
        echo(f"saved into {target}: {count_kinds(kinds)}, {receipt.saved['trash']:,} in the trash")
        lost = (plural(receipt.damaged, "damaged record"), plural(receipt.unreadable, "place"))
        echo(f"lost: {', '.join(lost)} that cannot be read")
        for line in receipt.refused:
            echo(f"refused: {line}")

    return asdict(receipt), show, bool(receipt.damaged or receipt.unreadable or receipt.refused)


@json_command
def copy(
    source: Annotated[
        Place, typer.Argument(metavar="FROM", parser=parse_place, help="A file, or postgresql://…; it stays.")
    ],
    target: Annotated[
        Place, typer.Argument(metavar="TO", parser=parse_place, help="Another one; what is missing is made.")
    ],
    user: list[str] | None = None,
    without_trash: bool = False,
    as_json: bool = False,
) -> Output:
    """Copy whole memories to another database, with vectors, trash and API keys, and verify the copy.

    Run it again after a break. Nobody may write meanwhile; of each user the target holds nothing or a part
    of the same. Exit code 1 where it holds anything else of them.
    """
    require_database(source)
    if _location(source) == _location(target):
        fail(f"{source} is both FROM and TO; name two databases")
    with ExitStack() as stack:
        backends = []
        for place in (source, target):
            backends.append(open_backend(place, load_settings()))
            stack.callback(backends[-1].store.close)
        bars = stack.enter_context(ProgressBars(quiet=as_json))
        receipt = copy_memory(*backends, users=user, trash=not without_trash, progress=bars.show)
    checked = {part: {"count": check.count, "digest": check.hex} for part, check in receipt.checked.items()}
    return asdict(receipt) | {"checked": checked}, lambda: _print_copy(receipt, target)


def _location(place: Place) -> object:
    return place.url if place.path is None else place.path.expanduser().resolve()


def _print_copy(receipt: CopyReceipt, target: Place) -> None:
    kinds = {part: count for part, count in receipt.added.items() if part != "trash" and count}
    added = count_kinds(kinds) if kinds else "0 records"
    added += f", {plural(receipt.keys, 'API key')}" if receipt.keys else ""
    added += f" and {trash:,} in the trash" if (trash := receipt.added.get("trash")) else ""
    echo(f"{added} copied, {receipt.known:,} were there already, {receipt.vectors:,} got vectors")
    for part, check in receipt.checked.items():
        if check.count:
            echo(f"{check.count:>10,}  {part:<10} {check.hex}")
    if receipt.embedder is None and any(receipt.added.values()):
        hint = f"make what is missing: jiyi reembed {db_option(target)}"
        note(f"no vectors were taken over, the embedders differ or there is none; {hint}")


@json_command
def reembed(db: Db = DEFAULT_DB, as_json: bool = False) -> Output:
    """Finish pending vectors, of all users; if there are none, make every vector again.

    With another embedder in the settings all are made again, too. Searches use the old vectors until the
    new ones are complete. Run it again after an interruption.
    """
    require_database(db)
    opened = open_memory(db, background=False, check_embedder=False)
    with opened as memory, ProgressBars(quiet=as_json) as bars:
        show = partial(bars.show, "vectors")
        show(0)
        done = memory.reembed(show)
        show(done, done)
    return {"embedded": done}, lambda: echo(f"{plural(done, 'record')} embedded")
