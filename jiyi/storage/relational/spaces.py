"""The sets of vectors of a database, as described in the table ``meta``."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jiyi.storage.database import Connection

__all__ = ["Sets", "Spaces", "parse_spaces", "read_spaces"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sets:
    """The numbers of the sets that an embedder's vectors are added to."""

    searched: int | None
    second: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spaces:
    """The searched set of vectors and the second one that may be in the making, which has the next number.

    While a switch is being completed both have the same number, and the old set is dropped user by user.
    """

    name: str | None = None  # embedder of the searched set
    dims: int | None = None  # numbers in a vector of it
    number: int = 0  # of the searched set
    next_name: str | None = None  # embedder of the second set; "" while an unwanted set is dropped
    next_dims: int | None = None
    next_number: int | None = None

    @property
    def switching(self) -> bool:
        """Whether the second set is searched already and the first is not dropped yet."""
        return self.next_number == self.number

    def of(self, name: str | None) -> Sets:
        """Return the sets of an embedder; without a name the searched one."""
        second = bool(name) and self.next_name == name and not self.switching
        searched = name is None or self.name == name
        return Sets(searched=self.number if searched else None, second=self.next_number if second else None)


def read_spaces(db: Connection) -> Spaces:
    """Read the sets of vectors of a database."""
    return parse_spaces(db.rows("all_meta", {}))


def parse_spaces(rows: Iterable[tuple[Any, ...]]) -> Spaces:
    """Return the sets of vectors described by rows of ``meta``, names and values."""
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
