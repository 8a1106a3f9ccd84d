"""What a copy reads: a user's memory in pieces, and what makes two records the same."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, get_args

from jiyi.clock import to_micros
from jiyi.records import FORGETTABLE, Query, Record, Scope
from jiyi.storage.backend import Backend
from jiyi.storage.candidates import Key
from jiyi.storage.pages import all_pages, all_records
from jiyi.storage.rows import encode_whole, kind_of
from jiyi.storage.trash import Discarded
from jiyi.storage.upkeep import Words

__all__ = ["PARTS", "PIECE", "Digest", "Entry", "Part", "compared", "key_of", "pieces", "text_of"]

Part = Literal["trash", "message", "task", "episode", "knowledge", "fact", "item", "summary"]
"""A kind of record, or the trash."""

PARTS: tuple[Part, ...] = get_args(Part)
"""Everything, in the order in which it is copied.

The trash goes first: its ids and places in sessions may belong to living records by now. Summaries
follow the messages, because a message that comes back removes the summaries that do not know it.
"""

Entry = Record | Discarded
"""A record, or an entry of the trash."""

PIECE = 1_000
"""How many records are read and written at once."""


@dataclass(frozen=True, slots=True)
class Digest:
    """What a number of records say, whatever their order.

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
            data = text_of(item).encode("utf-8", "surrogatepass")
            out += cls(1, int.from_bytes(hashlib.blake2b(data, digest_size=16).digest()))
        return out

    @property
    def hex(self) -> str:
        """The sum as 32 hex digits."""
        return f"{self.total:032x}"


def key_of(item: Entry) -> Key:
    """Return kind and id."""
    return (item.kind, item.record.id) if isinstance(item, Discarded) else (kind_of(item), item.id)


def text_of(item: Entry) -> str:
    """Return everything a record says as one text, the same on every backend; vectors are no part of it."""
    if isinstance(item, Discarded):
        return f"{to_micros(item.discarded_at)} {item.reason} {item.kind} {encode_whole(item.record)}"
    return encode_whole(item)


def pieces(
    side: Backend, scope: Scope, part: Part, *, words: bool = False
) -> Iterator[tuple[Sequence[Entry], Mapping[str, Words]]]:
    """Give one part of a user's memory, oldest first, at most `PIECE` records at a time.

    With ``words`` messages come with their analysed words, by id: to analyse them again would be the
    most expensive part of a copy.
    """
    if part == "trash":
        yield from ((entries, {}) for entries in _trash(side, scope))
        return
    query = Query(scope=scope, kinds=(part,), limit=PIECE)
    if part == "task":
        tasks = all_records(side.store, side.upkeep, query)
        while some := list(islice(tasks, PIECE)):
            yield some, {}
        return
    for page in all_pages(side.upkeep, query, words=words and part == "message"):
        if page.records:
            yield page.records, page.words


def compared(
    side: Backend, scope: Scope, part: Part, items: Sequence[Entry]
) -> tuple[Sequence[Entry], Sequence[Entry]]:
    """Return the items that one end does not hold, and those that are something else there."""
    found: Sequence[Entry]
    ids = tuple(dict.fromkeys(id_ for _, id_ in map(key_of, items)))
    if part == "trash":
        most = len(ids) * len(FORGETTABLE)
        found = side.trash.discarded(Query(scope=scope, kinds=FORGETTABLE, ids=ids, limit=most))
    else:
        found = side.store.find(Query(scope=scope, kinds=(part,), ids=ids, limit=len(ids)))
    there = {key_of(item): text_of(item) for item in found}
    missing = [item for item in items if key_of(item) not in there]
    return missing, [item for item in items if there.get(key_of(item), text_of(item)) != text_of(item)]


def _trash(side: Backend, scope: Scope) -> Iterator[Sequence[Entry]]:
    query, after = Query(scope=scope, kinds=FORGETTABLE, limit=PIECE), 0
    while True:
        page = side.trash.walk(query, after)
        if page.entries:
            yield page.entries
        if page.next is None:
            return
        after = page.next
