"""Selects the records to forget: by ids, by words and filters, or a whole scope."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from jiyi.errors import BadQuery
from jiyi.long_term.finding import find_by_ids
from jiyi.long_term.forgetting.provenance import Forgettable, RecordReader, text_of
from jiyi.records import FORGETTABLE, SEARCHABLE, Item, Kind, Message, Query, Record, Scope, Task, matches
from jiyi.storage import Discarded
from jiyi.text import analyse, query_terms

_MAX_FOUND = 10_000  # hits of one search
# Fields of a query that also select from the trash.
_TRASH_FILTERS = ["kinds", "text", "roles", "since", "until", "pinned", "where", "limit", "namespace"]
_TRASH_FILTERS += ["scope", "asked_at"]
_HAN = re.compile(r"[\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]+")


@dataclass(frozen=True, slots=True)
class RequiredWords:
    """The words of a text, all of which a record must contain to match; `BadQuery` if there are none.

    Chinese must be contained literally; other words match as in search: by stem, in any case and width.
    Question and function words do not count.
    """

    han: frozenset[str]  # substrings
    others: frozenset[str]  # search terms

    @classmethod
    def of(cls, text: str) -> "RequiredWords":
        """Return the words of a text."""
        terms = query_terms(text)
        han = frozenset(term for term in terms if _HAN.fullmatch(term))
        if not terms:
            raise BadQuery(f"{text!r} holds no word to look for; give words, ids, filters or a whole scope")
        return cls(han, frozenset(terms) - han)

    def are_all_in(self, text: str) -> bool:
        """Return whether a text contains all of them."""
        normalised = unicodedata.normalize("NFKC", text) if self.han else ""
        has_han = all(term in normalised for term in self.han)
        return has_han and (not self.others or self.others <= set(analyse(text)))


def scan_scope(
    reader: RecordReader, scope: Scope, kinds: Sequence[Kind] = (*FORGETTABLE, "summary")
) -> Iterator[Forgettable]:
    """Yield every record of a scope, oldest first within its kind."""
    return reader.scan_query(Query(scope=scope, kinds=tuple(kinds)))


def find_by_query(reader: RecordReader, query: Query) -> Iterator[Forgettable]:
    """Yield the records that a query selects and that have every word.

    Raises `BadQuery` if it selects nothing in particular, kinds that cannot be forgotten, or more than its
    limit.
    """
    if others := set(query.kinds) - set(FORGETTABLE):
        raise BadQuery(f"{', '.join(sorted(others))} cannot be forgotten; there are {', '.join(FORGETTABLE)}")
    if not query.text:
        everything = Query(scope=query.scope, kinds=query.kinds, limit=query.limit, asked_at=query.asked_at)
        if query == everything and set(query.kinds) >= set(SEARCHABLE):
            raise BadQuery("nothing is asked for: give words, ids, kinds or filters; no query: a whole scope")
        yield from reader.scan_query(query)
        return
    for place, record in enumerate(_find_by_words(reader, query)):
        if place == query.limit:
            raise BadQuery(
                f"more than {query.limit:,} records hold the words {query.text!r}; nothing was changed, "
                "say it more closely or raise the limit"
            )
        yield record


def find_in_trash(
    reader: RecordReader, scope: Scope, ids: Sequence[str] | None, query: Query | None
) -> Iterator[Discarded]:
    """Yield what a request selects from the trash: by ids, by words and filters, or all of it."""
    wanted = None if ids is None else set(ids)
    kinds = FORGETTABLE if query is None else query.kinds
    if query is not None and query != Query(**{name: getattr(query, name) for name in _TRASH_FILTERS}):
        return  # it has a condition that the trash does not support
    words = RequiredWords.of(query.text) if query is not None and query.text else None
    for entry in reader.scan_trash([kind for kind in kinds if kind in FORGETTABLE], scope):
        selected = wanted is None or entry.record.id in wanted
        selected = selected and (query is None or _matches_filters(entry.record, query))
        if selected and (words is None or words.are_all_in(text_of(entry.record))):
            yield entry


def _find_by_words(reader: RecordReader, query: Query) -> Iterator[Forgettable]:
    words = RequiredWords.of(query.text)
    for kind in query.kinds:
        ids = _find_indexed_ids(reader, replace(query, kinds=(kind,), limit=_MAX_FOUND), words)
        records: Iterable[Forgettable]
        if ids is not None:
            records = find_by_ids(reader.store, query.scope, kind, ids)
        else:
            status = "in_progress" if kind == "task" else query.status
            records = reader.scan_query(replace(query, text="", kinds=(kind,), status=status))
        yield from (record for record in records if words.are_all_in(text_of(record)))


def _find_indexed_ids(reader: RecordReader, query: Query, words: RequiredWords) -> list[str] | None:
    """Return ids of the text index that include all matches; None if it cannot guarantee that."""
    if query.kinds[0] not in SEARCHABLE:
        return None
    found = reader.store.match(query)
    rarest = sorted(zip(found.idf, found.terms, strict=True), reverse=True)
    # A term of Chinese is in the index of every record that contains it only if it has two characters.
    indexed = [t for _, t in rarest if t in words.others or (t in words.han and len(t) == 2)]
    if not indexed:
        return None
    hits = np.flatnonzero(found.eligible & (found.text > 0))
    alone = next((term for term in indexed if query_terms(term) == [term]), "")
    if len(hits) >= _MAX_FOUND and alone:  # too many hold a word; those that hold the rarest may be fewer
        found = reader.store.match(replace(query, text=alone))
        hits = np.flatnonzero(found.eligible & (found.text > 0))
    return [found.keys[row][1] for row in hits] if len(hits) < _MAX_FOUND else None


def _matches_filters(record: Record, query: Query) -> bool:
    created_at = record.started_at if isinstance(record, Task) else getattr(record, "created_at", None)
    labels = (record.namespace if isinstance(record, Item) else ())[: len(query.namespace or ())]
    return (
        (query.roles is None or (isinstance(record, Message) and record.role in query.roles))
        and (query.pinned is None or getattr(record, "pinned", False) is query.pinned)
        and (query.namespace is None or (isinstance(record, Item) and labels == query.namespace))
        and (query.where is None or matches(record, query.where))
        and (query.since is None or (created_at is not None and created_at >= query.since))
        and (query.until is None or (created_at is not None and created_at < query.until))
    )
