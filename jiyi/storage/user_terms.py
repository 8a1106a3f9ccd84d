"""One user's rows in memory: their words, exact BM25 over them, and what a search asks of them. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import eq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jiyi.records import Kind, Match, Record, Role
from jiyi.storage.candidates import KINDS_BY_LABEL, LABELS, Key, Rows, label_each
from jiyi.storage.segment import MOST_ROWS, Segment, id_keys, merged
from jiyi.storage.user_cache import with_room
from jiyi.storage.words import ENTRY, term_hash

__all__ = ["Numbers", "TermRow", "UserTerms", "WordScores", "are_sound"]

TermRow = tuple[
    int, Kind, str, Role | None, str | None, str | None, int | None, int, int, int, str | None, bytes
]
"""doc, kind, id, role, session_id, agent_id, seq, created_at, length, traits, speaker, entry."""

# Okapi BM25, Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond",
# Foundations and Trends in Information Retrieval 3(4), 2009. Messages are short and speak of one
# thing: length says less about them than about articles, for which 0.75 is usual.
_K1 = 1.2  # how soon further occurrences of a word stop counting
_B = 0.4  # how much length counts against a row

_MESSAGE_BYTES = 2_000  # a short one, about
_ID_BYTES = 57  # an id in a list, beside its letters
_NAME_BYTES = 200  # a name with its number, about

_COLUMNS: dict[str, Any] = {
    "doc": np.int64,
    "label": np.uint8,  # kind and role, see `jiyi.storage.candidates.LABELS`
    "session": np.int32,  # number in `sessions`, -1 for none
    "agent": np.int32,  # number in `agents`, -1 for none
    "speaker": np.int32,  # number in `speakers`, -1 for none
    "seq": np.int32,  # place in its session, -1 for what is no message
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


def _empty_columns() -> dict[str, NDArray[Any]]:
    return {name: np.empty(0, dtype) for name, dtype in _COLUMNS.items()}


def are_sound(rows: Sequence[TermRow]) -> bool:
    """Say whether all rows have the types and ranges that are written."""
    if not rows:
        return True
    columns = list(zip(*rows, strict=True))
    typed = all(set(map(type, column)) <= types for column, types in zip(columns, _TYPES, strict=True))
    if not typed or not {*zip(columns[1], columns[3], strict=True)} <= {*LABELS}:
        return False
    small = (number for column in (*columns[6:7], *columns[8:10]) for number in column if number is not None)
    return all(0 <= number < 2**31 for number in small) and not any(
        len(entry) % ENTRY.itemsize for entry in columns[11]
    )


class Numbers:
    """Names and the numbers they get in the order of their coming; nothing leaves."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[str | None, int] = {None: -1}

    def add(self, names: Sequence[str | None]) -> list[int]:
        """Return the numbers of names, new ones for the new; -1 for None."""
        for name in dict.fromkeys(names):
            if name is not None and name not in self._numbers:
                self._numbers[name] = len(self.names)
                self.names.append(name)
        return list(map(self._numbers.__getitem__, names))

    def get(self, name: str) -> int | None:
        """Return the number of a name, None for an unknown one."""
        return self._numbers.get(name)


@dataclass(frozen=True, slots=True, eq=False)
class WordScores:
    """What the words of a question are worth in every row of a user."""

    text: NDArray[np.float32]  # BM25
    idf: NDArray[np.float32]  # of each word
    found: tuple[tuple[int, int, NDArray[np.int32], NDArray[np.float32]], ...]  # word, first row, rows, gains

    def words(self, rows: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return what each word gives these rows, before its idf: shape (rows, words)."""
        out = np.zeros((len(rows), len(self.idf)), np.float32)
        places = np.full(len(self.text), -1, np.int32)
        places[rows] = np.arange(len(rows))
        for word, start, held, gains in self.found:
            shown = places[start:][held]
            there = np.flatnonzero(shown >= 0)
            out[shown[there], word] = gains[there]
        return out


@dataclass(slots=True)
class UserTerms:
    """Rows in the order they were stored, as columns, and their terms inverted in segments.

    Arrays grow with room to spare; of rows in use only ``following`` changes, to a row that
    came later. A search goes on with its own view while rows are added after it.
    """

    generation: int = 0  # of the user's removals and changes, when it was read
    last_doc: int = 0  # newest row read
    size: int = 0  # rows in use
    terms_total: int = 0  # lengths of all rows together
    columns: dict[str, NDArray[Any]] = field(default_factory=_empty_columns)
    ids: list[str] = field(default_factory=list)  # of each row, shared with views
    id_bytes: int = 0  # what ``ids`` take, about
    segments: tuple[Segment, ...] = ()
    sessions: Numbers = field(default_factory=Numbers)
    agents: Numbers = field(default_factory=Numbers)
    speakers: Numbers = field(default_factory=Numbers)
    messages: dict[Key, Record] = field(default_factory=dict)  # read before, see `Store.named`
    changes: int = 0  # see `Store.changes`; when they were read
    _last_said: dict[int, tuple[int, int]] = field(default_factory=dict)  # by session: last place, its row

    @property
    def nbytes(self) -> int:
        """Bytes held, about."""
        names = len(self.sessions.names) + len(self.agents.names) + len(self.speakers.names)
        arrays = sum([column.nbytes for column in self.columns.values()])
        arrays += sum([segment.nbytes for segment in self.segments])
        return arrays + self.id_bytes + _NAME_BYTES * names + _MESSAGE_BYTES * len(self.messages)

    def view(self) -> "UserTerms":
        """Return the rows in use as they are now."""
        columns = {name: column[: self.size] for name, column in self.columns.items()}
        return replace(self, columns=columns)

    def append(self, rows: Sequence[TermRow]) -> None:
        """Take in at most `MOST_ROWS` rows after those that are there; their docs ascend."""
        if not rows:
            return
        docs, kinds, ids, roles, sessions, agents, seqs, moments, lengths, traits, speakers, entries = zip(
            *rows, strict=True
        )
        start, size = self.size, self.size + len(rows)
        room = max(size, start + start // 2) if size > len(self.columns["doc"]) else size
        self.columns = {name: with_room(column, start, room) for name, column in self.columns.items()}
        new = {name: column[start:size] for name, column in self.columns.items()}
        new["doc"][:], new["created_at"][:] = docs, moments
        new["length"][:], new["traits"][:] = lengths, traits
        new["label"][:] = label_each(zip(kinds, roles, strict=True))
        new["session"][:] = self.sessions.add(sessions)
        new["agent"][:] = self.agents.add(agents)
        new["speaker"][:] = self.speakers.add(speakers)
        new["seq"][:] = [-1 if seq is None else seq for seq in seqs]
        self._link(start, size)
        self.ids += ids
        self.id_bytes += sum(map(len, ids)) + _ID_BYTES * len(ids)
        segment = Segment.of(start, entries, id_keys(zip(kinds, ids, strict=True)))
        self.segments = merged((*self.segments, segment))
        self.terms_total += sum(lengths)
        self.size, self.last_doc = size, docs[-1]

    def _link(self, start: int, size: int) -> None:
        """Tie messages to their neighbours; nearly always they come in the order of ``seq``."""
        last, columns = self._last_said, self.columns
        before = np.full(size - start, -1, np.int32)
        said = zip(columns["session"][start:size].tolist(), columns["seq"][start:size].tolist(), strict=True)
        returned = set()
        for place, (session, seq) in enumerate(said):
            if seq >= 0:
                last_seq, row = last.get(session, (-1, -1))
                if seq < last_seq:
                    returned.add(session)
                else:
                    before[place] = row
                    last[session] = seq, start + place
        columns["previous"][start:size], columns["following"][start:size] = before, -1
        after = np.flatnonzero(before >= 0)
        columns["following"][before[after]] = start + after
        if returned:
            self._link_again(list(returned), size)

    def _link_again(self, sessions: Sequence[int], size: int) -> None:
        """Tie all messages of sessions; views keep the links they have."""
        columns = self.columns = self.columns | {
            name: self.columns[name].copy() for name in ("previous", "following")
        }
        rows = np.flatnonzero(np.isin(columns["session"][:size], sessions) & (columns["seq"][:size] >= 0))
        rows = rows[np.lexsort((columns["seq"][rows], columns["session"][rows]))]
        columns["previous"][rows], columns["following"][rows] = -1, -1
        joined = np.flatnonzero(np.diff(columns["session"][rows]) == 0)
        columns["previous"][rows[joined + 1]] = rows[joined]
        columns["following"][rows[joined]] = rows[joined + 1]

    def beside(self, rows: NDArray[np.intp], link: str) -> NDArray[np.intp]:
        """Return the neighbours of rows by a link, "previous" or "following", -1 for none."""
        found = np.where(rows >= 0, self.columns[link][rows], -1).astype(np.intp)
        return np.where(found < self.size, found, -1)  # later rows belong to another view

    def keys(self, rows: Rows) -> list[Key]:
        """Return kind and id of rows."""
        places = zip(self.columns["label"][rows].tolist(), rows.tolist(), strict=True)
        return [(KINDS_BY_LABEL[label], self.ids[row]) for label, row in places]

    def kinds(self) -> list[Kind]:
        """Return the kinds there are among the rows in use."""
        held = np.flatnonzero(np.bincount(self.columns["label"][: self.size]))
        return list(dict.fromkeys(KINDS_BY_LABEL[label] for label in held.tolist()))

    def rows_of(self, keys: Sequence[Key]) -> Rows:
        """Return the rows of keys, -1 for unknown ones."""
        found = np.full(len(keys), -1, np.intp)
        wanted = id_keys(keys)
        for segment in self.segments:
            at = np.searchsorted(segment.ids, wanted)
            left = np.flatnonzero(found < 0)
            while len(left):  # once, unless two ids share their hash
                left = left[at[left] < segment.count]
                left = left[(segment.ids[at[left]] ^ wanted[left]) < MOST_ROWS]
                rows = segment.start + (segment.ids[at[left]] & np.uint64(MOST_ROWS - 1)).astype(np.intp)
                asked = map(keys.__getitem__, left.tolist())
                same = np.fromiter(map(eq, asked, self.keys(rows)), np.bool_, len(left))
                found[left[same]] = rows[same]
                left = left[~same]
                at[left] += 1
        return found

    def places_of(self, docs: NDArray[np.int64]) -> Rows:
        """Return the rows of document numbers, -1 for unknown ones."""
        known = self.columns["doc"]
        if not len(known):
            return np.full(len(docs), -1, np.intp)
        places = np.minimum(np.searchsorted(known, docs), len(known) - 1)
        return np.where(known[places] == docs, places, -1)

    def matches(self, docs: NDArray[np.int64], scores: NDArray[Any]) -> list[Match]:
        """Return the records of these numbers, in their order, without unknown ones."""
        places = self.places_of(docs)
        keys = zip(self.keys(places[places >= 0]), scores[places >= 0].tolist(), strict=True)
        return [Match(*key, score) for key, score in keys]

    def score(self, terms: Sequence[str]) -> WordScores:
        """Return BM25 of distinct terms for every row of a `view`.

        idf = ln(1 + (N - n + 0.5) / (n + 0.5)) for a term in n of N rows; a row with c of it
        and a length of l terms gets idf * c / (c + k1 * (1 - b + b * l / average length)).
        The factor k1 + 1 that some put before it is left out: it changes no order.
        """
        hashes = np.array([term_hash(term) for term in terms], np.uint32)
        spans = [segment.find(hashes) for segment in self.segments]
        held = np.zeros(len(terms), np.int64)
        for begins, ends in spans:
            held += ends - begins
        idf = np.log1p((self.size - held + 0.5) / (held + 0.5)).astype(np.float32)
        text = np.zeros(self.size, np.float32)
        found = []
        average = self.terms_total / self.size if self.terms_total else 1.0
        norms = (_K1 * (1 - _B) + _K1 * _B / average * self.columns["length"]).astype(np.float32)
        for segment, (begins, ends) in zip(self.segments, spans, strict=True):
            within = slice(segment.start, segment.start + segment.count)
            mine, theirs = text[within], norms[within]
            for place in np.flatnonzero(ends > begins).tolist():
                rows = segment.rows[begins[place] : ends[place]]
                gains = segment.counts[begins[place] : ends[place]].astype(np.float32)
                gains /= gains + theirs[rows]
                np.add.at(mine, rows, gains * idf[place])  # faster than mine[rows] += ...
                found.append((place, segment.start, rows, gains))
        return WordScores(text, idf, tuple(found))
