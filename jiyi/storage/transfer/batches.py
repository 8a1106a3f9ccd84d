"""Reading a user's memory in batches, comparing them, and writing them unchanged into another memory."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar, cast, get_args

from jiyi.clock import to_micros
from jiyi.errors import DuplicateId
from jiyi.records import FORGETTABLE, Message, Query, Record, Scope, Session
from jiyi.storage.backend import Backend
from jiyi.storage.candidates import Key
from jiyi.storage.pages import all_pages, read_pages
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
]

_T = TypeVar("_T")

Part = Literal["trash", "message", "task", "episode", "knowledge", "fact", "item", "summary"]
"""A kind of record, or the trash."""

PARTS: tuple[Part, ...] = get_args(Part)
"""All parts in the order in which they are copied.

Summaries follow the messages because a message that is put back drops the summaries without it.
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
    for page in all_pages(side.store, query, words=words and part == "message"):
        if page.records:
            yield page.records, page.words


def compare(
    side: Backend, scope: Scope, part: Part, items: Sequence[Entry]
) -> tuple[Sequence[Entry], Sequence[Entry]]:
    """Return the items that a backend does not have, and those that differ there."""
    found: Iterable[Entry]
    if part == "trash":
        ids = tuple({item.record.id for item in cast("Sequence[Discarded]", items)})
        most = len(ids) * len(FORGETTABLE)
        found = side.trash.discarded(Query(scope=scope, kinds=FORGETTABLE, ids=ids, limit=most))
    else:
        found = side.store.find_by_keys(scope.user_id, [key_of(item) for item in items]).values()
    there = {key_of(item): canonical_text(item) for item in found}
    missing = [item for item in items if key_of(item) not in there]
    return missing, [item for item in items if there.get(key_of(item), text := canonical_text(item)) != text]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReceipt:
    """The result of writing a batch."""

    added: int  # new in the target
    known: int  # the same in the target already
    refused: Sequence[tuple[Key, str]]  # kind and id of what was left out, and why


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

    Sessions of messages get the same next place as in the source. ``words`` are the analysed words of
    messages, by id.
    """

    def put() -> BatchReceipt:
        new, differing = compare(target, scope, part, items)
        write = partial(_put_part, target, scope, part, words)
        bad = put_valid(target.store, new, write)
        if part == "message":
            _reserve_places(source, target, scope, cast("Sequence[Message]", items))
        refused = [(key_of(item), "it differs from the one that is there") for item in differing]
        refused += [(key_of(item), str(error)) for item, error in bad]
        known = len(items) - len(new) - len(differing)
        return BatchReceipt(added=len(new) - len(bad), known=known, refused=refused)

    return target.store.together(put, repeatable=True)


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


def _put_part(
    target: Backend, scope: Scope, part: Part, words: Mapping[str, Words], items: Sequence[Entry]
) -> None:
    if part == "trash":
        target.trash.put(scope.user_id, cast("Sequence[Discarded]", items))
        return
    records = cast("Sequence[Record]", items)
    for record, stored in zip(records, target.store.put_back(records, words=words), strict=True):
        if isinstance(record, Message) and cast("Message", stored).seq != record.seq:
            session = cast("Scope", record.scope).session_id
            raise DuplicateId(f"place {record.seq} of session {session!r} is taken by another message")


def _reserve_places(source: Backend, target: Backend, scope: Scope, messages: Sequence[Message]) -> None:
    """Keep the places of forgotten messages at the end of these messages' sessions from being used again."""
    ids = tuple({cast("str", cast("Scope", message.scope).session_id) for message in messages})
    query = Query(scope=scope, kinds=("session",), ids=ids, limit=len(ids))
    for session in cast("list[Session]", source.store.find(query)):
        last = {"user_id": scope.user_id, "session_id": session.id, "upto_seq": session.next_seq - 1}
        target.database.execute("move_session_past", last)
