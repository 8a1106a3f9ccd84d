"""Putting imported records into a store: in batches, nothing twice, and the rest despite bad ones."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from pathlib import Path
from typing import cast

from jiyi.errors import InputError
from jiyi.records import Kind, Message, Query, Record, Scope, Summary, Task
from jiyi.storage.interchange import Found, Rejected, read_conversations
from jiyi.storage.read_export import FoundRecord, is_export, read_export
from jiyi.storage.rows import kind_of
from jiyi.storage.store import Store
from jiyi.storage.upkeep import Upkeep

__all__ = ["ImportReceipt", "import_file", "import_messages", "import_records"]

_BATCH = 200
_MOST = 10_000  # what one question may return

_Prepare = Callable[[Message], Message]
_Learn = Callable[[Sequence[Message]], object]
_Progress = Callable[[int], None]
_Outcome = tuple[
    list[Kind], int, list[Rejected]
]  # kinds of what is new, how many were known, what was refused


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReceipt:
    """What an import did."""

    added: int  # records that are new
    known: int  # records that were there already
    rejected: tuple[Rejected, ...]  # what could not go in, and why
    counts: Mapping[Kind, int] = field(default_factory=dict)  # what is new, by kind


def import_file(
    store: Store,
    upkeep: Upkeep,
    path: Path,
    scope: Scope,
    *,
    zone: tzinfo = UTC,
    session_id: str | None = None,
    prepare: _Prepare,
    learn: _Learn = lambda _: None,
    progress: _Progress | None = None,
) -> ImportReceipt:
    """Import a file: an export of jiyi, or conversations as `read_conversations` takes them.

    The records of an export become those of the scope's user, each with the agent and session
    it had; an id that is known already is left alone, whatever it holds now.

    Args:
        store, upkeep: of one database.
        path: the file, UTF-8.
        scope: whose the records become; its agent is that of conversations.
        zone, session_id: for conversations, see `read_conversations`.
        prepare: the last touch of messages before storing, such as counting tokens.
        learn: called with stored messages of conversations, in their transaction; an export
            brings its facts along.
        progress: called with the number of entries seen after each batch.

    Raises:
        ImportFailed: the file cannot be read at all, or is an export of a newer jiyi.
        StorageError: the database cannot take it; what went in before stays, and importing
            again goes on from there.
    """
    if is_export(path):
        entries = read_export(path, scope.user_id)
        return import_records(store, upkeep, entries, prepare=prepare, progress=progress)
    found = read_conversations(path, scope, zone=zone, session_id=session_id)
    return import_messages(store, found, prepare=prepare, learn=learn, progress=progress)


def import_messages(
    store: Store,
    entries: Iterable[Found | Rejected],
    *,
    prepare: _Prepare,
    learn: _Learn = lambda _: None,
    progress: _Progress | None = None,
) -> ImportReceipt:
    """Store what messages can be stored; each batch is one transaction.

    Args:
        store: where to.
        entries: what a reader made of a file.
        prepare: the last touch before storing, such as counting tokens.
        learn: called with the messages of each batch as stored, in its transaction.
        progress: called with the number of entries seen after each batch.
    """

    def put(batch: Sequence[FoundRecord]) -> None:
        learn(cast("list[Message]", store.put([found.record for found in batch])))

    records = (_as_record(entry) for entry in entries)
    return _import(store, put, records, prepare=prepare, progress=progress)


def import_records(
    store: Store,
    upkeep: Upkeep,
    entries: Iterable[FoundRecord | Rejected],
    *,
    prepare: _Prepare,
    progress: _Progress | None = None,
) -> ImportReceipt:
    """Store records as they are, messages at their places; as `import_messages` else.

    A message whose id is taken by another one is refused; of other kinds what is there stays.
    A summary is refused where it does not go on from the one that is there, or where the
    messages it covers went to the end of a session that had others at their places.
    """

    def put(batch: Sequence[FoundRecord]) -> None:
        known = _known(store, batch)
        for found in batch:
            record = found.record
            if isinstance(record, Message) and ("message", record.id) not in known:
                upkeep.put_back([record])  # a summary that knows nothing of it goes
            elif isinstance(record, Message):
                store.put([record])  # equal, or refused
            elif (kind_of(record), record.id) not in known:
                if isinstance(record, Summary):
                    _check_places(store, record)
                store.put(
                    [replace(record, steps=()), *record.steps] if isinstance(record, Task) else [record]
                )
            known.add((kind_of(record), record.id))

    return _import(store, put, entries, prepare=prepare, progress=progress)


def _check_places(store: Store, summary: Summary) -> None:
    """Refuse a summary whose messages lie behind the place up to which it goes."""
    session = Scope(user_id=summary.scope.user_id, session_id=summary.scope.session_id)
    for start in range(0, len(summary.covers), _MOST):
        ids = summary.covers[start : start + _MOST]
        behind = Query(scope=session, kinds=("message",), ids=ids, after_seq=summary.upto_seq, limit=1)
        if store.find(behind):
            raise InputError(
                f"the messages that summary {summary.id!r} covers went to the end of session "
                f"{session.session_id!r}, which had others at their places; fold them again"
            )


def _import(
    store: Store,
    put: Callable[[Sequence[FoundRecord]], None],
    entries: Iterable[FoundRecord | Rejected],
    *,
    prepare: _Prepare,
    progress: _Progress | None,
) -> ImportReceipt:
    counts: dict[Kind, int] = {}
    known, seen, rejected = 0, 0, list[Rejected]()
    for batch in _batches(entries):
        found = [_prepared(entry, prepare) for entry in batch if isinstance(entry, FoundRecord)]
        rejected += [entry for entry in batch if isinstance(entry, Rejected)]
        new, old, bad = _put(store, put, found)
        for kind in new:
            counts[kind] = counts.get(kind, 0) + 1
        known, seen = known + old, seen + len(batch)
        rejected += bad
        if progress:
            progress(seen)
    return ImportReceipt(added=sum(counts.values()), known=known, rejected=tuple(rejected), counts=counts)


def _put(
    store: Store, put: Callable[[Sequence[FoundRecord]], None], batch: Sequence[FoundRecord]
) -> _Outcome:
    """Put a batch in one transaction; when one of it is refused, put them one by one."""
    return store.together(lambda: _try(store, put, batch), repeatable=True) if batch else ([], 0, [])


def _try(
    store: Store, put: Callable[[Sequence[FoundRecord]], None], batch: Sequence[FoundRecord]
) -> _Outcome:
    before = _known(store, batch)
    try:
        with store.transaction():
            put(batch)
        keys = {(kind_of(found.record), found.record.id) for found in batch}
        new = [kind for kind, id_ in keys if (kind, id_) not in before]
        return new, len(batch) - len(new), []
    except ValueError as error:  # InputError, and text that no database can hold
        if len(batch) == 1:
            return [], 0, [Rejected.because(batch[0].where, error)]
    parts = [_try(store, put, [found]) for found in batch]
    return (
        [kind for new, _, _ in parts for kind in new],
        sum(old for _, old, _ in parts),
        [bad for _, _, refused in parts for bad in refused],
    )


def _known(store: Store, batch: Sequence[FoundRecord]) -> set[tuple[Kind, str]]:
    """Return which of the records are there, by their ids."""
    known: set[tuple[Kind, str]] = set()
    scope = Scope(user_id=cast("Scope", batch[0].record.scope).user_id)
    for kind in {kind_of(found.record) for found in batch}:
        ids = tuple({found.record.id for found in batch if kind_of(found.record) == kind})
        query = Query(scope=scope, kinds=(kind,), ids=ids, limit=len(ids))
        known |= {(kind, record.id) for record in store.find(query)}
    return known


def _batches(
    entries: Iterable[FoundRecord | Rejected],
) -> Iterator[list[FoundRecord | Rejected]]:
    batch: list[FoundRecord | Rejected] = []
    for entry in entries:
        batch.append(entry)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    yield batch


def _as_record(entry: Found | Rejected) -> FoundRecord | Rejected:
    return entry if isinstance(entry, Rejected) else FoundRecord(where=entry.where, record=entry.message)


def _prepared(found: FoundRecord, prepare: _Prepare) -> FoundRecord:
    record: Record = found.record
    return replace(found, record=prepare(record)) if isinstance(record, Message) else found
