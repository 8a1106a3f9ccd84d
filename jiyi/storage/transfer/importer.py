"""Storing imported records in batches: nothing twice, and valid entries despite bad ones."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TypeVar, cast

from jiyi.errors import InputError
from jiyi.records import MAX_LIMIT, Kind, Message, Query, Scope, Summary
from jiyi.storage.database import batched
from jiyi.storage.search.candidates import Key
from jiyi.storage.store import Store
from jiyi.storage.transfer.files import Found, ImportReceipt, Rejected
from jiyi.storage.trash import key_of

_T = TypeVar("_T")

_BATCH = 200

_Learn = Callable[[Sequence[Message]], object]
Put = Callable[[Sequence[Found]], object]
"""Stores a batch or raises a ValueError."""


def put_all(
    store: Store,
    put: Put,
    entries: Iterable[Found | Rejected],
    prepare: Callable[[Message], Message],
    progress: Callable[[int], None] | None,
) -> ImportReceipt:
    """Pass valid entries to ``put`` in batches, each in a transaction; bad ones do not affect the others."""
    counts: Counter[Kind] = Counter()
    known, seen, rejected = 0, 0, list[Rejected]()
    rest = iter(entries)
    while True:
        batch = list(islice(rest, _BATCH))  # the last one may be empty
        read = [entry for entry in batch if isinstance(entry, Found)]
        found = [replace(e, record=prepare(e.record)) if isinstance(e.record, Message) else e for e in read]
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
    """Put a batch; return the keys of new records and the refused ones."""
    before = _known(store, batch)
    refused = put_valid(store, batch, put)
    bad = {found.where for found, _ in refused}
    new = {key_of(found.record) for found in batch if found.where not in bad} - before
    return new, [Rejected.because(found.where, error) for found, error in refused]


def put_valid(
    store: Store, items: Sequence[_T], put: Callable[[Sequence[_T]], object]
) -> list[tuple[_T, ValueError]]:
    """Put items in one transaction; if some are refused, put the others; return those with their errors.

    An item is refused if ``put`` raises `InputError`, or another ValueError for what cannot be stored.
    """
    if not items:
        return []
    try:
        with store.transaction():
            put(items)
    except ValueError as error:
        if len(items) == 1:
            return [(items[0], error)]
        half = len(items) // 2
        return [*put_valid(store, items[:half], put), *put_valid(store, items[half:], put)]
    return []


def put_messages(store: Store, learn: _Learn, batch: Sequence[Found]) -> None:
    """Store messages of conversations and learn facts from all of them."""
    learn(cast("list[Message]", store.put([found.record for found in batch])))


def put_new(store: Store, learn: _Learn, batch: Sequence[Found]) -> None:
    """Store new records and learn facts from the messages among them."""
    known = _known(store, batch)
    new = [found.record for found in batch if key_of(found.record) not in known]
    if new:
        learn([record for record in store.put(new) if isinstance(record, Message)])


def put_exported(store: Store, batch: Sequence[Found]) -> None:
    """Store records unchanged, messages at their places.

    A message whose id is taken by another one is refused; existing records of other kinds stay. A
    summary is refused if it does not follow the existing one, or if the messages it covers were put
    at the end of a session because their places were taken.
    """
    known = _known(store, batch)
    for found in batch:
        record, key = found.record, key_of(found.record)
        if isinstance(record, Summary) and key not in known:
            _check_places(store, record)
            store.put([record])
        elif key not in known:
            store.put_back([record])  # a message drops summaries without it
        elif isinstance(record, Message):
            store.put([record])  # equal, or refused
        known.add(key)


def _check_places(store: Store, summary: Summary) -> None:
    """Refuse a summary if messages that it covers come after its last place."""
    session = Scope(user_id=summary.scope.user_id, session_id=summary.scope.session_id)
    for ids in batched(summary.covers, MAX_LIMIT):
        later = Query(scope=session, kinds=("message",), ids=tuple(ids), after_seq=summary.upto_seq, limit=1)
        if store.find(later):
            raise InputError(
                f"the messages that summary {summary.id!r} covers went to the end of session "
                f"{session.session_id!r}, which had others at their places; fold them again"
            )


def _known(store: Store, batch: Sequence[Found]) -> set[Key]:
    user_id = cast("Scope", batch[0].record.scope).user_id
    return set(store.find_by_keys(user_id, [key_of(found.record) for found in batch]))
