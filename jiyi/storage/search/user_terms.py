"""One user's rows in memory as columns, with exact BM25 over their words. No I/O."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import eq
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jiyi.records import Kind, Match, Role
from jiyi.storage.search.candidates import KINDS_BY_LABEL, LABEL_NUMBERS, Key, Rows
from jiyi.storage.search.postings import ENTRY, MAX_SEGMENT_ROWS, Segment, id_keys, merge_segments, term_hash
from jiyi.storage.search.user_cache import grow_array

TermRow = tuple[
    int, Kind, str, Role | None, str | None, str | None, int | None, int, int, int, str | None, bytes
]
"""doc, kind, id, role, session_id, agent_id, seq, created_at, length, traits, speaker, entry."""

# Okapi BM25, Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond",
# Foundations and Trends in Information Retrieval 3(4), 2009. Messages are short and have one
# topic: length says less about them than about articles, for which 0.75 is usual.
_K1 = 1.2  # saturation of a word's frequency
_B = 0.4  # normalization by length

_MESSAGE_BYTES = 700  # of the row of a short message, approximate
_ID_BYTES = 57  # of an id in a list, besides its letters
_NAME_BYTES = 200  # of a name with its number, approximate

_COLUMNS: dict[str, Any] = {
    "doc": np.int64,
    "label": np.uint8,  # kind and role, see `jiyi.storage.search.candidates.LABELS`
    "session": np.int32,  # number in `sessions`, -1 for none
    "agent": np.int32,  # number in `agents`, -1 for none
    "speaker": np.int32,  # number in `speakers`, -1 for none
    "seq": np.int32,  # place in its session, -1 for other records than messages
    "previous": np.int32,  # row of the message before it in its session, -1 for none
    "following": np.int32,  # row of the message after it, -1 for none so far
    "created_at": np.int64,
    "length": np.int32,
    "traits": np.int32,
}

_TYPES: tuple[set[Any], ...] = (
    *({int}, {str}, {str}, {str, type(None)}, {str, type(None)}, {str, type(None)}, {int, type(None)}),
    *({int}, {int}, {int}, {str, type(None)}, {bytes}),
)  # of a `TermRow`


def are_valid_rows(rows: Sequence[TermRow]) -> bool:
    """Return whether all rows have the types and ranges of rows as they were written."""
    if not rows:
        return True
    columns = list(zip(*rows, strict=True))
    typed = all(set(map(type, column)) <= types for column, types in zip(columns, _TYPES, strict=True))
    if not typed or not {*zip(columns[1], columns[3], strict=True)} <= LABEL_NUMBERS.keys():
        return False
    small = (number for column in (*columns[6:7], *columns[8:10]) for number in column if number is not None)
    entries_fit = not any(len(entry) % ENTRY.itemsize for entry in columns[11])
    return entries_fit and all(0 <= number < 2**31 for number in small)


def _numbered(numbers: dict[str, int], names: Iterable[str | None]) -> list[int]:
    """Return the numbers of names, adding new names; -1 for None."""
    return [-1 if name is None else numbers.setdefault(name, len(numbers)) for name in names]


_TermGains = tuple[int, int, NDArray[np.int32], NDArray[np.float32]]  # term, start of segment, rows, gains


@dataclass(frozen=True, slots=True, eq=False)
class WordScores:
    """The BM25 scores of every row of a user for the terms of a query."""

    text: NDArray[np.float32]  # BM25
    idf: NDArray[np.float32]  # of each term
    gains: tuple[_TermGains, ...]

    def by_term(self, rows: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return the gain of each term in these rows, before its idf: shape (rows, terms)."""
        out = np.zeros((len(rows), len(self.idf)), np.float32)
        places = np.full(len(self.text), -1, np.int32)
        places[rows] = np.arange(len(rows))
        for term, start, term_rows, gains in self.gains:
            wanted = places[start:][term_rows]
            there = np.flatnonzero(wanted >= 0)
            out[wanted[there], term] = gains[there]
        return out


@dataclass(slots=True)
class HeldMessages:
    """Rows of a user's short messages that were read before, shared by all views.

    They are valid as long as `Store.changes` is the same.
    """

    MAX_MESSAGES: ClassVar[int] = 4_000
    MAX_CHARS: ClassVar[int] = 1_000  # of the body of each
    changes: int = 0
    columns: Sequence[str] = ()  # of each row
    rows: dict[str, tuple[Any, ...]] | None = None  # by id; None before all were read at once

    def add(self, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        """Hold the short ones of these rows."""
        if self.rows is None or len(self.rows) > self.MAX_MESSAGES:
            self.rows = {}
        if rows:  # otherwise SQLite names no columns
            self.columns, id_, body = columns, columns.index("id"), columns.index("body")
            self.rows |= {row[id_]: row for row in rows if len(str(row[body])) <= self.MAX_CHARS}


@dataclass(slots=True)
class UserTerms:
    """Rows in the order they were stored, as columns, and their terms inverted in segments.

    Arrays grow by half; in rows in use only ``following`` changes, to a row added later. A search
    keeps its own view while rows are added after it.
    """

    generation: int = 0  # of the user's removals and changes, when it was read
    last_doc: int = 0  # newest row read
    size: int = 0  # rows in use
    terms_total: int = 0  # lengths of all rows together
    columns: dict[str, NDArray[Any]] = field(
        default_factory=lambda: {name: np.empty(0, dtype) for name, dtype in _COLUMNS.items()}
    )
    ids: list[str] = field(default_factory=list)  # of each row, shared with views
    id_bytes: int = 0  # size of ``ids``, approximate
    segments: tuple[Segment, ...] = ()
    sessions: dict[str, int] = field(default_factory=dict)  # numbers of names, in the order they came
    agents: dict[str, int] = field(default_factory=dict)
    speakers: dict[str, int] = field(default_factory=dict)
    messages: HeldMessages = field(default_factory=HeldMessages)  # see `Store.find_by_keys`
    _last_messages: dict[int, tuple[int, int]] = field(default_factory=dict)  # by session: place, row

    @property
    def nbytes(self) -> int:
        """Bytes used, approximate."""
        names = len(self.sessions) + len(self.agents) + len(self.speakers)
        arrays = sum([column.nbytes for column in self.columns.values()])
        arrays += sum([segment.nbytes for segment in self.segments])
        return arrays + self.id_bytes + _NAME_BYTES * names + _MESSAGE_BYTES * len(self.messages.rows or ())

    def view(self) -> "UserTerms":
        """Return the rows in use as they are now."""
        return replace(self, columns={name: column[: self.size] for name, column in self.columns.items()})

    def append(self, rows: Sequence[TermRow]) -> None:
        """Add at most `MAX_SEGMENT_ROWS` rows, with ascending docs, after the present ones."""
        if not rows:
            return
        docs, kinds, ids, roles, sessions, agents, seqs, moments, lengths, traits, speakers, entries = zip(
            *rows, strict=True
        )
        start, size = self.size, self.size + len(rows)
        self.columns = {name: grow_array(column, start, size) for name, column in self.columns.items()}
        new = {name: column[start:size] for name, column in self.columns.items()}
        new["doc"][:], new["created_at"][:] = docs, moments
        new["length"][:], new["traits"][:] = lengths, traits
        new["label"][:] = [LABEL_NUMBERS[pair] for pair in zip(kinds, roles, strict=True)]
        new["session"][:] = _numbered(self.sessions, sessions)
        new["agent"][:] = _numbered(self.agents, agents)
        new["speaker"][:] = _numbered(self.speakers, speakers)
        new["seq"][:] = [-1 if seq is None else seq for seq in seqs]
        self._link_neighbours(start, size)
        self.ids += ids
        self.id_bytes += sum(map(len, ids)) + _ID_BYTES * len(ids)
        segment = Segment.of(start, entries, id_keys(zip(kinds, ids, strict=True)))
        self.segments = merge_segments((*self.segments, segment))
        self.terms_total += sum(lengths)
        self.size, self.last_doc = size, docs[-1]

    def _link_neighbours(self, start: int, size: int) -> None:
        """Link messages to their neighbours; nearly always they are added in the order of ``seq``."""
        last, columns = self._last_messages, self.columns
        before = np.full(size - start, -1, np.int32)
        pairs = zip(columns["session"][start:size].tolist(), columns["seq"][start:size].tolist(), strict=True)
        unordered = set()
        for place, (session, seq) in enumerate(pairs):
            if seq >= 0:
                last_seq, row = last.get(session, (-1, -1))
                if seq < last_seq:
                    unordered.add(session)
                else:
                    before[place] = row
                    last[session] = seq, start + place
        columns["previous"][start:size], columns["following"][start:size] = before, -1
        after = np.flatnonzero(before >= 0)
        columns["following"][before[after]] = start + after
        if unordered:
            self._relink_sessions(list(unordered), size)

    def _relink_sessions(self, sessions: Sequence[int], size: int) -> None:
        """Link all messages of sessions again; views keep the links they have."""
        links = {name: self.columns[name].copy() for name in ("previous", "following")}
        columns = self.columns = self.columns | links
        rows = np.flatnonzero(np.isin(columns["session"][:size], sessions) & (columns["seq"][:size] >= 0))
        rows = rows[np.lexsort((columns["seq"][rows], columns["session"][rows]))]
        columns["previous"][rows], columns["following"][rows] = -1, -1
        joined = np.flatnonzero(np.diff(columns["session"][rows]) == 0)
        columns["previous"][rows[joined + 1]] = rows[joined]
        columns["following"][rows[joined]] = rows[joined + 1]

    def neighbours(self, rows: NDArray[np.intp], link: str) -> NDArray[np.intp]:
        """Return the "previous" or "following" messages of rows, -1 for none."""
        found = np.where(rows >= 0, self.columns[link][rows], -1).astype(np.intp)
        return np.where(found < self.size, found, -1)  # later rows belong to another view

    def keys(self, rows: Rows) -> list[Key]:
        """Return kind and id of rows."""
        places = zip(self.columns["label"][rows].tolist(), rows.tolist(), strict=True)
        return [(KINDS_BY_LABEL[label], self.ids[row]) for label, row in places]

    def kinds(self) -> list[Kind]:
        """Return the kinds of the rows in use."""
        labels = np.flatnonzero(np.bincount(self.columns["label"][: self.size]))
        return list(dict.fromkeys(KINDS_BY_LABEL[label] for label in labels.tolist()))

    def rows_of(self, keys: Sequence[Key]) -> Rows:
        """Return the rows of keys, -1 for unknown ones."""
        found = np.full(len(keys), -1, np.intp)
        wanted = id_keys(keys)
        for segment in self.segments:
            at = np.searchsorted(segment.ids, wanted)
            left = np.flatnonzero(found < 0)
            while len(left):  # once, unless two ids share their hash
                left = left[at[left] < segment.count]
                left = left[(segment.ids[at[left]] ^ wanted[left]) < MAX_SEGMENT_ROWS]
                within = segment.ids[at[left]] & np.uint64(MAX_SEGMENT_ROWS - 1)
                rows = segment.start + within.astype(np.intp)
                left_keys = map(keys.__getitem__, left.tolist())
                same = np.fromiter(map(eq, left_keys, self.keys(rows)), np.bool_, len(left))
                found[left[same]] = rows[same]
                left = left[~same]
                at[left] += 1
        return found

    def rows_of_docs(self, docs: NDArray[np.int64]) -> Rows:
        """Return the rows of document numbers, -1 for unknown ones."""
        known = self.columns["doc"]
        if not len(known):
            return np.full(len(docs), -1, np.intp)
        rows = np.minimum(np.searchsorted(known, docs), len(known) - 1)
        return np.where(known[rows] == docs, rows, -1)

    def matches(self, docs: NDArray[np.int64], scores: NDArray[Any]) -> list[Match]:
        """Return the records with these numbers and scores, in this order, without unknown ones."""
        rows = self.rows_of_docs(docs)
        keys = zip(self.keys(rows[rows >= 0]), scores[rows >= 0].tolist(), strict=True)
        return [Match(*key, score) for key, score in keys]

    def score(self, terms: Sequence[str]) -> WordScores:
        """Return BM25 of distinct terms for every row of a `view`.

        idf = ln(1 + (N - n + 0.5) / (n + 0.5)) for a term in n of N rows; a row with c of it
        and a length of l terms gets idf * c / (c + k1 * (1 - b + b * l / average length)).
        The common factor k1 + 1 is left out because it changes no order.
        """
        hashes = np.array([term_hash(term) for term in terms], np.uint32)
        spans = [segment.find(hashes) for segment in self.segments]
        counts = np.zeros(len(terms), np.int64)  # rows with each term
        for begins, ends in spans:
            counts += ends - begins
        idf = np.log1p((self.size - counts + 0.5) / (counts + 0.5)).astype(np.float32)
        text = np.zeros(self.size, np.float32)
        all_gains = []
        average = self.terms_total / self.size if self.terms_total else 1.0
        norms = (_K1 * (1 - _B) + _K1 * _B / average * self.columns["length"]).astype(np.float32)
        for segment, (begins, ends) in zip(self.segments, spans, strict=True):
            within = slice(segment.start, segment.start + segment.count)
            sums, segment_norms = text[within], norms[within]
            for term in np.flatnonzero(ends > begins).tolist():
                rows = segment.rows[begins[term] : ends[term]]
                gains = segment.counts[begins[term] : ends[term]].astype(np.float32)
                gains /= gains + segment_norms[rows]
                np.add.at(sums, rows, gains * idf[term])  # faster than sums[rows] += ...
                all_gains.append((term, segment.start, rows, gains))
        return WordScores(text, idf, tuple(all_gains))
