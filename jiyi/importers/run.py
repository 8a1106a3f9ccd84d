"""One import of any program's file: recognised, read, and put into a memory."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from functools import partial
from pathlib import Path

from jiyi.errors import ImportFailed
from jiyi.importers.entries import Entry, LeftOut, Maker
from jiyi.importers.mem0_client import Mem0Client
from jiyi.importers.recognise import is_no_file, read_foreign
from jiyi.records import Message, Scope
from jiyi.storage import Store
from jiyi.storage.transfer.conversations import read_conversations
from jiyi.storage.transfer.export import is_export, read_export
from jiyi.storage.transfer.importer import Put, put_all, put_exported, put_messages, put_new
from jiyi.storage.transfer.lines import Found, ImportReceipt, Rejected

__all__ = ["import_path", "is_no_file"]


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
    """Import what jiyi wrote, conversations, or what another program exported or keeps.

    The records of an export become those of the scope's user, each with the agent and session it had; an
    id that is known already is left alone, whatever it holds now. Records of other programs get ids of
    their ids there, so importing again adds what is new and changes nothing.

    Args:
        store: where the records go.
        place: a file, a folder, the URL of a PostgreSQL database of LangGraph, or see `read_mem0_client`.
        scope: whose the records become; its agent is the agent of the conversations.
        prepare: the last touch of messages before storing, such as counting tokens.
        learn: called with stored messages, in their transaction; an export brings its facts along.
        zone: of dates that name none.
        session_id: of messages in files of jiyi's own formats that name none.
        progress: called with the number of entries seen after each batch.
        dry_run: count what would go in, and write nothing.

    Raises:
        ImportFailed: it cannot be read at all, or is an export of a newer jiyi.
        StorageError, ServerError: the database cannot take it, mem0 fails; what went in before stays, and
            importing again goes on from there.
    """
    left = Counter[str]()
    foreign = read_foreign(place, lambda source: Maker(source=source, scope=scope, zone=zone))
    entries: Iterable[Found | Rejected]
    put: Put
    if not isinstance(place, Path) or foreign is not None:
        entries, put = _once(_told(str(place), foreign or iter(())), left), partial(put_new, store, learn)
    elif is_export(place):
        entries, put = read_export(place, scope.user_id), partial(put_exported, store)
    else:
        entries = read_conversations(place, scope, zone=zone, session_id=session_id)
        put = partial(put_messages, store, learn)
    receipt = put_all(store, len if dry_run else put, entries, prepare, progress)
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
