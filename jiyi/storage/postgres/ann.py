"""An approximate index over all vectors, and when it is used instead of comparing every vector of a user.

Comparing all is exact and takes time proportional to the user's vectors; the index (HNSW:
Malkov & Yashunin, "Efficient and robust approximate nearest neighbor search using Hierarchical
Navigable Small World graphs", IEEE TPAMI 42(4), 2020) takes about the same time for any size, but
it is not split by user: it walks through the nearest vectors of all users and skips those of others.
So it is faster only for users with a large part of a large table (measured by ``bench/ann.py``).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from jiyi.errors import WrongState
from jiyi.records import Kind
from jiyi.storage.postgres.database import PostgresDatabase
from jiyi.storage.postgres.pool import connect
from jiyi.storage.postgres.statements import SQL
from jiyi.storage.relational.snapshot import read_spaces

ANN_FROM = 20_000
"""The index is used from this product of vectors of one user and kind and their share of the table.

The time for comparing all grows with the vectors, that for the index with 1 / share; below this
product comparing all takes less than twice as long, and it is exact.
"""

ANN_SHARE = 0.3
"""The smallest share of the table for the index: below it walks through too many vectors of others."""

_EF_SEARCH = 300  # candidates during the walk, which determine recall; pgvector's 40 find 8 of 10
_MAX_EF_SEARCH = 1_000  # pgvector's limit
_MAX_SCANNED = 50_000  # vectors visited by a query
_M, _EF_CONSTRUCTION = 16, 128  # links of a vector, and candidates compared when one is added
_MAX_DIMS = 4_000  # of a halfvec that pgvector can index
_MAX_PARTS = 150  # rows asked of the index, the best of twice as many
_CACHE_SECONDS = 60.0  # how long sizes are cached
_CACHE_USERS = 10_000
_NAME = "vectors_ann_"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnPlan:
    """How a user's query uses the index."""

    space: int  # number of the indexed set of vectors
    dims: int  # numbers in one of them
    kinds: frozenset[Kind]  # kinds for which it is used; of the others all vectors are compared
    ef_search: int  # candidates

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """Return the settings of pgvector for the statement.

        If too few candidates meet the conditions, the walk continues. Further rows may come slightly
        out of order (relaxed), which is faster; the rows are sorted exactly afterwards.
        """
        return (
            ("hnsw.ef_search", str(self.ef_search)),
            ("hnsw.iterative_scan", "relaxed_order"),
            ("hnsw.max_scan_tuples", str(_MAX_SCANNED)),
            ("enable_sort", "off"),  # the planner underestimates sorting and would compare all
        )


class AnnIndex:
    """The index of one database, and a cache of the sizes that decide about its use."""

    def __init__(self, database: PostgresDatabase, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._db = database
        self._clock = clock
        self._cache: dict[str | None, tuple[float, Any]] = {}  # by user; None is the index

    def plan(self, user_id: str, parts: int) -> AnnPlan | None:
        """Return how to use the index for ``parts`` vectors of a user and each kind, None if not at all."""
        if parts > _MAX_PARTS or self._db.in_transaction:
            return None
        space, dims, vectors = self._cached(None, self._read_index)
        if vectors < ANN_FROM:
            return None
        whose = {"user_id": user_id}
        sizes: dict[Kind, int] = self._cached(user_id, lambda: dict(self._db.fetch("count_kinds", whose)))
        shares = {kind: min(1.0, n / vectors) for kind, n in sizes.items()}
        large = {kind: share for kind, share in shares.items() if share >= ANN_SHARE}
        paying = {kind: share for kind, share in large.items() if share * share * vectors >= ANN_FROM}
        if not paying:
            return None
        # Only this share of the candidates are the user's, so more are needed.
        ef_search = min(round(_EF_SEARCH / min(paying.values())), _MAX_EF_SEARCH)
        return AnnPlan(space=space, dims=dims, kinds=frozenset(paying), ef_search=ef_search)

    def forget(self) -> None:
        """Drop the cached sizes."""
        self._cache.clear()

    def make(self) -> str:
        """Create the index for the searched set, or create it again; return what was done.

        Others can read and write meanwhile. Indexes of other sets and of interrupted runs are dropped.
        Raises `WrongState` if there is no embedder yet, or its vectors are too long; inside a transaction;
        and if the rows are on several machines, where the size of the index is not known.
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
        if spaces.dims > _MAX_DIMS:
            raise WrongState(f"vectors of {spaces.dims} numbers cannot be indexed; {_MAX_DIMS} is the most")
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

    def _cached(self, whose: str | None, ask: Callable[[], Any]) -> Any:
        now = self._clock()
        known = self._cache.get(whose)
        if known is None or now - known[0] > _CACHE_SECONDS:
            known = now, ask()
            if len(self._cache) > _CACHE_USERS:
                self._cache.clear()
            self._cache[whose] = known
        return known[1]

    def _read_index(self) -> tuple[int, int, int]:
        """Return the set of the index, its dims and the approximate number of vectors, 0 without an index."""
        name, vectors = next(iter(self._db.fetch("ann_index")), (f"{_NAME}0_0", 0))
        space, dims = str(name).removeprefix(_NAME).split("_")
        return int(space), int(dims), int(vectors)
