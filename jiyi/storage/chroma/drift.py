"""Where Chroma and the rows do not agree, and how that is mended."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from jiyi.storage.chroma.collections import Collections, vector_ids
from jiyi.storage.chroma.outbox import Outbox
from jiyi.storage.database import Database
from jiyi.storage.relational.spaces import read_spaces

__all__ = ["Drift", "drift", "repair", "spaces_in_use"]

_PIECE = 5_000  # rows read at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What does not agree; nothing in figures means that all does."""

    held: int = 0  # records whose vectors should be in Chroma
    missing: tuple[tuple[str, int, str], ...] = ()  # user, set and token of records without theirs
    stray: tuple[tuple[int, str], ...] = ()  # set and id of vectors there that no record has any more
    unused: tuple[int, ...] = ()  # sets there that are in use no more
    waiting: int = 0  # records whose vectors are still to be taken out; not wrong
    users: tuple[str, ...] = field(default=(), repr=False)  # everybody who was looked at

    @property
    def sound(self) -> bool:
        """Whether everything agrees."""
        return not (self.missing or self.stray or self.unused)

    def __str__(self) -> str:
        found = (
            f"{self.held} records with vectors in Chroma, {len(self.missing)} of them without all of theirs, "
            f"{len(self.stray)} vectors of no record"
        )
        unused = f", {len(self.unused)} collections not in use" if self.unused else ""
        return found + unused + (f", {self.waiting} records still to be taken out" if self.waiting else "")


def spaces_in_use(database: Database) -> list[int]:
    """Return the numbers of the sets of vectors that the rows speak of."""
    with database.read() as db:
        spaces = read_spaces(db)
    return [space for space in (spaces.number, spaces.next_number) if space is not None]


def drift(database: Database, collections: Collections) -> Drift:
    """Compare without changing anything; what is saved or deleted meanwhile does not count as drift."""
    present = collections.spaces()  # first: a set is noted before its collection is made
    users, spaces = database.users(), spaces_in_use(database)
    held, stray, missing = 0, list[tuple[int, str]](), list[tuple[str, int, str]]()
    for space in spaces:
        wanted: dict[str, tuple[str, int]] = {}  # user and number of vectors, by token
        for user_id in users:
            for token, parts, marked in _held(database, user_id, space):
                wanted[token] = (user_id, parts)
                if not marked:
                    stray += [(space, id_) for id_ in vector_ids(token, parts)]
            missing += [(user_id, space, "")] * _unheld(database, user_id, space)
        held += len(wanted)
        ids = {token: vector_ids(token, parts) for token, (_, parts) in wanted.items()}
        there = {id_ for piece in collections.ids(space) for id_ in piece}
        absent = {token: wanted[token][1] for token in wanted if not there.issuperset(ids[token])}
        found = collections.read(space, absent) if there else {}
        missing += [(wanted[token][0], space, token) for token in absent if token not in found]
        unexpected = there.difference(*ids.values())
        stray += [(space, id_) for id_ in _unknown(database, sorted(unexpected))]
    with database.read() as db:
        waiting = len(db.rows("chroma_to_go", {"now": 0, "limit": _PIECE}))
    return Drift(
        held=held,
        missing=tuple(missing),
        stray=tuple(stray),
        unused=tuple(space for space in present if space not in spaces),
        waiting=waiting,
        users=tuple(users),
    )


def repair(database: Database, collections: Collections, outbox: Outbox) -> list[str]:
    """Mend it; return what was done, a line each."""
    with database.write() as db:
        db.run("chroma_prepare", {})
    loose = sum(_agree(database, user_id) for user_id in database.users())
    taken = outbox.drain()
    found = drift(database, collections)
    for space in {space for space, _ in found.stray}:
        collections.erase(space, [id_ for other, id_ in found.stray if other == space])
    again = sum(_again(database, *group) for group in _groups(found.missing))
    for space in found.unused:
        outbox.forget_space(found.users, space)
    for user_id in found.users:
        _mark(database, user_id)
    outbox.drain()
    done = {
        "records marked as lacking their vectors": loose + again,
        "records' vectors taken out of Chroma": taken,
        "vectors of no record removed from Chroma": len(found.stray),
        "unused collections removed": len(found.unused),
    }
    return [f"{count} {what}" for what, count in done.items() if count]


def _held(database: Database, user_id: str, space: int) -> Iterator[tuple[str, int, bool]]:
    after = ""
    while True:
        with database.read(user_id) as db:
            values = {"user_id": user_id, "space": space, "after": after, "limit": _PIECE}
            rows = db.rows("chroma_held", values)
        yield from ((token, parts, bool(marked)) for token, parts, marked in rows)
        if len(rows) < _PIECE:
            return
        after = rows[-1][0]


def _unheld(database: Database, user_id: str, space: int) -> int:
    with database.read(user_id) as db:
        return len(db.rows("chroma_unheld", {"user_id": user_id, "space": space}))


def _unknown(database: Database, ids: Sequence[str]) -> list[str]:
    """Return the ids whose tokens no row knows: neither held, nor on the way, nor to be taken out."""
    unknown: list[str] = []
    for start in range(0, len(ids), _PIECE):
        piece = ids[start : start + _PIECE]
        with database.read() as db:
            tokens = db.dialect.listed([id_.rpartition(".")[0] for id_ in piece])
            known = {row[0] for row in db.rows("chroma_known_to_any", {"tokens": tokens})}
        unknown += [id_ for id_ in piece if id_.rpartition(".")[0] not in known]
    return unknown


def _agree(database: Database, user_id: str) -> int:
    """Make what is held and what has vectors by the rows the same; return how many lack theirs."""
    with database.write(user_id) as db:
        db.rows("chroma_without_mark", {"user_id": user_id})
        return len({row[0] for row in db.rows("chroma_mark_without", {"user_id": user_id})})


def _again(database: Database, user_id: str, space: int, tokens: Sequence[str]) -> int:
    with database.write(user_id) as db:
        values = {"user_id": user_id, "space": space, "tokens": db.dialect.listed(tokens)}
        return len({row[0] for row in db.rows("chroma_unmark", values)})


def _mark(database: Database, user_id: str) -> None:
    """Let everything wait that has a text and no vectors."""
    with database.write(user_id) as db:
        db.run("mark_pending", {"user_id": user_id, "space": read_spaces(db).number})


def _groups(missing: Sequence[tuple[str, int, str]]) -> Iterator[tuple[str, int, list[str]]]:
    groups: dict[tuple[str, int], list[str]] = {}
    for user_id, space, token in missing:
        groups.setdefault((user_id, space), []).append(token)
    for (user_id, space), tokens in groups.items():
        yield user_id, space, tokens
