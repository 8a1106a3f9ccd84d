"""What the tables know of the vectors in Chroma: work still to be done, and what disagrees."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jiyi.storage.chroma.collections import Collections, vector_ids
from jiyi.storage.database import Connection, Database, grouped
from jiyi.storage.relational.spaces import read_spaces

__all__ = ["Drift", "Outbox", "drift", "repair", "spaces_in_use"]

_PIECE = 1_000  # records taken out at once
_LOOKED_AT = 5_000  # rows read at once to compare
_LEASE_SECONDS = 120  # how long vectors may take on their way to Chroma


class Outbox:
    """Takes out of Chroma what the rows no longer have.

    Whatever removes a record's vectors, a trigger notes it in the same transaction. The note goes when
    Chroma has done it: a crash in between loses nothing. The same holds for vectors on their way to
    Chroma: they are noted before they are sent, and taken out again when their record did not take
    them within two minutes.
    """

    def __init__(
        self, database: Database, collections: Collections, *, now: Callable[[], float] = time.time
    ) -> None:
        self._db = database
        self._collections = collections
        self._now = now
        self._unsure: dict[str, tuple[str, int, int]] = {}  # sent inside a transaction: user, set, vectors

    def begin(self, db: Connection, user_id: str, sent: Mapping[str, tuple[int, int, int]]) -> None:
        """Note vectors before they are sent: by token the record's number, the set and how many there are."""
        until = int(self._now()) + _LEASE_SECONDS
        for token, (doc, space, parts) in sent.items():
            values = {"user_id": user_id, "token": token, "doc": doc, "space": space}
            db.run("chroma_begin", values | {"parts": parts, "until": until})

    def suspect(self, user_id: str, sent: Mapping[str, tuple[int, int, int]]) -> None:
        """Remember what was sent inside a transaction of others, which may be undone with its notes."""
        self._unsure |= {token: (user_id, space, parts) for token, (_, space, parts) in sent.items()}

    def in_use(self, space: int, *, besides: Sequence[str]) -> bool:
        """Say whether anything but these tokens is in a set, or on its way there."""
        with self._db.read() as db:
            tokens = db.dialect.array(list(besides))
            return db.first("chroma_in_use", {"space": space, "tokens": tokens}) is not None

    def drain(self) -> int:
        """Do in Chroma what is noted, of all users; return how many records' vectors were taken out.

        Inside a transaction nothing is done: it may be undone.
        """
        done = 0
        while True:
            with self._db.read() as db:
                if db.in_transaction:
                    return done
                rows = db.rows("chroma_to_go", {"now": int(self._now()), "limit": _PIECE})
            self._take_out(grouped(((user_id, space), token) for user_id, space, token, _ in rows))
            done += len(rows)
            if len(rows) < _PIECE:
                self._settle_suspects()
                return done

    def _take_out(self, going: Mapping[tuple[str, int], Sequence[str]]) -> None:
        for (user_id, space), tokens in going.items():
            with self._db.write(user_id) as db:  # whoever is still adding them learns that they are gone
                values = {"user_id": user_id, "tokens": db.dialect.array(tokens)}
                db.run("chroma_expire", values | {"now": int(self._now())})
                found = {token: parts for token, _, parts in db.rows("chroma_going", values)}
            self.erase(space, found)
            with self._db.write(user_id) as db:
                db.run("chroma_gone", {"user_id": user_id, "tokens": db.dialect.array(list(found))})

    def _settle_suspects(self) -> None:
        """Take out what a transaction that was undone had sent."""
        unsure = list(self._unsure.items())
        for user_id, pieces in grouped((sent[0], (token, sent)) for token, sent in unsure).items():
            with self._db.read(user_id) as db:
                tokens = db.dialect.array([token for token, _ in pieces])
                known = {row[0] for row in db.rows("chroma_known", {"user_id": user_id, "tokens": tokens})}
            for token, (_, space, parts) in pieces:
                if token not in known:
                    self.erase(space, {token: parts})
                self._unsure.pop(token, None)

    def erase(self, space: int, tokens: Mapping[str, int]) -> None:
        """Take the vectors of these tokens out of Chroma."""
        ids = [id_ for token, parts in tokens.items() for id_ in vector_ids(token, parts)]
        if ids:
            self._collections.erase(space, ids)

    def forget_space(self, users: Sequence[str], space: int) -> None:
        """Drop a whole set, and all that is noted of it."""
        self._collections.drop(space)
        for user_id in users:
            self._db.execute("chroma_forget_space", {"user_id": user_id, "space": space})


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
            unheld = database.fetch("chroma_unheld", {"user_id": user_id, "space": space})
            missing += [(user_id, space, "")] * len(unheld)
        held += len(wanted)
        ids = {token: vector_ids(token, parts) for token, (_, parts) in wanted.items()}
        there = {id_ for piece in collections.ids(space) for id_ in piece}
        absent = {token: wanted[token][1] for token in wanted if not there.issuperset(ids[token])}
        found = collections.read(space, absent) if there else {}
        missing += [(wanted[token][0], space, token) for token in absent if token not in found]
        unexpected = there.difference(*ids.values())
        stray += [(space, id_) for id_ in _unknown(database, sorted(unexpected))]
    waiting = len(database.fetch("chroma_to_go", {"now": 0, "limit": _LOOKED_AT}))
    return Drift(
        held=held,
        missing=tuple(missing),
        stray=tuple(stray),
        unused=tuple(space for space in present if space not in spaces),
        waiting=waiting,
        users=tuple(users),
    )


def repair(database: Database, collections: Collections, outbox: Outbox) -> list[str]:
    """Repair it; return what was done, a line each."""
    database.execute("chroma_prepare")
    lacking = 0
    for user_id in database.users():  # what is held and what has vectors by the rows become the same
        with database.write(user_id) as db:
            db.rows("chroma_without_mark", {"user_id": user_id})
            lacking += len({row[0] for row in db.rows("chroma_mark_without", {"user_id": user_id})})
    taken = outbox.drain()
    found = drift(database, collections)
    for space in {space for space, _ in found.stray}:
        collections.erase(space, [id_ for other, id_ in found.stray if other == space])
    missing = grouped(((user_id, space), token) for user_id, space, token in found.missing)
    for (user_id, space), tokens in missing.items():
        with database.write(user_id) as db:
            values = {"user_id": user_id, "space": space, "tokens": db.dialect.array(tokens)}
            lacking += len({row[0] for row in db.rows("chroma_unmark", values)})
    for space in found.unused:
        outbox.forget_space(found.users, space)
    for user_id in found.users:  # everything waits that has a text and no vectors
        with database.write(user_id) as db:
            db.run("mark_pending", {"user_id": user_id, "space": read_spaces(db).number})
    outbox.drain()
    done = {
        "records marked as lacking their vectors": lacking,
        "records' vectors taken out of Chroma": taken,
        "vectors of no record removed from Chroma": len(found.stray),
        "unused collections removed": len(found.unused),
    }
    return [f"{count} {what}" for what, count in done.items() if count]


def _held(database: Database, user_id: str, space: int) -> Iterator[tuple[str, int, bool]]:
    after = ""
    while True:
        values = {"user_id": user_id, "space": space, "after": after, "limit": _LOOKED_AT}
        rows = database.fetch("chroma_held", values)
        yield from ((token, parts, bool(marked)) for token, parts, marked in rows)
        if len(rows) < _LOOKED_AT:
            return
        after = rows[-1][0]


def _unknown(database: Database, ids: Sequence[str]) -> list[str]:
    """Return the ids whose tokens no row knows: neither held, nor on the way, nor to be taken out."""
    unknown: list[str] = []
    for start in range(0, len(ids), _LOOKED_AT):
        piece = ids[start : start + _LOOKED_AT]
        with database.read() as db:
            tokens = db.dialect.array([id_.rpartition(".")[0] for id_ in piece])
            known = {row[0] for row in db.rows("chroma_known_to_any", {"tokens": tokens})}
        unknown += [id_ for id_ in piece if id_.rpartition(".")[0] not in known]
    return unknown
