"""The records of one user: those that are there, and those in the trash."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from jiyi.records import FORGETTABLE, Kind, Query, Scope, Searchable, Summary, Task
from jiyi.storage import Discarded, Store, Trash, Upkeep, kind_of
from jiyi.storage.pages import all_records

__all__ = ["DERIVED", "Forgettable", "Rows", "pieces"]

Forgettable = Searchable | Task | Summary
DERIVED: Mapping[Kind, Kind] = {"fact": "message", "knowledge": "episode"}
"""What each kind of derived records rests on."""

_PIECE = 1_000  # records read at once

_Item = TypeVar("_Item")
_Record = TypeVar("_Record", bound=Forgettable)


@dataclass(frozen=True, slots=True)
class Rows:
    """Reads any number of a user's records, a thousand at a time."""

    store: Store
    upkeep: Upkeep
    trash: Trash
    user: Scope

    def find(self, wanted: type[_Record], ids: Sequence[str]) -> list[_Record]:
        """Return the records of one type and these ids."""
        return cast("list[_Record]", self.of_kind(kind_of(wanted), ids))

    def of_kind(self, kind: Kind, ids: Sequence[str], scope: Scope | None = None) -> list[Forgettable]:
        """Return the records of one kind and these ids, in the whole memory or in a scope."""
        found: list[Any] = []
        for piece in pieces(list(dict.fromkeys(ids))):
            query = Query(scope=scope or self.user, kinds=(kind,), ids=tuple(piece), limit=_PIECE)
            found += self.store.find(query)
        return found

    def scan(self, wanted: type[_Record], scope: Scope | None = None, **narrow: Any) -> Iterator[_Record]:
        """Give all records of one type, oldest first; ``narrow`` are further parts of the query."""
        query = Query(scope=scope or self.user, kinds=(kind_of(wanted),), limit=_PIECE, **narrow)
        return cast("Iterator[_Record]", self.scan_query(query))

    def scan_query(self, query: Query) -> Iterator[Forgettable]:
        """Give all records of one kind that a query describes, oldest first; its limit is a page's."""
        return cast("Iterator[Forgettable]", all_records(self.store, self.upkeep, query))

    def resting_on(self, wanted: type[_Record], ids: Sequence[str]) -> Iterator[_Record]:
        """Give the records of one type that rest on any of these sources, each once."""
        seen: set[str] = set()
        for piece in pieces(ids):
            for record in self.scan(wanted, sources=tuple(piece)):
                if record.id not in seen:
                    seen.add(record.id)
                    yield record

    def in_trash(
        self, kinds: Sequence[Kind] = FORGETTABLE, scope: Scope | None = None, **narrow: Any
    ) -> Iterator[Discarded]:
        """Give what lies in the trash; ``narrow`` are further parts of the query."""
        query = Query(scope=scope or self.user, kinds=tuple(kinds), limit=_PIECE, **narrow)
        after: int | None = 0
        while after is not None:
            page = self.trash.walk(query, after)
            yield from page.entries
            after = page.next

    def in_trash_by_ids(self, kind: Kind, ids: Sequence[str]) -> list[Discarded]:
        """Return what lies in the trash of one kind and these ids."""
        found: list[Discarded] = []
        for piece in pieces(ids):
            query = Query(scope=self.user, kinds=(kind,), ids=tuple(piece), limit=len(piece))
            found += self.trash.discarded(query)
        return found


def pieces(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """Give a sequence in pieces of at most 1,000."""
    for start in range(0, len(items), _PIECE):
        yield items[start : start + _PIECE]
