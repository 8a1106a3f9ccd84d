"""Vectors of users who have few, held in the process: comparing them here is quicker than on the server."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jiyi.storage.database import Call, Connection, Database
from jiyi.storage.relational.users import Snapshot, cached_part
from jiyi.storage.user_vectors import UserVectors

__all__ = ["HELD", "HeldVectors", "as_floats", "held_vectors"]

HELD = 4_000
"""A user with more records or vectors is compared on the server: reading them once would take too long."""

_HEAD = 2  # halves before the numbers in a vector's binary form


@dataclass(slots=True)
class HeldVectors(UserVectors):
    """All vectors of a user, and what is asked for the next time to find the new ones."""

    after: int = 0  # newest row looked at
    waiting: list[int] = field(default_factory=list)  # rows up to there that have no vectors yet
    many: bool = False  # too many; nothing is held

    def calls(self, user_id: str) -> list[Call]:
        """Return what gives the vectors that are not held; ``generation`` says what that builds on."""
        whose = {"user_id": user_id, "space": self.space, "generation": self.generation}
        calls = [Call("new_vectors", {**whose, "after": self.after, "limit": HELD + 1})]
        return [*calls, *([Call("read_vectors", {**whose, "docs": self.waiting})] if self.waiting else [])]


def held_vectors(database: Database, db: Connection, seen: Snapshot) -> HeldVectors | None:
    """Return a user's vectors as of a snapshot; None where they are many, or inside a transaction."""
    if db.in_transaction:
        return None
    mine = cached_part(database, db, seen, HeldVectors, partial(_take_in, db, seen))
    return None if mine.many else mine


def as_floats(rows: Sequence[tuple[Any, ...]]) -> NDArray[np.float32]:
    """Return the vectors of rows, whose second column has their binary form."""
    numbers = np.frombuffer(b"".join(row[1] for row in rows), ">f2")
    return numbers.reshape(len(rows), -1)[:, _HEAD:].astype(np.float32)


def _take_in(db: Connection, seen: Snapshot, mine: HeldVectors) -> None:
    """Hold what is new since the last time, or nothing where it is too much."""
    if mine.space != seen.spaces.number:
        mine.reset(seen.spaces.number)
    if not mine.many and (seen.terms.size > HELD or not _add_new(db, seen, mine)):
        mine.reset(mine.space)
        mine.many = True


def _add_new(db: Connection, seen: Snapshot, mine: HeldVectors) -> bool:
    """Add what the look itself asked for, else ask now; return False where it is too much."""
    answers = [answer for _, answer in seen.extra_answers] if _follows(seen, mine) else []
    answers = answers or db.fetch_all(mine.calls(seen.user_id))
    rows = [row for answer in answers for row in answer.rows]
    known = set(mine.docs[: mine.size].tolist()) if rows else ()
    rows = [row for row in rows if row[0] not in known]
    if mine.size + len(rows) > HELD:
        return False
    if rows:
        docs = np.array([row[0] for row in rows], np.int64)
        mine.append(np.arange(mine.size, mine.size + len(rows)), docs, as_floats(rows))
    last = max(mine.after, seen.terms.last_doc)
    if rows or last > mine.after:
        new = seen.terms.columns["doc"][np.searchsorted(seen.terms.columns["doc"], mine.after, "right") :]
        asked = np.concatenate([np.array(mine.waiting, np.int64), new])
        mine.waiting = asked[~np.isin(asked, mine.docs[: mine.size])].tolist()
        mine.after = last
    return True


def _follows(seen: Snapshot, mine: HeldVectors) -> bool:
    """Say whether what the look found follows on what is held now: another thread may have been at it."""
    asked = seen.extra_answers[0][0].values if seen.extra_answers else {}
    same = (asked.get("generation"), asked.get("space")) == (mine.generation, mine.space)
    return same and int(asked["after"]) <= mine.after
