"""Putting imported messages into a store: in batches, nothing twice, and the rest despite bad ones."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from jiyi.errors import InputError
from jiyi.records import Message, Query, Scope
from jiyi.storage.interchange import Found, Rejected
from jiyi.storage.store import Store

__all__ = ["ImportReceipt", "import_messages"]

_BATCH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReceipt:
    """What an import did."""

    added: int  # messages that are new
    known: int  # messages that were there already
    rejected: tuple[Rejected, ...]  # what could not go in, and why


def import_messages(
    store: Store,
    entries: Iterable[Found | Rejected],
    *,
    prepare: Callable[[Message], Message],
    progress: Callable[[int], None] | None = None,
) -> ImportReceipt:
    """Store what can be stored; each batch is one transaction.

    Args:
        store: where to.
        entries: what a reader made of a file.
        prepare: the last touch before storing, such as counting tokens.
        progress: called with the number of entries seen after each batch.
    """
    added, known, rejected, seen = 0, 0, list[Rejected](), 0
    batch: list[Found] = []

    def settle() -> None:
        nonlocal added, known
        new, old, bad = _put(store, [replace(found, message=prepare(found.message)) for found in batch])
        added, known = added + new, known + old
        rejected.extend(bad)
        batch.clear()

    for entry in entries:
        seen += 1
        if isinstance(entry, Rejected):
            rejected.append(entry)
        else:
            batch.append(entry)
        if len(batch) == _BATCH:
            settle()
            if progress:
                progress(seen)
    settle()
    if progress:
        progress(seen)
    return ImportReceipt(added=added, known=known, rejected=tuple(rejected))


def _put(store: Store, batch: Sequence[Found]) -> tuple[int, int, list[Rejected]]:
    """Put a batch; when one of it is refused, put them one by one. Return new, known, refused."""
    if not batch:
        return 0, 0, []
    messages = [found.message for found in batch]
    scope = Scope(user_id=cast("Scope", messages[0].scope).user_id)
    ids = tuple({message.id for message in messages})
    with store.transaction():
        stored = store.find(Query(scope=scope, kinds=("message",), ids=ids, limit=len(ids)))
        before = len(stored)
        try:
            with store.transaction():
                store.put(messages)
            return len(ids) - before, len(messages) - (len(ids) - before), []
        except InputError as error:
            if len(batch) == 1:
                return 0, 0, [Rejected.because(batch[0].where, error)]
        counts = [_put(store, [found]) for found in batch]
    return sum(c[0] for c in counts), sum(c[1] for c in counts), [bad for c in counts for bad in c[2]]
