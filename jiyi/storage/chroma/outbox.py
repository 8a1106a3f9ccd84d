"""The tables' notes about vectors in Chroma: removals still to be done, and differences."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jiyi.storage.chroma.collections import Collections, Item, vector_ids
from jiyi.storage.database import Connection, Database, batched, grouped
from jiyi.storage.relational.snapshot import read_spaces
from jiyi.telling import plural

_BATCH_SIZE = 1_000  # records removed at once
_COMPARED_ROWS = 5_000  # rows read at once
_LEASE_SECONDS = 120  # how long sending vectors to Chroma may take


class Outbox:
    """Removes vectors from Chroma that no record has any more.

    A trigger notes every removal of a record's vectors in the same transaction. The note is deleted
    when Chroma has removed them, so a crash in between loses nothing. Vectors are also noted before
    they are sent, and removed again if their record was not completed within two minutes.
    """

    def __init__(
        self, database: Database, collections: Collections, *, now: Callable[[], float] = time.time
    ) -> None:
        self._db = database
        self._collections = collections
        self._now = now
        # Set and number of vectors, by token, of what was sent in an open transaction.
        self._uncommitted: dict[str, tuple[int, int]] = {}

    def note_sent(self, db: Connection, items: Mapping[int, Sequence[Item]]) -> None:
        """Note vectors, by set, before they are sent."""
        until = int(self._now()) + _LEASE_SECONDS
        for space, own in items.items():
            for item in own:
                values = {"user_id": item.user_id, "token": item.token, "doc": item.doc, "space": space}
                db.run("chroma_add", values | {"parts": len(item.vectors), "until": until})

    def note_uncommitted(self, items: Mapping[int, Sequence[Item]]) -> None:
        """Remember what was sent inside a caller's transaction, which may be undone with its notes."""
        for space, own in items.items():
            self._uncommitted |= {item.token: (space, len(item.vectors)) for item in own}

    def in_use(self, space: int, *, besides: Sequence[str]) -> bool:
        """Return whether a set has other tokens than these, including those being sent."""
        with self._db.read() as db:
            tokens = db.dialect.array(list(besides))
            return db.first("chroma_in_use", {"space": space, "tokens": tokens}) is not None

    def drain(self) -> int:
        """Remove the noted vectors of all users from Chroma; return of how many records.

        Inside a transaction nothing is removed, because it may be undone.
        """
        done = 0
        while True:
            with self._db.read() as db:
                if db.in_transaction:
                    return done
                rows = db.rows("chroma_due", {"now": int(self._now()), "limit": _BATCH_SIZE})
            self._remove_noted(grouped(((user_id, space), token) for user_id, space, token, _ in rows))
            done += len(rows)
            if len(rows) < _BATCH_SIZE:
                self._remove_rolled_back()
                return done

    def _remove_noted(self, going: Mapping[tuple[str, int], Sequence[str]]) -> None:
        for (user_id, space), tokens in going.items():
            with self._db.write(user_id) as db:  # so that a process still adding them notices
                values = {"user_id": user_id, "tokens": db.dialect.array(tokens)}
                db.run("chroma_expire", values | {"now": int(self._now())})
                found = {token: parts for token, _, parts in db.rows("chroma_going", values)}
            self._erase(space, found)
            with self._db.write(user_id) as db:
                db.run("chroma_delete", {"user_id": user_id, "tokens": db.dialect.array(list(found))})

    def _remove_rolled_back(self) -> None:
        uncommitted = list(self._uncommitted.items())
        unknown = set(_unknown(self._db, [token for token, _ in uncommitted]))
        for token, (space, parts) in uncommitted:
            if token in unknown:
                self._erase(space, {token: parts})
            self._uncommitted.pop(token, None)

    def _erase(self, space: int, tokens: Mapping[str, int]) -> None:
        """Remove the vectors of tokens with their numbers of parts from Chroma."""
        ids = [id_ for token, parts in tokens.items() for id_ in vector_ids(token, parts)]
        if ids:
            self._collections.erase(space, ids)

    def forget_space(self, users: Sequence[str], space: int) -> None:
        """Drop a whole set and its notes."""
        self._collections.drop(space)
        for user_id in users:
            self._db.execute("chroma_forget_space", {"user_id": user_id, "space": space})


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The differences between the tables and Chroma."""

    held: int = 0  # records whose vectors should be in Chroma
    missing: tuple[tuple[str, int, str], ...] = ()  # user, set and token of records without all vectors
    stray: tuple[tuple[int, str], ...] = ()  # set and id of vectors without a record
    unused: tuple[int, ...] = ()  # sets in Chroma that are not in use
    waiting: int = 0  # records whose vectors are still to be removed, which is no difference
    users: tuple[str, ...] = field(default=(), repr=False)  # all that were compared

    @property
    def sound(self) -> bool:
        """Whether there is no difference."""
        return not (self.missing or self.stray or self.unused)

    def __str__(self) -> str:
        held, stray = plural(self.held, "record"), plural(len(self.stray), "vector")
        found = f"{held} with vectors in Chroma, {len(self.missing)} of them without all of theirs"
        unused = f", {plural(len(self.unused), 'collection')} not in use" if self.unused else ""
        waiting = f", {plural(self.waiting, 'record')} still to be taken out" if self.waiting else ""
        return f"{found}, {stray} of no record{unused}{waiting}"


def spaces_in_use(database: Database) -> list[int]:
    """Return the numbers of the sets of vectors that the tables name."""
    with database.read() as db:
        spaces = read_spaces(db)
    return [space for space in (spaces.number, spaces.next_number) if space is not None]


def drift(database: Database, collections: Collections) -> Drift:
    """Compare without changing anything; records saved or deleted meanwhile do not count as drift."""
    present = collections.spaces()  # first, because a set is noted before its collection is created
    users, spaces = database.users(), spaces_in_use(database)
    held, stray, missing = 0, list[tuple[int, str]](), list[tuple[str, int, str]]()
    for space in spaces:
        wanted: dict[str, tuple[str, int]] = {}  # user and number of vectors, by token
        for user_id in users:
            for token, parts, marked in _read_held(database, user_id, space):
                wanted[token] = (user_id, parts)
                if not marked:
                    stray += [(space, id_) for id_ in vector_ids(token, parts)]
            not_held = database.fetch("chroma_docs_not_held", {"user_id": user_id, "space": space})
            missing += [(user_id, space, "")] * len(not_held)
        held += len(wanted)
        ids = {token: vector_ids(token, parts) for token, (_, parts) in wanted.items()}
        there = {id_ for piece in collections.ids(space) for id_ in piece}
        absent = {token: wanted[token][1] for token in wanted if not there.issuperset(ids[token])}
        found = collections.read(space, absent) if there else {}
        missing += [(wanted[token][0], space, token) for token in absent if token not in found]
        unexpected = there.difference(*ids.values())
        of_tokens = grouped((id_.rpartition(".")[0], id_) for id_ in sorted(unexpected))
        stray += [(space, id_) for token in _unknown(database, list(of_tokens)) for id_ in of_tokens[token]]
    waiting = len(database.fetch("chroma_due", {"now": 0, "limit": _COMPARED_ROWS}))
    return Drift(
        held=held,
        missing=tuple(missing),
        stray=tuple(stray),
        unused=tuple(space for space in present if space not in spaces),
        waiting=waiting,
        users=tuple(users),
    )


def repair(database: Database, collections: Collections, outbox: Outbox) -> list[str]:
    """Repair differences; return a line for each thing that was done."""
    database.execute("chroma_prepare")
    lacking = 0
    for user_id in database.users():  # make the notes and the marks in the table vectors equal
        with database.write(user_id) as db:
            db.rows("chroma_drop_unmarked", {"user_id": user_id})
            lacking += len({row[0] for row in db.rows("chroma_unmark_not_held", {"user_id": user_id})})
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
    for user_id in found.users:  # records with a text and no vectors become pending
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


def _read_held(database: Database, user_id: str, space: int) -> Iterator[tuple[str, int, bool]]:
    after = ""
    while True:
        values = {"user_id": user_id, "space": space, "after": after, "limit": _COMPARED_ROWS}
        rows = database.fetch("chroma_held", values)
        yield from ((token, parts, bool(marked)) for token, parts, marked in rows)
        if len(rows) < _COMPARED_ROWS:
            return
        after = rows[-1][0]


def _unknown(database: Database, tokens: Sequence[str]) -> list[str]:
    """Return the tokens that are not noted for any user."""
    unknown: list[str] = []
    for batch in batched(tokens, _COMPARED_ROWS):
        with database.read() as db:
            known = {row[0] for row in db.rows("chroma_known_tokens", {"tokens": db.dialect.array(batch)})}
        unknown += [token for token in batch if token not in known]
    return unknown
