"""The sets of vectors there are: what the table ``meta`` says of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jiyi.storage.database import Connection

__all__ = ["Sets", "Spaces", "read_spaces", "spaces_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sets:
    """Which sets of vectors an embedder's go into, by their numbers."""

    searched: int | None
    second: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spaces:
    """The two sets of vectors there may be; the second has the first's number plus one.

    While a switch is being completed both have the same: what is left of the old one goes, user by user.
    """

    name: str | None = None  # embedder of the searched set
    dims: int | None = None  # numbers in a vector of it
    number: int = 0  # of the searched set
    next_name: str | None = None  # embedder of the second set; "" while one that is not wanted is dropped
    next_dims: int | None = None
    next_number: int | None = None

    @property
    def switching(self) -> bool:
        """Whether the second set is searched already and the first not yet gone."""
        return self.next_number == self.number

    def of(self, name: str | None) -> Sets:
        """Return the sets of an embedder; without a name the searched one, whosever it is."""
        second = bool(name) and self.next_name == name and not self.switching
        searched = name is None or self.name == name
        return Sets(searched=self.number if searched else None, second=self.next_number if second else None)


def read_spaces(db: Connection) -> Spaces:
    """Return what the database says of its sets of vectors, all as of one moment."""
    return spaces_of(db.rows("all_meta", {}))


def spaces_of(rows: Iterable[tuple[Any, ...]]) -> Spaces:
    """Return what rows of ``meta``, names and values, say of the sets of vectors."""
    meta = {str(name): str(value) for name, value in rows}

    def number(name: str) -> int | None:
        return int(meta[name]) if name in meta else None

    return Spaces(
        name=meta.get("embedder_name"),
        dims=number("embedder_dims"),
        number=number("embedder_space") or 0,
        next_name=meta.get("next_embedder_name"),
        next_dims=number("next_embedder_dims"),
        next_number=number("next_embedder_space"),
    )
