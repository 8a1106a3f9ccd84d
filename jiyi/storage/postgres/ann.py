"""An approximate index over all vectors, and when it is asked instead of comparing every vector of a user.

Comparing all is exact and costs time in proportion to what one user holds; the index (HNSW:
Malkov & Yashunin, "Efficient and robust approximate nearest neighbor search using Hierarchical
Navigable Small World graphs", IEEE TPAMI 42(4), 2020) costs about the same for any size, but it
knows no users: it walks through the nearest vectors of everybody and leaves out the others'. So
it pays for whoever holds many vectors and a good part of the table, and for nobody else.
``bench/ann.py`` measures both ways.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from psycopg import sql

from jiyi.errors import WrongState
from jiyi.records import Kind
from jiyi.storage.postgres.database import PostgresDatabase, Recent
from jiyi.storage.postgres.pool import connect
from jiyi.storage.postgres.statements import SQL
from jiyi.storage.relational.spaces import read_spaces

__all__ = ["ANN_FROM", "ANN_SHARE", "AnnIndex", "AnnPlan"]

ANN_FROM = 20_000
"""Vectors of one user and kind, times their share of the table, from which on the index is asked.

The time of comparing all grows with the vectors, that of the index with 1 / share; below this
product comparing all takes less than twice as long, and it is exact.
"""

ANN_SHARE = 0.3
"""What of the table they must be at least: of others' vectors the index would walk through too many."""

_EF_SEARCH = 300  # candidates kept while walking: what recall depends on; pgvector's 40 finds 8 of 10
_MOST_EF_SEARCH = 1_000  # pgvector's own limit
_MOST_SCANNED = 50_000  # where walking on ends: a question must not walk through the whole index
_M, _EF_CONSTRUCTION = 16, 128  # links of a vector, and candidates looked at when one is added
_MOST_DIMS = 4_000  # of a halfvec that pgvector can index
_MOST_PARTS = 150  # rows asked of the index: of twice as many it takes the best
_KNOWN_SECONDS = 60.0  # for which sizes are taken to be what they were
_KNOWN_USERS = 10_000
_NAME = "vectors_ann_"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnPlan:
    """How a user's question goes through the index."""

    space: int  # number of the set of vectors that it holds
    dims: int  # numbers in one of them
    kinds: frozenset[Kind]  # those it is asked for; the others are compared one by one
    ef_search: int  # candidates

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """Return the settings of pgvector for the statement.

        Where fewer candidates than asked for pass the conditions, the walk goes on beyond them.
        The order of what comes so may be a little off (relaxed), which costs less: the rows are
        put in their exact order afterwards.
        """
        return (
            ("hnsw.ef_search", str(self.ef_search)),
            ("hnsw.iterative_scan", "relaxed_order"),
            ("hnsw.max_scan_tuples", str(_MOST_SCANNED)),
            ("enable_sort", "off"),  # else the planner, who thinks sorting cheaper than it is, compares all
        )

    def of_kind(self, kind: Kind) -> str:
        """Return the part of the statement ``nearest`` for a kind."""
        return SQL["near_of_kind"].format(kind=kind, space=self.space, dims=self.dims)


class AnnIndex:
    """The index of one database, and what is known of sizes; that is asked again every minute."""

    def __init__(self, database: PostgresDatabase, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._db = database
        self._clock = clock
        self._known = Recent[tuple[float, Any]](_KNOWN_USERS)  # None: the index itself

    def plan(self, user_id: str, parts: int) -> AnnPlan | None:
        """Return how the index is asked for ``parts`` vectors of a user and a kind, None where it is not."""
        if parts > _MOST_PARTS or self._db.in_transaction:
            return None
        space, dims, vectors = self._asked(None, self._ask_index)
        if vectors < ANN_FROM:
            return None
        sizes: dict[Kind, int] = self._asked(user_id, lambda: self._ask_sizes(user_id))
        shares = {kind: min(1.0, n / vectors) for kind, n in sizes.items()}
        paying = {
            kind: share
            for kind, share in shares.items()
            if share >= ANN_SHARE and share * share * vectors >= ANN_FROM
        }
        if not paying:
            return None
        # Of the candidates only so many are the user's: as many more are needed.
        ef_search = min(round(_EF_SEARCH / min(paying.values())), _MOST_EF_SEARCH)
        return AnnPlan(space=space, dims=dims, kinds=frozenset(paying), ef_search=ef_search)

    def forget(self) -> None:
        """Ask for everything again: what was known is not so any more."""
        self._known.clear()

    def make(self) -> str:
        """Make the index for the set that is searched, or make it again; return what was done.

        Others read and write meanwhile. Indexes of other sets, and what is left of one that was
        broken off, go.

        Raises:
            WrongState: there is no embedder yet, or its vectors are too long; or inside a transaction;
                or the rows lie on several machines, where no size of one index is known.
        """
        if self._db.in_transaction:
            raise WrongState("an index is made outside a transaction; call it after that")
        if self._db.citus:
            raise WrongState(
                f"{self._db.place} is spread over machines by Citus, where vectors are compared one by one; "
                "the index would never be asked: leave it out"
            )
        with self._db.read() as db:
            spaces = read_spaces(db)
        if spaces.dims is None:
            raise WrongState(f"{self._db.place} holds no vectors yet; save something first")
        if spaces.dims > _MOST_DIMS:
            raise WrongState(f"vectors of {spaces.dims} numbers cannot be indexed; {_MOST_DIMS} is the most")
        name, started = f"{_NAME}{spaces.number}_{spaces.dims}", time.monotonic()
        with connect(self._db.url) as raw:
            for (old,) in raw.execute(SQL["ann_names"]).fetchall():
                raw.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier(old)))
            raw.execute("SET statement_timeout = 0; SET lock_timeout = 0")
            words = SQL["make_ann"].format(
                name=name, space=spaces.number, dims=spaces.dims, m=_M, ef_construction=_EF_CONSTRUCTION
            )
            raw.execute(words.encode())
        self.forget()
        return f"made the index {name} in {time.monotonic() - started:.0f} s"

    def _asked(self, whose: str | None, ask: Callable[[], Any]) -> Any:
        """Return what was asked for within the last minute, or ask."""
        now = self._clock()
        known = self._known.get(whose)
        if known is None or now - known[0] > _KNOWN_SECONDS:
            known = now, ask()
            self._known.put(whose, known)
        return known[1]

    def _ask_index(self) -> tuple[int, int, int]:
        """Return the set of the index, numbers in a vector, and about how many there are: 0 without one."""
        name, vectors = next(iter(self._db.fetch("ann_index")), (f"{_NAME}0_0", 0))
        space, dims = str(name).removeprefix(_NAME).split("_")
        return int(space), int(dims), int(vectors)

    def _ask_sizes(self, user_id: str) -> dict[Kind, int]:
        rows = self._db.fetch("count_kinds", {"user_id": user_id})
        return {cast("Kind", kind): int(count) for kind, count in rows}
