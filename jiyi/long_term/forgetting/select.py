"""What a request to forget asks for: by ids, by words and filters, or a whole scope."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar, cast

import numpy as np

from jiyi.errors import BadQuery
from jiyi.long_term.forgetting.words import Words, text_of
from jiyi.records import (
    SEARCHABLE,
    Kind,
    Message,
    Query,
    Record,
    Scope,
    Searchable,
    Summary,
    Task,
    has_labels,
)
from jiyi.storage.pages import all_records
from jiyi.storage.store import Store
from jiyi.storage.trash import Discarded, Trash
from jiyi.storage.upkeep import Upkeep
from jiyi.text import query_terms

__all__ = ["FORGETTABLE", "Forgettable", "Selection", "check", "find_by_ids", "pieces", "scan", "walk"]

Forgettable = Searchable | Task | Summary
FORGETTABLE: tuple[Kind, ...] = (*SEARCHABLE, "task")
"""What a query can ask for; steps go with their task, sessions with their last message."""

_T = TypeVar("_T")
_PIECE = 1_000  # records read at once
_MOST = 10_000  # what one question can find
_IN_TRASH = ("kinds", "text", "roles", "since", "until", "pinned", "metadata", "limit", "scope", "asked_at")


class Selection:
    """Finds what is asked for, among what is there and in the trash."""

    def __init__(self, store: Store, upkeep: Upkeep, trash: Trash) -> None:
        self._store = store
        self._upkeep = upkeep
        self._trash = trash

    def by_ids(self, scope: Scope, ids: Sequence[str]) -> list[Forgettable]:
        """Return the records of these ids, of every kind that has one, summaries too."""
        kinds: tuple[Kind, ...] = (*FORGETTABLE, "summary")
        return [r for kind in kinds for r in find_by_ids(self._store, scope, kind, ids)]

    def all_of(
        self, scope: Scope, kinds: Sequence[Kind] = (*FORGETTABLE, "summary")
    ) -> Iterator[Forgettable]:
        """Give every record of a scope, oldest first within its kind."""
        for kind in kinds:
            yield from scan(self._store, self._upkeep, Query(scope=scope, kinds=(kind,), limit=_PIECE))

    def by_query(self, query: Query) -> Iterator[Forgettable]:
        """Give what a query describes; of a text every word must be in a record.

        Raises:
            BadQuery: nothing is asked for, or the words are in more than ``limit`` records.
        """
        check(query)
        if not query.text:
            for kind in query.kinds:
                yield from scan(self._store, self._upkeep, replace(query, kinds=(kind,), limit=_PIECE))
            return
        for place, record in enumerate(self._by_words(query)):
            if place == query.limit:
                raise BadQuery(
                    f"more than {query.limit:,} records hold the words {query.text!r}; nothing was changed, "
                    "say it more closely or raise the limit"
                )
            yield record

    def in_trash(self, scope: Scope, ids: Sequence[str] | None, query: Query | None) -> Iterator[Discarded]:
        """Give what lies in the trash and is asked for.

        By ids, by words and the filters of a search (role, since, until, pinned, metadata), or all of it.
        """
        wanted = None if ids is None else set(ids)
        kinds = FORGETTABLE if query is None else query.kinds
        if query is not None and not _plain(query):
            return
        words = Words.of(query.text) if query is not None and query.text else None
        for entry in walk(self._trash, scope, tuple(kind for kind in kinds if kind in FORGETTABLE)):
            if wanted is not None and entry.record.id not in wanted:
                continue
            if query is not None and not _fits(entry.record, query):
                continue
            if words is None or words.are_in(text_of(entry.record)):
                yield entry

    def _by_words(self, query: Query) -> Iterator[Forgettable]:
        words = Words.of(query.text)
        bare = replace(query, text="")
        for kind in query.kinds:
            keys = self._candidates(replace(query, kinds=(kind,), limit=_MOST), words, kind)
            if keys is not None:
                records: Iterable[Forgettable] = (
                    record
                    for piece in pieces(keys)
                    for record in find_by_ids(self._store, query.scope, kind, piece)
                )
            else:
                open_only = {"status": "in_progress"} if kind == "task" else {}
                narrowed = replace(bare, kinds=(kind,), limit=_PIECE, **open_only)  # type: ignore[arg-type]
                records = scan(self._store, self._upkeep, narrowed)
            yield from (record for record in records if words.are_in(text_of(record)))

    def _candidates(self, query: Query, words: Words, kind: Kind) -> list[str] | None:
        """Return ids that the text index finds, all that are meant among them; None where it cannot tell."""
        if kind not in SEARCHABLE:
            return None
        found = self._store.match(query)
        rarest = sorted(zip(found.idf, found.terms, strict=True), reverse=True)
        indexed = [term for _, term in rarest if words.is_indexed(term)]
        if not indexed:
            return None
        if np.count_nonzero(found.eligible & (found.text > 0)) >= _MOST:
            # Too many hold one of the words; those that hold the rarest may be few enough.
            alone = next((term for term in indexed if query_terms(term) == [term]), "")
            found = self._store.match(replace(query, text=alone)) if alone else found
        hits = np.flatnonzero(found.eligible & (found.text > 0))
        return [found.keys[row][1] for row in hits] if len(hits) < _MOST else None


def check(query: Query) -> None:
    """Refuse a query that asks for nothing in particular, or for what cannot be forgotten."""
    odd = set(query.kinds) - set(FORGETTABLE)
    if odd:
        raise BadQuery(f"{', '.join(sorted(odd))} cannot be forgotten; there are {', '.join(FORGETTABLE)}")
    if query.text:
        Words.of(query.text)
        return
    everything = Query(scope=query.scope, kinds=query.kinds, limit=query.limit, asked_at=query.asked_at)
    if query == everything and set(query.kinds) >= set(SEARCHABLE):
        raise BadQuery("nothing is asked for: give words, ids, kinds or filters; no query: a whole scope")


def scan(store: Store, upkeep: Upkeep, query: Query) -> Iterator[Forgettable]:
    """Give the records of one kind that a query describes, oldest first, in pieces of ``query.limit``."""
    return cast("Iterator[Forgettable]", all_records(store, upkeep, query))


def walk(
    trash: Trash, scope: Scope, kinds: Sequence[Kind] = FORGETTABLE, **parts: object
) -> Iterator[Discarded]:
    """Give what lies in the trash; ``parts`` are further parts of the query."""
    query = Query(scope=scope, kinds=tuple(kinds), limit=_PIECE, **parts)  # type: ignore[arg-type]
    after: int | None = 0
    while after is not None:
        page = trash.walk(query, after)
        yield from page.entries
        after = page.next


def find_by_ids(store: Store, scope: Scope, kind: Kind, ids: Sequence[str]) -> list[Forgettable]:
    """Return the records of one kind and these ids."""
    found: list[Record] = []
    for piece in pieces(ids):
        found += store.find(Query(scope=scope, kinds=(kind,), ids=tuple(piece), limit=_PIECE))
    return cast("list[Forgettable]", found)


def pieces(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Give a sequence in pieces of at most 1,000."""
    for start in range(0, len(items), _PIECE):
        yield items[start : start + _PIECE]


def _plain(query: Query) -> bool:
    """Say whether the trash can be searched by this query: it knows text and the filters of a search."""
    return query == Query(**{name: getattr(query, name) for name in _IN_TRASH})


def _fits(record: Record, query: Query) -> bool:
    said = record.started_at if isinstance(record, Task) else getattr(record, "created_at", None)
    if query.roles is not None and not (isinstance(record, Message) and record.role in query.roles):
        return False
    if query.pinned is not None and getattr(record, "pinned", False) is not query.pinned:
        return False
    if query.metadata and not (isinstance(record, Message) and has_labels(record.metadata, query.metadata)):
        return False
    if query.since is not None and (said is None or said < query.since):
        return False
    return query.until is None or (said is not None and said < query.until)
