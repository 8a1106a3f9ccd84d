"""The vector index: the protocol every backend follows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from jiyi.records import Match, Query, Scope
from jiyi.storage.candidates import Key

if TYPE_CHECKING:
    from jiyi.storage.relational.users import Snapshot

__all__ = ["Binding", "Parts", "PendingText", "VectorIndex", "VectorRow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Whose vectors the data holds."""

    name: str | None = None  # the embedder whose vectors are searched; None before the first one
    dims: int | None = None  # numbers in a vector of it
    renewing: str | None = None  # the embedder of the second set that is being made; None: there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingText:
    """A record that still lacks its vectors."""

    key: tuple[str, int]  # user and the index's own number, to be handed back
    text: str  # what to embed
    role: str | None = None  # of a message


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorRow:
    """The vectors of one record: one for each part of its text."""

    key: tuple[str, int]  # from `PendingText`
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

    For another embedder, or the same one anew, a second set of vectors is made beside the one
    that is searched: `renew`, `pending` and `add` with its name, `switch`.
    """

    def claim(
        self, name: str | None = None, dims: int | None = None, *, seen: "Snapshot | None" = None
    ) -> Binding:
        """Bind the data to an embedder, or check that it is bound to this one; return whose it is.

        Without ``dims`` only the name is checked and nothing is bound; without ``name`` nothing
        is checked. With ``seen``, a `Store.snapshot`, it is checked against that.

        Raises:
            EmbedderMismatch: the data belongs to another embedder; says how to re-embed.
        """
        ...

    def pending(self, limit: int, *, leased: bool = True, name: str | None = None) -> list[PendingText]:
        """Return up to ``limit`` texts without vectors, oldest first.

        They are leased to the caller for two minutes, so that two processes do not
        embed the same text; ``leased=False`` looks past the leases of others.

        With ``name``: the texts that the second set lacks, nothing where none of this embedder
        is being made. No lease is taken; each answer goes on behind the one before. Behind the
        last record comes an empty one, then it begins from the start: what was saved meanwhile.
        """
        ...

    def add(self, rows: Sequence[VectorRow], *, name: str | None = None) -> int:
        """Store vectors and mark their records as complete, a user's in one transaction; return how many.

        With ``name`` they go into each of the two sets that is of this embedder and lacks them.

        Raises:
            EmbedderMismatch: neither set is of the embedder named; another process switched meanwhile.
        """
        ...

    def set_apart(self, key: tuple[str, int], why: int) -> None:
        """Leave a record out of what is pending: its text is not embedded, for a reason given by number.

        It still counts as pending. A reason is 1 or more: an HTTP status, or what the caller likes.
        """
        ...

    def apart(self, user_id: str | None = None) -> Mapping[int, int]:
        """Return how many records are set apart, of a user or of all, by their reasons."""
        ...

    def take_up(self) -> int:
        """Let what was set apart be pending again, of all users; return how many records."""
        ...

    def nearest(
        self, query: Query, vector: NDArray[np.float32], *, seen: "Snapshot | None" = None
    ) -> list[Match]:
        """Return the records nearest to ``vector`` by cosine, best first, at most ``limit`` of each kind.

        A record with several parts counts with its best one. ``seen`` is a `Store.snapshot`.
        """
        ...

    def read(
        self, scope: Scope, keys: Sequence[Key], *, exact: bool = False, seen: "Snapshot | None" = None
    ) -> Parts:
        """Return the vectors of these records of a user; an unknown or pending one has none.

        Of very many they may be a little rounded, good for comparing: ``exact`` gives them as
        they are stored, those of a record in their order. ``seen`` is a `Store.snapshot`.
        """
        ...

    def renew(self, name: str, dims: int) -> int:
        """Begin a second set of vectors, or go on with it; return how many records it lacks.

        The searched set stays as it is. A second set of yet another embedder is dropped.
        """
        ...

    def switch(self, name: str) -> int:
        """Search the second set from now on, drop the first; return how many records wait for vectors then.

        Those are the ones that the second set lacks: they are pending. Where another process has
        switched, or was broken off in it, this completes it.

        Raises:
            WrongState: no second set of this embedder is being made.
        """
        ...
