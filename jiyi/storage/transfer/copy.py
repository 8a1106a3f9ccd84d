"""Copying memories unchanged between any two backends, and comparing both ends."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast, get_args

from jiyi.clock import to_micros
from jiyi.errors import CopyMismatch, DuplicateId, NotFound
from jiyi.records import FORGETTABLE, SEARCHABLE, Kind, Message, Query, Record, Scope, Searchable, Session
from jiyi.storage.backend import Backend
from jiyi.storage.rows import encode_json
from jiyi.storage.search.candidates import Key
from jiyi.storage.search.postings import Words
from jiyi.storage.store import Page, all_pages, read_pages
from jiyi.storage.transfer.importer import put_valid
from jiyi.storage.trash import Discarded, key_of
from jiyi.storage.vectors import VectorRow

Part = Literal["trash", "message", "task", "episode", "knowledge", "fact", "item", "summary"]
"""A kind of record, or the trash."""

PARTS: tuple[Part, ...] = get_args(Part)
"""All parts in the order in which they are copied.

Summaries follow the messages because a message that is put back drops the summaries without it.
"""

Entry = Record | Discarded
"""A record, or an entry of the trash."""

Progress = Callable[[str, int, int], None]
"""Called with what is being done ("records", "vectors" or "checked"), how many are done, and of how many."""

_BATCH_SIZE = 1_000  # records read and written at once
_COUNTED: tuple[Kind, ...] = (*SEARCHABLE, "task", "summary")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReceipt:
    """What a copy did and what both ends hold now."""

    users: tuple[str, ...]  # whose memory was copied
    added: Mapping[Part, int]  # new records in the target, by kind
    known: int  # records that the target had already
    vectors: int  # records that got their vectors from the source
    embedder: str | None  # both ends' embedder; None if they have different ones, or the source none
    checked: Mapping[Part, Digest]  # what both ends hold
    keys: int = 0  # API keys that the target did not have


def copy_memory(
    source: Backend,
    target: Backend,
    *,
    users: Sequence[str] | None = None,
    trash: bool = True,
    progress: Progress | None = None,
) -> CopyReceipt:
    """Copy memories of ``users``, by default all, from one backend into another, and compare both afterwards.

    Everything is copied unchanged: records at their places, with all versions of summaries and the next
    places of sessions, the trash if wanted, and the vectors; nothing is embedded, and records without vectors
    stay pending. A target without vectors is bound to the source's embedder; one of another embedder gets
    none. Without ``users`` it also gets the API keys that it does not have.

    The source does not change. For each user the target must hold nothing, or some of the same records:
    an interrupted copy is continued by calling it again, with the same result. Nobody may write to the
    memories of these users meanwhile. A few thousand records are in memory at once.

    Raises `NotFound` if the source has nothing of a user, and `CopyMismatch` if the target holds something
    that the source does not, before anything of this user is written, or lacks something afterwards.
    """
    present = source.database.users()
    unknown = sorted(set(users or ()) - set(present))
    if unknown:
        raise NotFound(f"{source.database.place} holds nothing of user {', '.join(map(repr, unknown))}")
    chosen = tuple(present) if users is None else tuple(dict.fromkeys(users))
    job = _Copy(source, target, PARTS if trash else PARTS[1:], progress)
    if progress:
        counts = [source.store.count(Query(scope=Scope(user_id=user), kinds=_COUNTED)) for user in chosen]
        job.total = sum(count[kind] for count in counts for kind in _COUNTED)
    for user in chosen:
        job.copy_user(Scope(user_id=user))
    known, keys = target.ledger.keys(), source.ledger.keys() if users is None else {}
    new = {name: text for name, text in keys.items() if name not in known}
    for name, text in new.items():  # hashes, with what they allow
        target.ledger.put_key(name, text)
    job.counts["keys"] = len(new)
    return CopyReceipt(users=chosen, embedder=job.embedder, checked=job.checked, **job.counts)


class _Copy:
    def __init__(
        self, source: Backend, target: Backend, parts: Sequence[Part], progress: Progress | None
    ) -> None:
        self._source, self._target, self._parts, self._progress = source, target, parts, progress
        self.embedder = _bind(source, target)
        self.checked: dict[Part, Digest] = dict.fromkeys(parts, Digest())
        self.counts: Any = {"added": dict.fromkeys(parts, 0), "known": 0, "vectors": 0}
        self.total = 0  # records to report
        self._done = Counter[str]()

    def _report(self, what: str, count: int) -> None:
        """Report that more records are done; the trash is added to the total as it is read."""
        self._done[what] += count
        self.total = max(self.total, self._done[what])
        if self._progress:
            self._progress(what, self._done[what], self.total)

    def copy_user(self, scope: Scope) -> None:
        """Copy and compare a user's memory."""
        for part in self._parts:
            self._check_before(scope, part)
        copied = {part: self._copy_part(scope, part) for part in self._parts}
        if self.embedder and _pending(self._target, scope):
            self._copy_vectors(scope, self.embedder)
        for part, digest in copied.items():
            self._check_after(scope, part, digest)
        in_source, in_target = _pending(self._source, scope), _pending(self._target, scope)
        if self.embedder and in_target > in_source:
            raise self._mismatch(scope, f"{in_target} records lack vectors, {in_source} in the source")

    def _check_before(self, scope: Scope, part: Part) -> None:
        """Refuse a target that holds other records of a user than the source."""
        for piece, _ in read_batches(self._target, scope, part):
            missing, differing = _compare(self._source, scope, part, piece)
            for item in (*differing, *missing):
                how = "differs from the source's" if item in differing else "is not in the source"
                raise self._mismatch(scope, f"{part} {key_of(item)[1]} {how}")

    def _copy_part(self, scope: Scope, part: Part) -> Digest:
        """Copy one part of a user's memory; return the digest of what was read."""
        digest = Digest()
        for piece, words in read_batches(self._source, scope, part, words=True):
            done = put_batch(self._source, self._target, scope, part, piece, words=words)
            for (_, id_), why in done.refused:
                raise self._mismatch(scope, f"{part} {id_}: {why}")
            digest += Digest.of(piece)
            self.counts["added"][part] += done.added
            self.counts["known"] += done.known
            self._report("records", len(piece))
        return digest

    def _check_after(self, scope: Scope, part: Part, copied: Digest) -> None:
        """Check that the target holds exactly what was read."""
        held = Digest()
        for piece, _ in read_batches(self._target, scope, part):
            held += Digest.of(piece)
            self._report("checked", len(piece))
        if held != copied:
            progress = f"{copied.count} records were read ({copied.hex}), {held.count} are there ({held.hex})"
            raise self._mismatch(scope, f"{part}: {progress}")
        self.checked[part] += held

    def _copy_vectors(self, scope: Scope, name: str) -> None:
        for kind in SEARCHABLE:
            for page in all_pages(self._target.store, Query(scope=scope, kinds=(kind,), limit=_BATCH_SIZE)):
                rows = _vector_rows(self._source, scope, page)
                self.counts["vectors"] += self._target.vectors.add(rows, name=name)
                self._report("vectors", len(page.records))

    def _mismatch(self, scope: Scope, what: str) -> CopyMismatch:
        source, target = self._source.database.place, self._target.database.place
        problem = f"{target} does not hold what {source} holds of user {scope.user_id!r}: {what}"
        return CopyMismatch(f"{problem}; copy into a fresh place while nobody writes")


def _bind(source: Backend, target: Backend) -> str | None:
    """Bind a fresh target to the source's embedder; return its name if both have the same one."""
    ours, theirs = source.vectors.claim(), target.vectors.claim()
    if ours.name is None:
        return None
    if theirs.name is None:
        theirs = target.vectors.claim(ours.name, ours.dims)
    return ours.name if (ours.name, ours.dims) == (theirs.name, theirs.dims) else None


def _vector_rows(source: Backend, scope: Scope, page: Page[Record]) -> list[VectorRow]:
    """Return the source's vectors of records of the target, under the target's numbers."""
    records = {key_of(record): cast("Searchable", record) for record in page.records}
    numbers = dict(zip(records, page.numbers, strict=True))
    found = cast("Mapping[Key, Searchable]", source.store.find_by_keys(scope.user_id, list(records)))
    # Vectors of another text are not copied.
    same = [key for key, record in found.items() if record.search_text == records[key].search_text]
    parts = source.vectors.read(scope, same, exact=True)
    return [
        VectorRow(key=(scope.user_id, numbers[key]), vectors=parts.vectors[parts.rows == place])
        for place, key in enumerate(same)
        if place in parts.rows
    ]


def _pending(side: Backend, scope: Scope) -> int:
    return side.store.count(Query(scope=scope))["vectors_pending"]


def canonical_text(item: Entry) -> str:
    """Return a whole record without vectors as one text, the same on every backend."""
    if isinstance(item, Discarded):
        return f"{to_micros(item.discarded_at)} {item.reason} {item.kind} {encode_json(item.record)}"
    return encode_json(item)


def read_batches(
    side: Backend, scope: Scope, part: Part, *, words: bool = False
) -> Iterator[tuple[Sequence[Entry], Mapping[str, Words]]]:
    """Yield one part of a user's memory, oldest first, in batches of at most 1,000 records.

    With ``words`` messages come with their analysed words, by id, as analysing them again is slow.
    """
    pages: Iterator[Page[Entry]]
    if part == "trash":
        pages = read_pages(partial(side.trash.walk, Query(scope=scope, kinds=FORGETTABLE, limit=_BATCH_SIZE)))
    else:
        query = Query(scope=scope, kinds=(part,), limit=_BATCH_SIZE)
        pages = all_pages(side.store, query, words=words and part == "message")
    for page in pages:
        if page.records:
            yield page.records, page.words


def _compare(
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
        new, differing = _compare(target, scope, part, items)
        bad = put_valid(target.store, new, partial(_put_part, target, scope, part, words))
        if part == "message":
            _reserve_places(source, target, scope, cast("Sequence[Message]", items))
        refused = [(key_of(item), "it differs from the one that is there") for item in differing]
        refused += [(key_of(item), str(error)) for item, error in bad]
        known = len(items) - len(new) - len(differing)
        return BatchReceipt(added=len(new) - len(bad), known=known, refused=refused)

    return target.store.together(put, repeatable=True)


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
