"""From database to database: everything as it is, between any two backends, and compared in the end."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from jiyi.errors import CopyMismatch, NotFound
from jiyi.records import SEARCHABLE, Kind, Message, Query, Scope, Searchable
from jiyi.storage.backend import Backend
from jiyi.storage.pages import all_pages
from jiyi.storage.transfer.pieces import (
    PARTS,
    PIECE,
    Digest,
    Part,
    compared,
    pieces,
    put_piece,
    sessions_ending,
)
from jiyi.storage.trash import key_of
from jiyi.storage.vectors import VectorRow

__all__ = ["CopyConflict", "CopyReceipt", "Told", "copy_memory"]

Told = Callable[[str, int, int], None]
"""Is told what is being done ("records", "vectors" or "checked"), how many are done, and of how many."""

_COUNTED: tuple[Kind, ...] = (*SEARCHABLE, "task", "summary")
_MOST_CONFLICTS = 100  # named in a receipt
_MOST_IDS = 10  # named in an error


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyConflict:
    """A record that was left out: the target has something else in its place, which stays."""

    user_id: str
    part: Part  # "trash", or the record's kind
    kind: Kind
    id: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReceipt:
    """What a copy did and what both ends hold now."""

    users: tuple[str, ...]  # whose memory was copied
    added: Mapping[Part, int]  # records that are new in the target, by kind
    known: int  # records that were there already, the same
    vectors: int  # records that got their vectors from the source
    embedder: str | None  # both ends' embedder; None: they have different ones, or the source has none
    conflicts: tuple[CopyConflict, ...]  # what was left out, the first 100
    conflicting: int  # how many that are in all
    extra: int  # records of these users that only the target has
    changed: tuple[str, ...]  # users whose memory in the source changed meanwhile: copy again
    checked: Mapping[Part, Digest]  # what the source holds; what was not left out, the target does, too


def copy_memory(
    source: Backend,
    target: Backend,
    *,
    users: Sequence[str] | None = None,
    trash: bool = True,
    progress: Told | None = None,
) -> CopyReceipt:
    """Copy memories from one backend into another, and compare both in the end.

    Everything goes along, as it is: messages at their places, tasks with their steps, episodes,
    knowledge, facts, all versions of summaries, the places that sessions go on at, the trash, and
    the vectors, which are embedded nowhere: where the source has none they stay pending. A target
    without any vectors is bound to the source's embedder; one of another embedder gets no vectors.

    Nothing in the source changes. Nothing that is in the target is changed or removed: a record whose
    id is there with something else is left out and told as a conflict. Broken off at any moment, the
    copy goes on when it is called again, and ends the same. Memory holds a few thousand records.

    Args:
        source, target: the ends.
        users: whose memory; everybody's by default.
        trash: copy the trash along.
        progress: see `Told`.

    Raises:
        NotFound: the source knows nothing of a user.
        CopyMismatch: in the end something is missing in the target, or differs.
        StorageError: a database failed.
    """
    there = source.database.users()
    unknown = sorted(set(users or ()) - set(there))
    if unknown:
        raise NotFound(f"{source.database.place} holds nothing of user {', '.join(map(repr, unknown))}")
    chosen = tuple(there) if users is None else tuple(dict.fromkeys(users))
    copy = _Copy(source, target, PARTS if trash else PARTS[1:], progress)
    if progress:
        copy.total = sum(sum(_counts(source, Scope(user_id=user))) for user in chosen)
    fingerprints = [copy.user(Scope(user_id=user)) for user in chosen]
    for user, fingerprint in zip(chosen, fingerprints, strict=True):
        if fingerprint != _fingerprint(source, Scope(user_id=user)):
            copy.changed.setdefault(user)
    return copy.receipt(chosen)


class _Copy:
    def __init__(self, source: Backend, target: Backend, parts: Sequence[Part], told: Told | None) -> None:
        self._source, self._target, self._parts, self._told = source, target, parts, told
        self._embedder = _bind(source, target)
        self._added: dict[Part, int] = dict.fromkeys(parts, 0)
        self._checked: dict[Part, Digest] = dict.fromkeys(parts, Digest())
        self._conflicts: list[CopyConflict] = []
        self._known = self._vectors = self._conflicting = self._extra = 0
        self.changed: dict[str, None] = {}  # users, in the order in which it was noticed
        self.total = 0  # records to be told of
        self._done = Counter[str]()

    def _tell(self, what: str, count: int) -> None:
        """Say that so many more are done; the trash is counted as it is met."""
        self._done[what] += count
        self.total = max(self.total, self._done[what])
        if self._told:
            self._told(what, self._done[what], self.total)

    def receipt(self, users: tuple[str, ...]) -> CopyReceipt:
        """Return what was done."""
        return CopyReceipt(
            users=users,
            added=self._added,
            known=self._known,
            vectors=self._vectors,
            embedder=self._embedder,
            conflicts=tuple(self._conflicts),
            conflicting=self._conflicting,
            extra=self._extra,
            changed=tuple(self.changed),
            checked=self._checked,
        )

    def user(self, scope: Scope) -> tuple[int, ...]:
        """Copy and compare a user's memory; return its fingerprint before it was compared."""
        waiting = _pending(self._source, scope)
        copied = {part: self._copy_part(scope, part) for part in self._parts}
        if self._embedder and _pending(self._target, scope):
            self._vectors += self._copy_vectors(scope, self._embedder)
        fingerprint = _fingerprint(self._source, scope)
        extra = self._extra
        same = [self._check_part(scope, part, *copied[part]) for part in self._parts]
        if not all(same):
            self.changed.setdefault(scope.user_id)
        elif self._embedder and self._extra == extra and not any(refused for _, refused in copied.values()):
            # Some may have got theirs meanwhile.
            here, there = max(waiting, _pending(self._source, scope)), _pending(self._target, scope)
            if there > here:
                raise CopyMismatch(
                    f"{self._target.database.place}: user {scope.user_id!r}: {there} records lack vectors, "
                    f"{here} in {self._source.database.place}; copy again"
                )
        return fingerprint

    def _copy_part(self, scope: Scope, part: Part) -> tuple[Digest, int]:
        """Copy one part of a user's memory; return what was read, and how many records were left out."""
        digest, refused = Digest(), 0
        for piece, words in pieces(self._source, scope, part, words=True):
            done = put_piece(self._source, self._target, scope, part, piece, words=words)
            digest += Digest.of(piece)
            refused += len(done.refused)
            self._added[part] += done.added
            self._known += done.known
            for (kind, id_), why in done.refused[: max(0, _MOST_CONFLICTS - len(self._conflicts))]:
                self._conflicts.append(
                    CopyConflict(user_id=scope.user_id, part=part, kind=kind, id=id_, why=why)
                )
            self._tell("records", len(piece))
        self._conflicting += refused
        return digest, refused

    def _copy_vectors(self, scope: Scope, name: str) -> int:
        """Give records in the target the vectors they have in the source; return how many got some.

        Records that have vectors already keep them; those without any in the source stay pending.
        """
        added = 0
        for kind in SEARCHABLE:
            query = Query(scope=scope, kinds=(kind,), limit=PIECE)
            for page in all_pages(self._target.store, query):
                records = cast("Sequence[Searchable]", page.records)
                rows = _vector_rows(self._source, query, records, page.numbers)
                added += self._target.vectors.add(rows, name=name)
                self._tell("vectors", len(records))
        return added

    def _check_part(self, scope: Scope, part: Part, copied: Digest, refused: int) -> bool:
        """Compare one part of a user's memory; return whether the source still is what was copied.

        Raises:
            CopyMismatch: something is missing in the target or differs; names up to ten ids.
        """
        here, apart, named = Digest(), Counter[str](), dict[str, list[str]]()
        for piece, _ in pieces(self._source, scope, part):
            here += Digest.of(piece)
            some = zip(("missing", "different"), compared(self._target, scope, part, piece), strict=True)
            found = {what: [key_of(item)[1] for item in items] for what, items in some}
            if part == "message":
                found["session"] = list(self._sessions_apart(scope, cast("Sequence[Message]", piece)))
            for what, ids in found.items():
                apart[what] += len(ids)
                named[what] = [*named.get(what, ()), *ids][:_MOST_IDS]
            self._tell("checked", len(piece))
        held = _number(self._target, scope, part)
        extra, differing = held - (here.count - apart["missing"]), apart["missing"] + apart["different"]
        self._checked[part] += here
        self._extra += extra
        if here != copied:
            return False
        if differing > refused:
            kinds = [what for what in ("missing", "different") if apart[what]]
            told = [f"{what}: {apart[what]} ({', '.join(named[what])})" for what in kinds]
            raise self._mismatch(scope, part, f"{here.count} records against {held}; {'; '.join(told)}")
        if apart["session"] and not (differing or extra):
            raise self._mismatch(scope, "session", f"different: {', '.join(named['session'])}")
        return True

    def _sessions_apart(self, scope: Scope, messages: Sequence[Message]) -> Iterator[str]:
        """Give the sessions ending with these messages that the target does not have like the source."""
        for session, there in sessions_ending(self._source, self._target, scope, messages):
            same = there is not None and (
                there.started_at == session.started_at
                and there.last_active_at == session.last_active_at
                and there.messages == session.messages
                and there.next_seq >= session.next_seq
            )
            if not same:
                yield session.id

    def _mismatch(self, scope: Scope, part: str, what: str) -> CopyMismatch:
        return CopyMismatch(
            f"{self._target.database.place} does not hold what {self._source.database.place} holds: user "
            f"{scope.user_id!r}, {part}: {what}; copy again, or copy into a fresh place"
        )


def _bind(source: Backend, target: Backend) -> str | None:
    """Bind a fresh target to the source's embedder; return its name if both have the same one."""
    ours, theirs = source.vectors.claim(), target.vectors.claim()
    if ours.name is None:
        return None
    if theirs.name is None:
        theirs = target.vectors.claim(ours.name, ours.dims)
    return ours.name if (ours.name, ours.dims) == (theirs.name, theirs.dims) else None


def _vector_rows(
    source: Backend, query: Query, records: Sequence[Searchable], numbers: Sequence[int]
) -> list[VectorRow]:
    """Return the source's vectors of records of the target, under the target's numbers."""
    if not records:
        return []
    kind, user_id = query.kinds[0], query.scope.user_id
    wanted = Query(scope=query.scope, kinds=(kind,), ids=tuple(r.id for r in records), limit=len(records))
    texts = {r.id: r.search_text for r in cast("Sequence[Searchable]", source.store.find(wanted))}
    same = [
        (record.id, number)
        for record, number in zip(records, numbers, strict=True)
        if texts.get(record.id) == record.search_text  # otherwise they are vectors of other words
    ]
    parts = source.vectors.read(query.scope, [(kind, id_) for id_, _ in same], exact=True)
    return [
        VectorRow(key=(user_id, number), vectors=parts.vectors[parts.rows == place])
        for place, (_, number) in enumerate(same)
        if (parts.rows == place).any()
    ]


def _fingerprint(side: Backend, scope: Scope) -> tuple[int, ...]:
    """Return figures that tell most changes of a user's memory."""
    return (side.store.changes(scope), *_counts(side, scope))


def _counts(side: Backend, scope: Scope) -> Iterator[int]:
    counts = side.store.count(Query(scope=scope, kinds=_COUNTED))
    yield from (counts[kind] for kind in _COUNTED)


def _number(side: Backend, scope: Scope, part: Part) -> int:
    if part == "trash":
        return sum(len(piece) for piece, _ in pieces(side, scope, part))
    return side.store.count(Query(scope=scope, kinds=(part,)))[part]


def _pending(side: Backend, scope: Scope) -> int:
    return side.store.count(Query(scope=scope))["vectors_pending"]
