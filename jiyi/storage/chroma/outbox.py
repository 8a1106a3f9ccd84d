"""What the store's tables know of the vectors in Chroma, and the work there that is still to be done."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from jiyi.storage.chroma.collections import Collections, vector_ids
from jiyi.storage.database import Connection, Database

__all__ = ["Outbox"]

_PIECE = 1_000  # records taken out at once
_LEASE_SECONDS = 120  # how long vectors may take on their way to Chroma

_Going = Mapping[tuple[str, int], Mapping[str, int]]
"""By user and set: tokens with the number of their vectors."""


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
            tokens = db.dialect.listed(list(besides))
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
            going: dict[tuple[str, int], dict[str, int]] = {}
            for user_id, space, token, parts in rows:
                going.setdefault((user_id, space), {})[token] = parts
            self._take_out(going)
            done += len(rows)
            if len(rows) < _PIECE:
                self._settle_suspects()
                return done

    def _take_out(self, going: _Going) -> None:
        for (user_id, space), tokens in going.items():
            with self._db.write(user_id) as db:  # whoever is still adding them learns that they are gone
                values = {"user_id": user_id, "tokens": db.dialect.listed(list(tokens))}
                db.run("chroma_expire", values | {"now": int(self._now())})
                found = {token: parts for token, _, parts in db.rows("chroma_going", values)}
            self.erase(space, found)
            with self._db.write(user_id) as db:
                db.run("chroma_gone", {"user_id": user_id, "tokens": db.dialect.listed(list(found))})

    def _settle_suspects(self) -> None:
        """Take out what a transaction that was undone had sent."""
        for user_id, pieces in _by_user(self._unsure):
            with self._db.read(user_id) as db:
                tokens = db.dialect.listed(list(pieces))
                known = {row[0] for row in db.rows("chroma_known", {"user_id": user_id, "tokens": tokens})}
            for token, (_, space, parts) in pieces.items():
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
            with self._db.write(user_id) as db:
                db.run("chroma_forget_space", {"user_id": user_id, "space": space})


def _by_user(
    unsure: Mapping[str, tuple[str, int, int]],
) -> Iterator[tuple[str, dict[str, tuple[str, int, int]]]]:
    users = dict.fromkeys(user_id for user_id, _, _ in list(unsure.values()))
    for user_id in users:
        yield user_id, {token: item for token, item in list(unsure.items()) if item[0] == user_id}
