"""Import a file of jiyi or another program: recognise it, read it, and store its records."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from functools import partial
from pathlib import Path

from jiyi.errors import ImportFailed
from jiyi.importers.entries import Entry, LeftOut, RecordMaker
from jiyi.importers.mem0_client import Mem0Client
from jiyi.importers.recognise import is_remote_source, read_foreign
from jiyi.records import Message, Scope
from jiyi.storage import Store
from jiyi.storage.transfer.conversations import read_conversations
from jiyi.storage.transfer.export import is_export, read_export
from jiyi.storage.transfer.importer import Put, put_all, put_exported, put_messages, put_new
from jiyi.storage.transfer.lines import Found, ImportReceipt, Rejected

__all__ = ["import_path", "is_remote_source"]


def import_path(
    store: Store,
    place: Path | str | Mem0Client,
    scope: Scope,
    *,
    prepare: Callable[[Message], Message],
    learn: Callable[[Sequence[Message]], object] = lambda _: None,
    zone: tzinfo = UTC,
    session_id: str | None = None,
    progress: Callable[[int], None] | None = None,
    dry_run: bool = False,
) -> ImportReceipt:
    """Import an export of jiyi, conversations, or the data of another program.

    The records of an export become those of the scope's user and keep their agent and session; records
    whose id is stored already are left unchanged. Records of other programs get ids derived from their
    ids there, so importing again adds only what is new.

    Args:
        store: where the records go.
        place: a file, a folder, the URL of a PostgreSQL database of LangGraph, or see `read_mem0_client`.
        scope: the user of the records, and the agent of conversations.
        prepare: completes messages before they are stored, such as by counting tokens.
        learn: called with stored messages, in their transaction; not for an export, which has its own facts.
        zone: of dates without one.
        session_id: of messages in files of jiyi's own formats without one.
        progress: called with the number of entries seen after each batch.
        dry_run: count what would be added, and write nothing.

    Raises:
        ImportFailed: it cannot be read, or is an export of a newer jiyi.
        StorageError, ServerError: the database or mem0 fails; what was added stays, and importing again goes
            on from there.
    """
    left_out = Counter[str]()
    foreign = read_foreign(place, lambda source: RecordMaker(source=source, scope=scope, zone=zone))
    entries: Iterable[Found | Rejected]
    put: Put
    if not isinstance(place, Path) or foreign is not None:
        read = _reject_rest(str(place), foreign or iter(()))
        entries, put = _drop_duplicates(read, left_out), partial(put_new, store, learn)
    elif is_export(place):
        entries, put = read_export(place, scope.user_id), partial(put_exported, store)
    else:
        entries = read_conversations(place, scope, zone=zone, session_id=session_id)
        put = partial(put_messages, store, learn)
    receipt = put_all(store, len if dry_run else put, entries, prepare, progress)
    return replace(receipt, left_out=dict(left_out))


def _reject_rest(name: str, entries: Iterator[Entry]) -> Iterator[Entry]:
    """Yield entries; if reading fails after the first, end with a rejection of the rest."""
    seen = False
    try:
        for entry in entries:
            yield entry
            seen = True
    except ImportFailed as error:
        if not seen:
            raise
        yield Rejected.because(Path(name).name, f"the rest is not read: {error}")


def _drop_duplicates(entries: Iterator[Entry], left_out: Counter[str]) -> Iterator[Found | Rejected]:
    """Yield the first record of each id and all rejections; count what is left out."""
    seen = set[str]()
    for entry in entries:
        if isinstance(entry, LeftOut):
            left_out[entry.what] += entry.count
        elif isinstance(entry, Rejected):
            yield entry
        elif entry.record.id in seen:
            left_out["entries whose id was there before"] += 1
        else:
            seen.add(entry.record.id)
            yield entry
