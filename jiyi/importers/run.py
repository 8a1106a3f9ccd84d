"""Import a file of jiyi or another program: recognise it by its content, read it, and store its records."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from jiyi.errors import ImportFailed
from jiyi.importers import exports
from jiyi.importers.databases import PALACE_FILES, read_database, read_langgraph_server
from jiyi.importers.entries import Entry, LeftOut, RecordMaker, as_dict, as_list
from jiyi.importers.files import Files, iter_json_values, open_files
from jiyi.importers.mem0_client import Mem0Client, is_mem0, read_mem0, read_mem0_client
from jiyi.records import Message, Scope
from jiyi.storage import Store
from jiyi.storage.sqlite.file import is_database
from jiyi.storage.transfer.conversations import read_conversations
from jiyi.storage.transfer.export import is_export, read_export
from jiyi.storage.transfer.files import Found, ImportReceipt, Rejected, refuse_device
from jiyi.storage.transfer.importer import Put, put_all, put_exported, put_messages, put_new


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

    ``place`` is a file, a folder, the URL of LangGraph's PostgreSQL database, or as for `read_mem0_client`.
    ``prepare`` completes messages before they are stored; ``learn`` is called with stored messages in their
    transaction, but not for an export, which has its own facts. ``zone`` is for dates without one,
    ``session_id`` for messages of conversations without one. ``progress`` is called with the number of
    entries seen after each batch; a ``dry_run`` only counts what would be added.

    Raises `ImportFailed` if it cannot be read or is of a newer jiyi, `StorageError` or `ServerError` if the
    database or mem0 fails: what was added stays, and importing again goes on from there.
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


_SERVERS = ("postgresql://", "postgres://")
_MAX_SAMPLES = 50  # values and files to look at


def is_server(place: object) -> bool:
    """Return whether a place is the URL of a PostgreSQL server."""
    return isinstance(place, str) and place.startswith(_SERVERS)


def is_remote_source(place: object) -> bool:
    """Return whether a place is no file or folder, but a server or a client of mem0."""
    return is_server(place) or is_mem0(place)


def read_foreign(
    place: Path | str | Mem0Client, maker: Callable[[str], RecordMaker]
) -> Iterator[Entry] | None:
    """Return the entries of another program's data, None if it may be a file of jiyi.

    ``maker`` returns the record maker for the name of a program. ImportFailed: it cannot be read, or is a
    folder, zip or database of an unknown program.
    """
    if isinstance(place, str) and is_server(place):
        return read_langgraph_server(place, maker("langgraph"))
    if not isinstance(place, Path):
        return read_mem0_client(place, maker("mem0"))
    refuse_device(place)
    if is_database(place):
        return read_database(place, maker)
    with open_files(place) as files:
        databases = [file for name in PALACE_FILES for file in files.matching(name) if place.is_dir()]
        source = None if databases else _detect_source(files)
        single_file = not (place.is_dir() or len(files.names) != 1 or files.names[0] != place.name)
    if databases:
        return (entry for name in databases for entry in read_database(place / name, maker))
    if source is not None:
        return _read_files(place, source, maker(source))
    if single_file:
        return None
    known = "conversations.json (ChatGPT, Claude), *.jsonl (Claude Code) or chroma.sqlite3 (MemPalace)"
    raise ImportFailed(f"{place} is no folder or zip of a program that is known; they hold {known}")


def _read_files(path: Path, source: str, make: RecordMaker) -> Iterator[Entry]:
    with open_files(path) as files:
        yield from files.rejected
        yield from _FILES[source][1](files, make)


def _detect_source(files: Files) -> str | None:
    """Return the program that wrote these files, recognised by their first values."""
    names = files.matching("conversations*.json") or files.matching("*.json") or files.matching("*.jsonl")
    for name in names[:_MAX_SAMPLES] or (files.names[:1] if len(files.names) == 1 else ()):
        for _, value in islice(iter_json_values(files, name), _MAX_SAMPLES):
            for source, (detects, _) in _FILES.items():
                if detects(value):
                    return source
    return None


_CLAUDE_KEYS = {"chat_messages", "conversations_memory", "prompt_template"}


def _has(value: object, *names: str) -> bool:
    return all(name in as_dict(value) for name in names)


def _is_mem0(value: object) -> bool:
    rows = as_list(as_dict(value).get("results") or as_dict(value).get("memories")) or [value]
    return any(_has(row, "id", "memory") or _has(row, "id", "data", "hash") for row in rows[:_MAX_SAMPLES])


def _is_graph(value: object) -> bool:
    kind = as_dict(value).get("type")
    return (kind == "entity" and _has(value, "name")) or (kind == "relation" and _has(value, "from", "to"))


_FILES: Mapping[str, tuple[Callable[[Any], bool], Callable[[Files, RecordMaker], Iterator[Entry]]]] = {
    "chatgpt": (lambda value: _has(value, "mapping"), exports.read_chatgpt),
    "claude": (lambda value: not _CLAUDE_KEYS.isdisjoint(as_dict(value)), exports.read_claude),
    "letta": (lambda value: bool(exports.parse_agent_file(value)), exports.read_letta),
    "server-memory": (_is_graph, exports.read_server_memory),
    "mem0": (_is_mem0, read_mem0),
    "claude-code": (exports.is_transcript, exports.read_claude_code),
}
"""By program: what recognises a value of its files, and what reads them."""
