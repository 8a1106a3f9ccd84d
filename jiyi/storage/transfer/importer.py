"""Putting a file into a memory: in batches, nothing twice, and the rest despite bad entries."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from functools import partial
from itertools import islice
from pathlib import Path
from typing import cast

from jiyi.errors import InputError
from jiyi.records import Kind, Message, Query, Scope, Summary
from jiyi.storage.candidates import Key
from jiyi.storage.rows import kind_of
from jiyi.storage.store import Store
from jiyi.storage.transfer.conversations import read_conversations
from jiyi.storage.transfer.export import is_export, read_export
from jiyi.storage.transfer.lines import Found, Rejected
from jiyi.storage.transfer.pieces import parts_of, put_or_refuse

__all__ = ["ImportReceipt", "import_file", "known_keys", "put_entries"]

_BATCH = 200
_MOST = 10_000  # what one question may return

_Prepare = Callable[[Message], Message]
_Learn = Callable[[Sequence[Message]], object]
_Progress = Callable[[int], None]
_Put = Callable[[Sequence[Found]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReceipt:
    """What an import did."""

    added: int  # records that are new
    known: int  # records that were there already
    rejected: tuple[Rejected, ...]  # what could not go in, and why
    counts: Mapping[Kind, int] = field(default_factory=dict)  # what is new, by kind
    left_out: Mapping[str, int] = field(default_factory=dict)  # what is no memory, such as hidden messages


def import_file(
    store: Store,
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
        store: the records.
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
        exported = read_export(path, scope.user_id)
        put_known = partial(_put_records, store)
        return put_entries(store, put_known, exported, prepare=prepare, progress=progress)

    def put(batch: Sequence[Found]) -> None:
        learn(cast("list[Message]", store.put([found.record for found in batch])))

    entries = read_conversations(path, scope, zone=zone, session_id=session_id)
    return put_entries(store, put, entries, prepare=prepare, progress=progress)


def _put_records(store: Store, batch: Sequence[Found]) -> None:
    """Store records as they are, messages at their places.

    A message whose id is taken by another one is refused; of other kinds what is there stays.
    A summary is refused where it does not go on from the one that is there, or where the
    messages it covers went to the end of a session that had others at their places.
    """
    known = known_keys(store, batch)
    for found in batch:
        record, new = found.record, _key(found) not in known
        if isinstance(record, Message) and new:
            store.put_back([record])  # a summary that knows nothing of it goes
        elif isinstance(record, Message):
            store.put([record])  # equal, or refused
        elif new:
            if isinstance(record, Summary):
                _check_places(store, record)
            store.put(parts_of(record))
        known.add(_key(found))


def _check_places(store: Store, summary: Summary) -> None:
    """Refuse a summary whose messages lie after the place up to which it goes."""
    session = Scope(user_id=summary.scope.user_id, session_id=summary.scope.session_id)
    for start in range(0, len(summary.covers), _MOST):
        ids = summary.covers[start : start + _MOST]
        behind = Query(scope=session, kinds=("message",), ids=ids, after_seq=summary.upto_seq, limit=1)
        if store.find(behind):
            raise InputError(
                f"the messages that summary {summary.id!r} covers went to the end of session "
                f"{session.session_id!r}, which had others at their places; fold them again"
            )


def put_entries(
    store: Store,
    put: _Put,
    entries: Iterable[Found | Rejected],
    *,
    prepare: _Prepare,
    progress: _Progress | None,
) -> ImportReceipt:
    """Hand sound entries to ``put`` in batches, each in a transaction; as `import_file` else."""
    counts: dict[Kind, int] = {}
    known, seen, rejected = 0, 0, list[Rejected]()
    rest = iter(entries)
    while True:
        batch = list(islice(rest, _BATCH))  # the last one may be empty
        found = [
            replace(entry, record=prepare(entry.record)) if isinstance(entry.record, Message) else entry
            for entry in batch
            if isinstance(entry, Found)
        ]
        rejected += [entry for entry in batch if isinstance(entry, Rejected)]
        if found:
            new, bad = store.together(lambda found=found: _put(store, put, found), repeatable=True)  # type: ignore[misc]
            for kind, _ in new:
                counts[kind] = counts.get(kind, 0) + 1
            known += len(found) - len(new) - len(bad)
            rejected += bad
        seen += len(batch)
        if progress:
            progress(seen)
        if len(batch) < _BATCH:
            break
    return ImportReceipt(added=sum(counts.values()), known=known, rejected=tuple(rejected), counts=counts)


def _put(store: Store, put: _Put, batch: Sequence[Found]) -> tuple[set[Key], list[Rejected]]:
    """Put a batch; return the keys of what is new, and what was refused."""
    before = known_keys(store, batch)
    refused = put_or_refuse(store, batch, put, ValueError)  # InputError, and text that no database can hold
    bad = {found.where for found, _ in refused}
    new = {_key(found) for found in batch if found.where not in bad} - before
    return new, [Rejected.because(found.where, error) for found, error in refused]


def _key(found: Found) -> Key:
    return kind_of(found.record), found.record.id


def known_keys(store: Store, batch: Sequence[Found]) -> set[Key]:
    """Return the keys of the records that are there already."""
    return set(store.named(cast("Scope", batch[0].record.scope).user_id, list(map(_key, batch))))
