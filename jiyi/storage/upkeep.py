"""Looking after many records at once: the protocol every backend follows beside `Store`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from jiyi.errors import InputError
from jiyi.records import Kind, Message, Query, Record, Scope

__all__ = ["Amendment", "Cursor", "Page", "Upkeep", "Words"]

Cursor = tuple[int, int]
"""A place in a scan: microseconds since 1970 and the backend's own number of a record."""

Words = tuple[int, int, bytes]
"""What the analysis of a text gave: number of terms, traits, and the terms as `postings.pack` writes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A piece of a scan."""

    records: tuple[Record, ...]  # oldest first
    numbers: tuple[int, ...]  # the backend's own number of each; with the user, the key of its vectors
    next: Cursor | None  # where the next piece begins; None behind the last
    words: Mapping[str, Words] = field(default_factory=dict)  # by id, where they were asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendment:
    """What changes in a record beside its words; what is None stays, and so does what a kind does not have.

    Raises:
        InputError: importance or confidence is not a number from 0 to 1.
    """

    id: str
    importance: float | None = None  # of messages and episodes
    confidence: float | None = None  # of knowledge and facts
    consolidated: bool | None = None  # of episodes
    pinned: bool | None = None

    def __post_init__(self) -> None:
        """Refuse what no record may hold."""
        for name in ("importance", "confidence"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and 0 <= value <= 1):
                raise InputError(f"{name}={value!r} of {self.id!r} is not a number from 0 to 1")


class Upkeep(Protocol):
    """Goes through a memory of any size in bounded pieces and changes single fields fast.

    Its verbs take part in the transaction of the store that shares their database. All raise
    `StorageError` where the database cannot do what is asked.
    """

    def scan(self, query: Query, after: Cursor | None = None, *, words: bool = False) -> Page:
        """Return the next ``query.limit`` records of one kind, oldest first; summaries as they were stored.

        ``words`` asks for the analysed words of searchable records, too.

        What is added, changed or taken out between two pieces moves no other record out of
        sight: each one that is there throughout is seen exactly once.

        Raises:
            BadQuery: the query names several kinds, or one that is neither searchable nor "summary".
        """
        ...

    def targets(self, query: Query, at_least: int = 1) -> Mapping[str, int]:
        """Return how many of the query's episodes there are of each target, by `jiyi.text.entity_key`.

        Left out are targets of fewer than ``at_least``; "" counts those without a target.
        """
        ...

    def amend(self, scope: Scope, kind: Kind, changes: Sequence[Amendment]) -> int:
        """Change fields of records in one transaction, their words and vectors untouched; return how many.

        Ids that are not there are passed over.
        """
        ...

    def changes(self, scope: Scope) -> int:
        """Return a number that grows whenever a record of the user is taken out, brought back or pinned.

        Cheap: for noticing that what is held in memory is out of date.
        """
        ...

    def put_back(
        self, messages: Sequence[Message], *, words: Mapping[str, Words] | None = None
    ) -> list[Message]:
        """Write messages that were stored before at the places they say, all or none; return them as stored.

        A message whose place in its session is taken, or that says none, goes to the end of it.
        One that is there already with the same words stays as it is. Summaries that do not know
        a message go as `Trash.restore` says. ``words``, by id, are what `scan` gave of the same
        messages elsewhere: those are not analysed again.

        Raises:
            DuplicateId: another message has the id.
            BadScope: a message lacks user or session.
        """
        ...
