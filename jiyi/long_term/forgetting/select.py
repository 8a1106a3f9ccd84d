"""What a request to forget selects: by ids, by words and filters, or a whole scope."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from jiyi.errors import BadQuery
from jiyi.long_term.forgetting.provenance import Forgettable, Rows, pieces, text_of
from jiyi.records import FORGETTABLE, SEARCHABLE, Item, Kind, Message, Query, Record, Scope, Task, matches
from jiyi.storage import Discarded
from jiyi.text import analyse, query_terms

__all__ = ["Words", "all_of", "by_ids", "by_query", "check", "in_trash"]

_MOST = 10_000  # what one question can find
_PAGE = 1_000  # records read at once
# What of a query the trash can answer.
_IN_TRASH = ["kinds", "text", "roles", "since", "until", "pinned", "where", "limit", "namespace"]
_IN_TRASH += ["scope", "asked_at"]
_HAN = re.compile(r"[\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]+")


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text; a record must contain all of them to match.

    Chinese is matched as it is written, everything else as in search: by stems, in
    any case and width. Question and function words do not count.

    Raises:
        BadQuery: there is no word in the text.
    """

    han: frozenset[str]  # what must stand in the text
    others: frozenset[str]  # search terms

    @classmethod
    def of(cls, text: str) -> "Words":
        """Return the words of a text."""
        terms = query_terms(text)
        han = frozenset(term for term in terms if _HAN.fullmatch(term))
        if not terms:
            raise BadQuery(f"{text!r} holds no word to look for; give words, ids, filters or a whole scope")
        return cls(han, frozenset(terms) - han)

    def is_indexed(self, term: str) -> bool:
        """Say whether every record that holds a term is found by it in the text index."""
        return term in self.others or (term in self.han and len(term) == 2)

    def are_in(self, text: str) -> bool:
        """Say whether a text holds all of them."""
        written = unicodedata.normalize("NFKC", text) if self.han else ""
        there = all(term in written for term in self.han)
        return there and (not self.others or self.others <= set(analyse(text)))


def by_ids(rows: Rows, scope: Scope, ids: Sequence[str]) -> list[Forgettable]:
    """Return the records of these ids, of every kind that has one, summaries too."""
    kinds: tuple[Kind, ...] = (*FORGETTABLE, "summary")
    return [r for kind in kinds for r in rows.of_kind(kind, ids, scope)]


def all_of(
    rows: Rows, scope: Scope, kinds: Sequence[Kind] = (*FORGETTABLE, "summary")
) -> Iterator[Forgettable]:
    """Give every record of a scope, oldest first within its kind."""
    for kind in kinds:
        yield from rows.scan_query(Query(scope=scope, kinds=(kind,), limit=_PAGE))


def by_query(rows: Rows, query: Query) -> Iterator[Forgettable]:
    """Give what a query describes; of a text every word must be in a record.

    Raises:
        BadQuery: nothing is asked for, or the words are in more than ``limit`` records.
    """
    check(query)
    if not query.text:
        for kind in query.kinds:
            yield from rows.scan_query(replace(query, kinds=(kind,), limit=_PAGE))
        return
    for place, record in enumerate(_by_words(rows, query)):
        if place == query.limit:
            raise BadQuery(
                f"more than {query.limit:,} records hold the words {query.text!r}; nothing was changed, "
                "say it more closely or raise the limit"
            )
        yield record


def in_trash(rows: Rows, scope: Scope, ids: Sequence[str] | None, query: Query | None) -> Iterator[Discarded]:
    """Give what lies in the trash and is asked for.

    By ids, by words and the filters of a search, or all of it.
    """
    wanted = None if ids is None else set(ids)
    kinds = FORGETTABLE if query is None else query.kinds
    if query is not None and query != Query(**{name: getattr(query, name) for name in _IN_TRASH}):
        return  # the trash knows text and the filters of a search, and nothing else
    words = Words.of(query.text) if query is not None and query.text else None
    for entry in rows.in_trash([kind for kind in kinds if kind in FORGETTABLE], scope):
        asked = wanted is None or entry.record.id in wanted
        fits = asked and (query is None or _fits(entry.record, query))
        if fits and (words is None or words.are_in(text_of(entry.record))):
            yield entry


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


def _by_words(rows: Rows, query: Query) -> Iterator[Forgettable]:
    words = Words.of(query.text)
    for kind in query.kinds:
        ids = _candidates(rows, replace(query, kinds=(kind,), limit=_MOST), words)
        records: Iterable[Forgettable]
        if ids is not None:
            records = (record for piece in pieces(ids) for record in rows.of_kind(kind, piece, query.scope))
        else:
            narrowed = replace(query, text="", kinds=(kind,), limit=_PAGE)
            records = rows.scan_query(replace(narrowed, status="in_progress") if kind == "task" else narrowed)
        yield from (record for record in records if words.are_in(text_of(record)))


def _candidates(rows: Rows, query: Query, words: Words) -> list[str] | None:
    """Return ids that the text index finds, all that are meant among them; None where it cannot tell."""
    if query.kinds[0] not in SEARCHABLE:
        return None
    found = rows.store.match(query)
    rarest = sorted(zip(found.idf, found.terms, strict=True), reverse=True)
    indexed = [term for _, term in rarest if words.is_indexed(term)]
    if not indexed:
        return None
    if np.count_nonzero(found.eligible & (found.text > 0)) >= _MOST:
        # Too many hold one of the words; those that hold the rarest may be few enough.
        alone = next((term for term in indexed if query_terms(term) == [term]), "")
        found = rows.store.match(replace(query, text=alone)) if alone else found
    hits = np.flatnonzero(found.eligible & (found.text > 0))
    return [found.keys[row][1] for row in hits] if len(hits) < _MOST else None


def _fits(record: Record, query: Query) -> bool:
    said = record.started_at if isinstance(record, Task) else getattr(record, "created_at", None)
    if query.roles is not None and not (isinstance(record, Message) and record.role in query.roles):
        return False
    if query.pinned is not None and getattr(record, "pinned", False) is not query.pinned:
        return False
    if query.namespace is not None:
        labels = record.namespace if isinstance(record, Item) else None
        if labels is None or labels[: len(query.namespace)] != query.namespace:
            return False
    if query.where is not None and not matches(record, query.where):
        return False
    if query.since is not None and (said is None or said < query.since):
        return False
    return query.until is None or (said is not None and said < query.until)
