"""From memory to memory: everything as it is, between any two backends."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from jiyi.errors import CopyMismatch, NotFound
from jiyi.records import Kind, Query, Scope
from jiyi.storage.backend import Backend
from jiyi.storage.copy_check import check_part
from jiyi.storage.copy_parts import PARTS, Digest, Part, pieces_to_copy
from jiyi.storage.copy_records import put_piece
from jiyi.storage.copy_vectors import bind, copy_vectors

__all__ = ["CopyConflict", "CopyReceipt", "Told", "copy_memory"]

Told = Callable[[str, int, int], None]
"""Is told what is being done ("records", "vectors" or "checked"), how many are done, and of how many."""

_COUNTED: tuple[Kind, ...] = ("message", "task", "episode", "knowledge", "fact", "summary")
_NAMED = 100  # conflicts that a receipt names


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
    """Copy memories from one backend into another, and compare what came of it.

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
    run = _Run(source, target, PARTS if trash else PARTS[1:], _Counter(source, chosen, progress))
    looks = [run.copy_user(Scope(user_id=user)) for user in chosen]
    for user, look in zip(chosen, looks, strict=True):
        if look != run.look(Scope(user_id=user)):
            run.changed.setdefault(user)
    return CopyReceipt(
        users=chosen,
        added=run.added,
        known=run.known,
        vectors=run.vectors,
        embedder=run.embedder,
        conflicts=tuple(run.conflicts),
        conflicting=run.conflicting,
        extra=run.extra,
        changed=tuple(run.changed),
        checked=run.checked,
    )


class _Counter:
    """Tells how far a copy is."""

    def __init__(self, source: Backend, users: Sequence[str], told: Told | None) -> None:
        self._told = told
        self._done: dict[str, int] = {}
        self._total = sum(sum(_counts(source, Scope(user_id=user))) for user in users) if told else 0

    def add(self, what: str, count: int) -> None:
        """Say that so many more are done; the trash is counted as it is met."""
        done = self._done[what] = self._done.get(what, 0) + count
        if self._told:
            self._total = max(self._total, done)
            self._told(what, done, self._total)


class _Run:
    """One copy, user by user."""

    def __init__(self, source: Backend, target: Backend, parts: Sequence[Part], counter: _Counter) -> None:
        self._source, self._target, self._parts, self._counter = source, target, parts, counter
        self.embedder = bind(source, target)
        self.added: dict[Part, int] = dict.fromkeys(parts, 0)
        self.checked: dict[Part, Digest] = dict.fromkeys(parts, Digest())
        self.conflicts: list[CopyConflict] = []
        self.changed: dict[str, None] = {}
        self.known = self.vectors = self.conflicting = self.extra = 0

    def look(self, scope: Scope) -> tuple[int, ...]:
        """Return figures that tell most changes of a user's memory."""
        return (self._source.upkeep.changes(scope), *_counts(self._source, scope))

    def copy_user(self, scope: Scope) -> tuple[int, ...]:
        """Copy and compare a user's memory; return what `look` showed in between."""
        waiting = _pending(self._source, scope)
        copied = {part: self._copy_part(scope, part) for part in self._parts}
        if self.embedder and _pending(self._target, scope):
            told = partial(self._counter.add, "vectors")
            self.vectors += copy_vectors(self._source, self._target, scope, self.embedder, told)
        look = self.look(scope)
        changed, extra = False, self.extra
        for part, (digest, refused) in copied.items():
            checked = check_part(
                self._source,
                self._target,
                scope,
                part,
                copied=digest,
                refused=refused,
                told=partial(self._counter.add, "checked"),
            )
            self.checked[part] += checked.digest
            self.extra += checked.extra
            changed = changed or checked.changed
        if changed:
            self.changed.setdefault(scope.user_id)
        elif self.embedder and self.extra == extra and not any(refused for _, refused in copied.values()):
            self._check_vectors(scope, waiting)
        return look

    def _copy_part(self, scope: Scope, part: Part) -> tuple[Digest, int]:
        """Copy one part of a user's memory; return what was read, and how many records were left out."""
        digest, refused = Digest(), 0
        for piece, words in pieces_to_copy(self._source, scope, part):
            done = put_piece(self._source, self._target, scope, part, piece, words=words)
            digest += Digest.of(piece)
            refused += len(done.refused)
            self.added[part] += done.added
            self.known += done.known
            for (kind, id_), why in done.refused[: max(0, _NAMED - len(self.conflicts))]:
                self.conflicts.append(
                    CopyConflict(user_id=scope.user_id, part=part, kind=kind, id=id_, why=why)
                )
            self._counter.add("records", len(piece))
        self.conflicting += refused
        return digest, refused

    def _check_vectors(self, scope: Scope, waiting: int) -> None:
        """Compare how many records wait for vectors; some may have got theirs meanwhile."""
        here, there = max(waiting, _pending(self._source, scope)), _pending(self._target, scope)
        if there > here:
            raise CopyMismatch(
                f"{self._target.database.place}: user {scope.user_id!r}: {there} records lack vectors, "
                f"{here} in {self._source.database.place}; copy again"
            )


def _counts(side: Backend, scope: Scope) -> Iterator[int]:
    counts = side.store.count(Query(scope=scope, kinds=_COUNTED))
    yield from (counts[kind] for kind in _COUNTED)


def _pending(side: Backend, scope: Scope) -> int:
    return side.store.count(Query(scope=scope))["vectors_pending"]
