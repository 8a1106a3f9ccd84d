"""The vector index: the protocol every backend follows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from jiyi.records import Match, Query, Scope
from jiyi.storage.candidates import Key

__all__ = ["Parts", "PendingText", "VectorIndex", "VectorRow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingText:
    """A record that still lacks its vectors."""

    key: int  # the index's own key, to be handed back
    text: str  # what to embed
    role: str | None = None  # of a message


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorRow:
    """The vectors of one record: one for each part of its text."""

    key: int  # from `PendingText`
    vectors: NDArray[np.float32]  # shape (parts, dims), rows of length 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parts:
    """Vectors of some records: one for each part of their texts."""

    rows: NDArray[np.intp]  # place of the record among those that were asked for
    vectors: NDArray[np.float32]  # shape (parts, dims), rows of length 1


class VectorIndex(Protocol):
    """Keeps vectors beside a store's rows and finds the nearest.

    A row is written without its vector and marked as pending; whoever embeds asks for
    pending texts and adds their vectors. A record deleted meanwhile is passed over.
    """

    def claim(self, name: str, dims: int | None = None) -> None:
        """Bind the data to an embedder, or check that it is bound to this one.

        Without ``dims`` only the name is checked and nothing is bound.

        Raises:
            EmbedderMismatch: the data belongs to another embedder; says how to re-embed.
        """
        ...

    def pending(self, limit: int, *, leased: bool = True) -> list[PendingText]:
        """Return up to ``limit`` texts without vectors, oldest first.

        They are leased to the caller for two minutes, so that two processes do not
        embed the same text; ``leased=False`` looks past the leases of others.
        """
        ...

    def add(self, rows: Sequence[VectorRow]) -> int:
        """Store vectors and mark their records as complete, in one transaction; return how many."""
        ...

    def nearest(self, query: Query, vector: NDArray[np.float32]) -> list[Match]:
        """Return the records nearest to ``vector`` by cosine, best first, at most ``limit`` of each kind.

        A record with several parts counts with its best one.
        """
        ...

    def read(self, scope: Scope, keys: Sequence[Key]) -> Parts:
        """Return the vectors of these records of a user; an unknown or pending one has none.

        Of very many they may be a little rounded: good for comparing, not for storing.
        """
        ...

    def reset(self, name: str, dims: int) -> int:
        """Drop all vectors, bind the data to another embedder, mark all as pending; return how many."""
        ...
