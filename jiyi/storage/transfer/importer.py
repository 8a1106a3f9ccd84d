"""Putting records into a memory: in batches, nothing twice, and the rest despite bad entries."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import cast

from jiyi.errors import InputError
from jiyi.records import Kind, Message, Query, Scope, Summary
from jiyi.storage.candidates import Key
from jiyi.storage.store import Store
from jiyi.storage.transfer.lines import Found, ImportReceipt, Rejected
from jiyi.storage.transfer.pieces import parts_of, put_or_refuse
from jiyi.storage.trash import key_of

__all__ = ["Put", "put_all", "put_exported", "put_new", "put_said"]

_BATCH = 200
_MOST = 10_000  # what one question may return

_Learn = Callable[[Sequence[Message]], object]
Put = Callable[[Sequence[Found]], object]
"""Stores a batch, or refuses it with a ValueError."""


def put_all(
    store: Store,
    put: Put,
    entries: Iterable[Found | Rejected],
    prepare: Callable[[Message], Message],
    progress: Callable[[int], None] | None,
) -> ImportReceipt:
    """Hand sound entries to ``put`` in batches, each in a transaction; the rest goes in despite bad ones."""
    counts: Counter[Kind] = Counter()
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
            new, bad = store.together(partial(_put, store, put, found), repeatable=True)
            counts.update(kind for kind, _ in new)
            known += len(found) - len(new) - len(bad)
            rejected += bad
        seen += len(batch)
        if progress:
            progress(seen)
        if len(batch) < _BATCH:
            return ImportReceipt(
                added=counts.total(), known=known, rejected=tuple(rejected), counts=dict(counts)
            )


def _put(store: Store, put: Put, batch: Sequence[Found]) -> tuple[set[Key], list[Rejected]]:
    """Put a batch; return the keys of what is new, and what was refused."""
    before = _known(store, batch)
    refused = put_or_refuse(store, batch, put, ValueError)  # InputError, and text that no database can hold
    bad = {found.where for found, _ in refused}
    new = {key_of(found.record) for found in batch if found.where not in bad} - before
    return new, [Rejected.because(found.where, error) for found, error in refused]


def put_said(store: Store, learn: _Learn, batch: Sequence[Found]) -> None:
    """Store messages of conversations; facts are read from all of them."""
    learn(cast("list[Message]", store.put([found.record for found in batch])))


def put_new(store: Store, learn: _Learn, batch: Sequence[Found]) -> None:
    """Store what is not there yet; facts are read from its messages."""
    known = _known(store, batch)
    new = [found.record for found in batch if key_of(found.record) not in known]
    if new:
        learn([record for record in store.put(new) if isinstance(record, Message)])


def put_exported(store: Store, batch: Sequence[Found]) -> None:
    """Store records as they are, messages at their places.

    A message whose id is taken by another one is refused; of other kinds what is there stays.
    A summary is refused where it does not go on from the one that is there, or where the
    messages it covers went to the end of a session that had others at their places.
    """
    known = _known(store, batch)
    for found in batch:
        record, new = found.record, key_of(found.record) not in known
        if isinstance(record, Message) and new:
            store.put_back([record])  # a summary made without it goes
        elif isinstance(record, Message):
            store.put([record])  # equal, or refused
        elif new:
            if isinstance(record, Summary):
                _check_places(store, record)
            store.put(parts_of(record))
        known.add(key_of(found.record))


def _check_places(store: Store, summary: Summary) -> None:
    """Refuse a summary whose messages lie after the place up to which it goes."""
    session = Scope(user_id=summary.scope.user_id, session_id=summary.scope.session_id)
    for start in range(0, len(summary.covers), _MOST):
        ids = summary.covers[start : start + _MOST]
        later = Query(scope=session, kinds=("message",), ids=ids, after_seq=summary.upto_seq, limit=1)
        if store.find(later):
            raise InputError(
                f"the messages that summary {summary.id!r} covers went to the end of session "
                f"{session.session_id!r}, which had others at their places; fold them again"
            )


def _known(store: Store, batch: Sequence[Found]) -> set[Key]:
    """Return the keys of the records that are there already."""
    user_id = cast("Scope", batch[0].record.scope).user_id
    return set(store.find_by_keys(user_id, [key_of(found.record) for found in batch]))
