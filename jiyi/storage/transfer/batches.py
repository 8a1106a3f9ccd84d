"""Reading a user's memory in batches, comparing them, and writing them unchanged into another memory."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from typing import Literal, TypeVar, cast, get_args

from jiyi.clock import to_micros
from jiyi.errors import DuplicateId, InputError
from jiyi.records import FORGETTABLE, Message, Query, Record, Scope, Session, Summary, Task
from jiyi.records.checks import new_id
from jiyi.storage.backend import Backend
from jiyi.storage.candidates import Key
from jiyi.storage.database import grouped
from jiyi.storage.pages import all_pages, all_records, read_pages
from jiyi.storage.rows import encode_json
from jiyi.storage.store import Store
from jiyi.storage.trash import Discarded, key_of
from jiyi.storage.words import Words

__all__ = [
    "BATCH_SIZE",
    "PARTS",
    "BatchReceipt",
    "Digest",
    "Entry",
    "Part",
    "canonical_text",
    "compare",
    "put_batch",
    "put_valid",
    "read_batches",
    "split_task",
]

_T = TypeVar("_T")

Part = Literal["trash", "message", "task", "episode", "knowledge", "fact", "item", "summary"]
"""A kind of record, or the trash."""

PARTS: tuple[Part, ...] = get_args(Part)
"""All parts in the order in which they are copied.

The trash is first because its ids and places in sessions may be used again by other records. Summaries
follow the messages because a message that is put back drops the summaries without it.
"""

Entry = Record | Discarded
"""A record, or an entry of the trash."""

BATCH_SIZE = 1_000
"""Records that are read and written at once."""


@dataclass(frozen=True, slots=True)
class Digest:
    """A hash of a set of records, independent of their order.

    The sum of the BLAKE2b hashes (RFC 7693) of their texts, modulo 2 to the power of 128: the additive
    set hash of Bellare and Micciancio, "A New Paradigm for Collision-Free Hashing" (1997). It guards
    against accidents, not against forgery.
    """

    count: int = 0  # records
    total: int = 0  # the sum

    def __add__(self, other: "Digest") -> "Digest":
        return Digest(self.count + other.count, (self.total + other.total) % (1 << 128))

    @classmethod
    def of(cls, items: Iterable[Entry]) -> "Digest":
        """Return the digest of these records."""
        out = cls()
        for item in items:
            data = canonical_text(item).encode("utf-8", "surrogatepass")
            out += cls(1, int.from_bytes(hashlib.blake2b(data, digest_size=16).digest()))
        return out

    @property
    def hex(self) -> str:
        """The sum as 32 hex digits."""
        return f"{self.total:032x}"


def canonical_text(item: Entry) -> str:
    """Return a whole record without vectors as one text, the same on every backend."""
    if isinstance(item, Discarded):
        return f"{to_micros(item.discarded_at)} {item.reason} {item.kind} {encode_json(item.record)}"
    return encode_json(item)


def read_batches(
    side: Backend, scope: Scope, part: Part, *, words: bool = False
) -> Iterator[tuple[Sequence[Entry], Mapping[str, Words]]]:
    """Yield one part of a user's memory, oldest first, in batches of at most `BATCH_SIZE` records.

    With ``words`` messages come with their analysed words, by id, as analysing them again is slow.
    """
    if part == "trash":
        everything = Query(scope=scope, kinds=FORGETTABLE, limit=BATCH_SIZE)
        for trash in read_pages(lambda after: side.trash.walk(everything, after or 0)):
            if trash.entries:
                yield trash.entries, {}
        return
    query = Query(scope=scope, kinds=(part,), limit=BATCH_SIZE)
    if part == "task":
        tasks = all_records(side.store, query)
        while batch := list(islice(tasks, BATCH_SIZE)):
            yield batch, {}
        return
    for page in all_pages(side.store, query, words=words and part == "message"):
        if page.records:
            yield page.records, page.words


def compare(
    side: Backend, scope: Scope, part: Part, items: Sequence[Entry]
) -> tuple[Sequence[Entry], Sequence[Entry]]:
    """Return the items that a backend does not have, and those that differ there."""
    found: Sequence[Entry]
    ids = tuple(dict.fromkeys(id_ for _, id_ in map(key_of, items)))
    if part == "trash":
        most = len(ids) * len(FORGETTABLE)
        found = side.trash.discarded(Query(scope=scope, kinds=FORGETTABLE, ids=ids, limit=most))
    else:
        found = side.store.find(Query(scope=scope, kinds=(part,), ids=ids, limit=len(ids)))
    there = {key_of(item): canonical_text(item) for item in found}
    missing = [item for item in items if key_of(item) not in there]
    return missing, [item for item in items if there.get(key_of(item), text := canonical_text(item)) != text]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReceipt:
    """The result of writing a batch."""

    added: int  # new in the target
    known: int  # the same in the target already
    refused: tuple[tuple[Key, str], ...]  # kind and id of what was left out, and why


def put_batch(
    source: Backend,
    target: Backend,
    scope: Scope,
    part: Part,
    items: Sequence[Entry],
    *,
    words: Mapping[str, Words],
) -> BatchReceipt:
    """Put new records into the target in one transaction; existing ones stay, even if they differ.

    Sessions whose newest message is in the batch get the same next place as in the source.
    ``words`` are the analysed words of messages, by id.
    """

    def put() -> BatchReceipt:
        new, differing = compare(target, scope, part, items)
        write = partial(_put_part, target, scope, part, words)
        refused = put_valid(target.store, new, write, InputError)
        if part == "message":
            _reserve_last_places(source, target, scope, cast("Sequence[Message]", items))
        return BatchReceipt(
            added=len(new) - len(refused),
            known=len(items) - len(new) - len(differing),
            refused=(
                *((key_of(item), "it differs from the one that is there") for item in differing),
                *((key_of(item), str(error)) for item, error in refused),
            ),
        )

    return target.store.together(put, repeatable=True)


def put_valid(
    store: Store, items: Sequence[_T], put: Callable[[Sequence[_T]], object], errors: type[ValueError]
) -> list[tuple[_T, ValueError]]:
    """Put items in one transaction; if some are refused, put the others; return those with their errors.

    Args:
        store: the store of the transaction.
        items: in this order.
        put: puts some of them, or raises one of ``errors``.
        errors: raised for refused items; other exceptions are passed on.
    """
    if not items:
        return []
    try:
        with store.transaction():
            put(items)
    except errors as error:
        if len(items) == 1:
            return [(items[0], error)]
        half = len(items) // 2
        return [*put_valid(store, items[:half], put, errors), *put_valid(store, items[half:], put, errors)]
    return []


def split_task(record: Record) -> Sequence[Record]:
    """Return the records to pass to `Store.put`: a task without its steps, and the steps."""
    return (replace(record, steps=()), *record.steps) if isinstance(record, Task) else (record,)


def _put_part(
    target: Backend, scope: Scope, part: Part, words: Mapping[str, Words], items: Sequence[Entry]
) -> None:
    if part == "trash":
        _put_discarded(target, scope, cast("Sequence[Discarded]", items))
    elif part == "message":
        _put_messages(target, cast("Sequence[Message]", items), words)
    elif part == "summary":
        _put_summaries(target, scope, cast("Sequence[Summary]", items))
    else:
        _put_records(target, cast("Sequence[Record]", items))


def _put_records(target: Backend, records: Sequence[Record]) -> None:
    target.store.put([part for record in records for part in split_task(record)])


def _put_messages(target: Backend, messages: Sequence[Message], words: Mapping[str, Words]) -> None:
    for message, stored in zip(messages, target.store.put_back(messages, words=words), strict=True):
        if stored.seq != message.seq:
            raise DuplicateId(
                f"place {message.seq} of session {_session_of(message)!r} is taken by another message"
            )


def _put_summaries(target: Backend, scope: Scope, summaries: Sequence[Summary]) -> None:
    for summary in summaries:
        bridge = _placeholder_versions(target, scope, summary)
        target.store.put([*bridge, summary])
        if bridge:
            ids = tuple(version.id for version in bridge)
            target.store.delete(Query(scope=scope, kinds=("summary",), ids=ids, limit=len(ids)))


def _placeholder_versions(target: Backend, scope: Scope, summary: Summary) -> list[Summary]:
    """Return placeholders for removed earlier versions, because each version needs the one before."""
    if summary.previous is None:
        return []
    last = Query(scope=scope, kinds=("summary",), ids=(summary.previous,), limit=1)
    if target.store.find(last):
        return []
    of_session = Query(scope=summary.scope, kinds=("summary",), newest_first=True, limit=1)
    found = cast("list[Summary]", target.store.find(of_session))
    head = found[0] if found and found[0].scope == summary.scope else None
    previous, upto_seq = (head.id, head.upto_seq) if head else (None, 0)
    out: list[Summary] = []
    for version in range(head.version + 1 if head else 1, summary.version):
        id_ = summary.previous if version == summary.version - 1 else new_id()
        out.append(replace(summary, id=id_, version=version, previous=previous, upto_seq=upto_seq, covers=()))
        previous = id_
    return out


def _put_discarded(target: Backend, scope: Scope, entries: Sequence[Discarded]) -> None:
    """Put records and discard them, so that they get into the trash in the usual way."""
    for kind, records in grouped((entry.kind, entry.record) for entry in entries).items():
        for _, id_ in target.store.find_by_keys(scope.user_id, [(kind, record.id) for record in records]):
            raise DuplicateId(f"{kind} {id_!r} lies in the source's trash, but lives in the target")
        if kind == "message":
            _put_messages(target, cast("list[Message]", records), {})
        else:
            _put_records(target, records)
    for (reason, at), group in groupby(entries, lambda entry: (entry.reason, entry.discarded_at)):
        target.trash.discard(scope, [key_of(entry) for entry in group], reason=reason, at=at)


def _reserve_last_places(source: Backend, target: Backend, scope: Scope, messages: Sequence[Message]) -> None:
    """Keep the places of forgotten messages at the end of a session from being used again."""
    newest = {_session_of(message): message for message in messages}  # they are in the order of time
    sessions, there = (_find_sessions(backend, scope, tuple(newest)) for backend in (source, target))
    for id_, session in sessions.items():
        ends_here = session.last_active_at == newest[id_].created_at
        if not ends_here or id_ not in there or there[id_].next_seq >= session.next_seq:
            continue
        # Insert and delete a placeholder at the last place: the session continues after it.
        last = Message(
            role="system",
            content="",
            scope=session.scope,
            created_at=session.last_active_at,
            seq=session.next_seq - 1,
        )
        target.store.put_back([last])
        target.store.delete(Query(scope=scope, kinds=("message",), ids=(last.id,), limit=1))


def _find_sessions(side: Backend, scope: Scope, ids: tuple[str, ...]) -> Mapping[str, Session]:
    if not ids:
        return {}
    query = Query(scope=scope, kinds=("session",), ids=ids, limit=len(ids))
    return {session.id: session for session in cast("list[Session]", side.store.find(query))}


def _session_of(message: Message) -> str:
    assert message.scope is not None
    assert message.scope.session_id is not None
    return message.scope.session_id
