"""One import, whatever wrote the file: recognised, read, and put into a memory."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from pathlib import Path

from jiyi.errors import ImportFailed
from jiyi.importers.entries import Entry, LeftOut, Maker
from jiyi.importers.mem0_client import Mem0Client
from jiyi.importers.recognise import is_no_file, read_foreign
from jiyi.records import Message, Record, Scope
from jiyi.storage import Store
from jiyi.storage.rows import kind_of
from jiyi.storage.transfer.conversations import read_conversations
from jiyi.storage.transfer.export import is_export, read_export
from jiyi.storage.transfer.importer import ImportReceipt, import_file, known_keys, put_entries
from jiyi.storage.transfer.lines import Found, Rejected

__all__ = ["import_path", "is_no_file"]


def import_path(
    store: Store,
    place: Path | str | Mem0Client,
    scope: Scope,
    *,
    prepare: Callable[[Message], Message],
    learn: Callable[[Sequence[Message]], object],
    zone: tzinfo = UTC,
    session_id: str | None = None,
    progress: Callable[[int], None] | None = None,
    dry_run: bool = False,
) -> ImportReceipt:
    """Import what jiyi wrote, conversations, or what another program exported or keeps.

    Records get ids of their ids there, so importing again adds what is new and changes nothing. Facts are
    read from messages as when they are saved.

    Args:
        store: the records.
        place: a file, a folder, the URL of a PostgreSQL database of LangGraph, or see `read_mem0_client`.
        scope: whose the records become.
        prepare, learn, progress: see `import_file`.
        zone: of dates that name none.
        session_id: of messages in files of jiyi's own formats that name none.
        dry_run: count what would go in, and write nothing.

    Raises:
        ImportFailed: it cannot be read at all.
        StorageError, ServerError: the database cannot take it, mem0 fails; what went in before stays.
    """
    left = Counter[str]()
    foreign = read_foreign(place, lambda source: Maker(source=source, scope=scope, zone=zone))
    if not isinstance(place, Path) or foreign is not None:
        entries = _once(_told(str(place), foreign or iter(())), left)
    elif dry_run and is_export(place):
        entries = read_export(place, scope.user_id)
    elif dry_run:
        entries = read_conversations(place, scope, zone=zone, session_id=session_id)
    else:
        return import_file(
            store,
            place,
            scope,
            zone=zone,
            session_id=session_id,
            prepare=prepare,
            learn=learn,
            progress=progress,
        )

    def put(batch: Sequence[Found]) -> None:
        known = set() if dry_run else known_keys(store, batch)
        new: list[Record] = [one.record for one in batch if (kind_of(one.record), one.record.id) not in known]
        if new and not dry_run:
            learn([record for record in store.put(new) if isinstance(record, Message)])

    receipt = put_entries(store, put, entries, prepare=prepare, progress=progress)
    return replace(receipt, left_out=dict(left))


def _told(name: str, entries: Iterator[Entry]) -> Iterator[Entry]:
    """Give entries; where reading fails after some of them, the rest is rejected."""
    seen = False
    try:
        for entry in entries:
            yield entry
            seen = True
    except ImportFailed as error:
        if not seen:
            raise
        yield Rejected.because(Path(name).name, f"the rest is not read: {error}")


def _once(entries: Iterator[Entry], left: Counter[str]) -> Iterator[Found | Rejected]:
    """Give records, each id once; count what is left out."""
    seen = set[str]()
    for entry in entries:
        if isinstance(entry, LeftOut):
            left[entry.what] += entry.count
        elif isinstance(entry, Rejected):
            yield entry
        elif entry.record.id in seen:
            left["entries whose id was there before"] += 1
        else:
            seen.add(entry.record.id)
            yield entry
