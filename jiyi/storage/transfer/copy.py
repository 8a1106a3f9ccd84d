"""From database to database: everything as it is, between any two backends, and compared in the end."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from jiyi.errors import CopyMismatch, NotFound
from jiyi.records import SEARCHABLE, Kind, Query, Scope, Searchable
from jiyi.storage.backend import Backend
from jiyi.storage.pages import all_pages
from jiyi.storage.transfer.pieces import PARTS, PIECE, Digest, Part, compared, pieces, put_piece
from jiyi.storage.trash import key_of
from jiyi.storage.vectors import VectorRow

__all__ = ["CopyReceipt", "Told", "copy_memory"]

Told = Callable[[str, int, int], None]
"""Is told what is being done ("records", "vectors" or "checked"), how many are done, and of how many."""

_COUNTED: tuple[Kind, ...] = (*SEARCHABLE, "task", "summary")


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReceipt:
    """What a copy did and what both ends hold now."""

    users: tuple[str, ...]  # whose memory was copied
    added: Mapping[Part, int]  # records that are new in the target, by kind
    known: int  # records that were there already, the same
    vectors: int  # records that got their vectors from the source
    embedder: str | None  # both ends' embedder; None: they have different ones, or the source has none
    checked: Mapping[Part, Digest]  # what both ends hold


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

    Nothing in the source changes. Of each user the target holds nothing yet, or a part of the same
    records: broken off at any moment, the copy goes on when it is called again, and ends the same.
    Nobody may write to the memories of these users meanwhile. Memory holds a few thousand records.

    Args:
        source, target: the ends.
        users: whose memory; everybody's by default.
        trash: copy the trash along.
        progress: see `Told`.

    Raises:
        NotFound: the source knows nothing of a user.
        CopyMismatch: the target holds something that the source does not, found before anything of
            this user is written; or in the end it does not hold all that was read.
        StorageError: a database failed.
    """
    there = source.database.users()
    unknown = sorted(set(users or ()) - set(there))
    if unknown:
        raise NotFound(f"{source.database.place} holds nothing of user {', '.join(map(repr, unknown))}")
    chosen = tuple(there) if users is None else tuple(dict.fromkeys(users))
    copy = _Copy(source, target, PARTS if trash else PARTS[1:], progress)
    if progress:
        copy.total = sum(_count(source, Scope(user_id=user)) for user in chosen)
    for user in chosen:
        copy.user(Scope(user_id=user))
    return CopyReceipt(
        users=chosen,
        added=copy.added,
        known=copy.known,
        vectors=copy.vectors,
        embedder=copy.embedder,
        checked=copy.checked,
    )


class _Copy:
    def __init__(self, source: Backend, target: Backend, parts: Sequence[Part], told: Told | None) -> None:
        self._source, self._target, self._parts, self._told = source, target, parts, told
        self.embedder = _bind(source, target)
        self.added: dict[Part, int] = dict.fromkeys(parts, 0)
        self.checked: dict[Part, Digest] = dict.fromkeys(parts, Digest())
        self.known = self.vectors = 0
        self.total = 0  # records to be told of
        self._done = Counter[str]()

    def _tell(self, what: str, count: int) -> None:
        """Say that so many more are done; the trash is counted as it is met."""
        self._done[what] += count
        self.total = max(self.total, self._done[what])
        if self._told:
            self._told(what, self._done[what], self.total)

    def user(self, scope: Scope) -> None:
        """Copy and compare a user's memory."""
        for part in self._parts:
            self._check_before(scope, part)
        copied = {part: self._copy_part(scope, part) for part in self._parts}
        if self.embedder and _pending(self._target, scope):
            self.vectors += self._copy_vectors(scope, self.embedder)
        for part, digest in copied.items():
            self._check_after(scope, part, digest)
        here, there = _pending(self._source, scope), _pending(self._target, scope)
        if self.embedder and there > here:
            raise self._mismatch(scope, f"{there} records lack vectors, {here} in the source")

    def _check_before(self, scope: Scope, part: Part) -> None:
        """Refuse a target that holds anything of a user's but records of the source."""
        for piece, _ in pieces(self._target, scope, part):
            missing, differing = compared(self._source, scope, part, piece)
            for item in (*differing, *missing):
                how = "differs from the source's" if item in differing else "is not in the source"
                raise self._mismatch(scope, f"{part} {key_of(item)[1]} {how}")

    def _copy_part(self, scope: Scope, part: Part) -> Digest:
        """Copy one part of a user's memory; return what was read."""
        digest = Digest()
        for piece, words in pieces(self._source, scope, part, words=True):
            done = put_piece(self._source, self._target, scope, part, piece, words=words)
            for (_, id_), why in done.refused:
                raise self._mismatch(scope, f"{part} {id_}: {why}")
            digest += Digest.of(piece)
            self.added[part] += done.added
            self.known += done.known
            self._tell("records", len(piece))
        return digest

    def _check_after(self, scope: Scope, part: Part, copied: Digest) -> None:
        """Verify that the target holds what was read, and nothing else."""
        held = Digest()
        for piece, _ in pieces(self._target, scope, part):
            held += Digest.of(piece)
            self._tell("checked", len(piece))
        if held != copied:
            told = f"{copied.count} records were read ({copied.hex}), {held.count} are there ({held.hex})"
            raise self._mismatch(scope, f"{part}: {told}")
        self.checked[part] += held

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

    def _mismatch(self, scope: Scope, what: str) -> CopyMismatch:
        return CopyMismatch(
            f"{self._target.database.place} does not hold what {self._source.database.place} holds of user "
            f"{scope.user_id!r}: {what}; copy into a fresh place while nobody writes"
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


def _count(side: Backend, scope: Scope) -> int:
    counts = side.store.count(Query(scope=scope, kinds=_COUNTED))
    return sum(counts[kind] for kind in _COUNTED)


def _pending(side: Backend, scope: Scope) -> int:
    return side.store.count(Query(scope=scope))["vectors_pending"]
