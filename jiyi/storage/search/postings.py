"""The terms of records: encoded as bytes, as every backend stores them, and inverted for text search.

An entry holds, for each distinct term in ascending order of its hash, 5 bytes, little-endian:

* the CRC-32 of the term's UTF-8 (the polynomial of zip and PNG, as `zlib.crc32`), 4 bytes,
* how often the term occurs, 1 byte, where 255 stands for 255 and more.

Hashes take a fraction of the space of words and are compared as numbers. The index cannot tell
two words with the same hash apart. If a user's memory has 100,000 words, the chance that one of
them shares the hash of a given word is 1 in 43,000; a record then gets the score of a word it does
not have, and the other words of the query still decide. Counts above 255 occur in records of
thousands of terms, such as logs; those score somewhat lower than by their full counts.

A `Segment` inverts the entries of consecutive rows by term and by id. Both indexes are sorted arrays of
64-bit keys, so that building and merging are one sort each: a posting is term (32 bits), row within the
segment (24), count (8); an id is 40 bits of its hash and the row (24).
"""

import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jiyi.records import Message, Searchable
from jiyi.records.checks import UNSTORABLE
from jiyi.storage.rows import Row
from jiyi.text import analyse
from jiyi.text.traits import traits

ENTRY = np.dtype([("term", "<u4"), ("count", "u1")])
"""One term of an entry: 5 bytes without padding."""

_MAX_COUNT = 255


def term_hash(term: str) -> int:
    """Return the number that stands for a term in entries."""
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))


def pack(terms: Iterable[str]) -> bytes:
    """Return the entry of a record with these terms, in any order and with repetitions."""
    counts = sorted(Counter(map(term_hash, terms)).items())
    return b"".join(term.to_bytes(4, "little") + min(count, _MAX_COUNT).to_bytes() for term, count in counts)


def unpack(entries: bytes) -> NDArray[np.void]:
    """Return the terms and counts of an entry, or of several joined, as an array of `ENTRY`."""
    return np.frombuffer(entries, ENTRY)


Words = tuple[int, int, bytes]
"""The analysis of a text: number of terms, traits, and the terms as `pack` encodes them."""


def storable(text: str) -> str:
    """Return a text with U+FFFD for what no text column can hold: zero bytes and lone surrogates."""
    return UNSTORABLE.sub("\ufffd", text) if UNSTORABLE.search(text) else text


def encode_terms(record: Searchable, known: Words | None = None) -> Row:
    """Return a record's columns for the indexes, from ``known`` if its text was analysed before."""
    text = record.search_text
    if known is None:
        terms = analyse(text)
        known = len(terms), int(traits(text)), pack(terms)
    speaker = None
    if isinstance(record, Message):  # a tool's name is a word, not a name: "book_room"
        speaker = "tool" if record.role == "tool" else storable(record.speaker)
    row: Row = {"length": known[0], "traits": known[1], "speaker": speaker, "entry": known[2]}
    return row | {"vector_state": "pending" if text.strip() else "none"}


MAX_SEGMENT_ROWS = 1 << 24
"""The most rows of one segment."""

_ROW = np.uint64(MAX_SEGMENT_ROWS - 1)
_COUNT = np.uint64(0xFF)
_8, _32 = np.uint64(8), np.uint64(32)
_HASH = ~_ROW

_Keys = NDArray[np.uint64]


def id_keys(names: Iterable[tuple[str, str]]) -> _Keys:
    """Return the keys of records by kind and id, with row 0; they are valid in this process only."""
    return np.fromiter(map(hash, names), np.int64).view(np.uint64) & _HASH


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Rows from ``start`` on; immutable."""

    start: int  # the first row's number among the user's rows
    count: int  # rows
    terms: NDArray[np.uint32]  # distinct terms, ascending
    starts: NDArray[np.int64]  # where each term's postings begin, and where the last one's end
    rows: NDArray[np.int32]  # rows of each term, ascending, counted from ``start``
    counts: NDArray[np.uint8]  # how often the term is in the row
    ids: _Keys  # ids, ascending

    @classmethod
    def of(cls, start: int, entries: Sequence[bytes], ids: _Keys) -> "Segment":
        """Invert rows given by their entries (`jiyi.storage.search.postings`) and `id_keys`."""
        rows = np.arange(len(entries), dtype=np.uint64)
        found = unpack(b"".join(entries))
        sizes = [len(entry) // found.itemsize for entry in entries]
        postings = found["term"].astype(np.uint64) << _32
        postings |= np.repeat(rows, sizes) << _8
        postings |= found["count"]
        return cls._inverted(start, len(entries), postings, ids | rows)

    @classmethod
    def _inverted(cls, start: int, count: int, postings: _Keys, ids: _Keys) -> "Segment":
        postings.sort()
        ids.sort()
        terms = (postings >> _32).astype(np.uint32)
        first = np.flatnonzero(np.r_[True, terms[1:] != terms[:-1]][: len(terms)])
        rows, counts = ((postings >> _8) & _ROW).astype(np.int32), (postings & _COUNT).astype(np.uint8)
        return cls(start, count, terms[first], np.r_[first, len(terms)], rows, counts, ids)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum([array.nbytes for array in (self.terms, self.starts, self.rows, self.counts, self.ids)])

    def find(self, terms: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the postings of each term begin and end; the same where it has none."""
        if not len(self.terms):
            return np.zeros(len(terms), np.int64), np.zeros(len(terms), np.int64)
        places = np.minimum(np.searchsorted(self.terms, terms), len(self.terms) - 1)
        begins = self.starts[places]
        return begins, np.where(self.terms[places] == terms, self.starts[places + 1], begins)

    def postings(self, shift: int) -> _Keys:
        """Return the postings as keys, their rows moved up by ``shift``."""
        keys = np.repeat(self.terms.astype(np.uint64), np.diff(self.starts)) << _32
        keys |= (self.rows + shift).astype(np.uint64) << _8
        keys |= self.counts
        return keys


def merge_segments(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Merge consecutive segments until each is at least twice as long as the next.

    Of n rows added one by one each is sorted log n times, and a search reads log n segments.
    """
    first, count = len(segments) - 1, segments[-1].count
    while first and (before := segments[first - 1].count) < 2 * count and before + count <= MAX_SEGMENT_ROWS:
        first -= 1
        count += before
    if first == len(segments) - 1:
        return tuple(segments)
    tail, start = segments[first:], segments[first].start
    postings = np.concatenate([segment.postings(segment.start - start) for segment in tail])
    ids = np.concatenate([segment.ids + np.uint64(segment.start - start) for segment in tail])
    return (*segments[:first], Segment._inverted(start, count, postings, ids))
