"""The terms of records, encoded as bytes, as every backend stores them for text search.

An entry holds, for each distinct term in ascending order of its hash, 5 bytes, little-endian:

* the CRC-32 of the term's UTF-8 (the polynomial of zip and PNG, as `zlib.crc32`), 4 bytes,
* how often the term occurs, 1 byte, where 255 stands for 255 and more.

Hashes take a fraction of the space of words and are compared as numbers. The index cannot tell
two words with the same hash apart. If a user's memory has 100,000 words, the chance that one of
them shares the hash of a given word is 1 in 43,000; a record then gets the score of a word it does
not have, and the other words of the query still decide. Counts above 255 occur in records of
thousands of terms, such as logs; those score somewhat lower than by their full counts.
"""

import zlib
from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from jiyi.records import Message, Searchable
from jiyi.records.checks import UNSTORABLE
from jiyi.storage.rows import Row
from jiyi.text import analyse
from jiyi.text.traits import traits

__all__ = ["ENTRY", "Words", "encode_terms", "pack", "storable", "term_hash", "unpack"]

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
    speaker = storable(record.speaker) if isinstance(record, Message) else None
    row: Row = {"length": known[0], "traits": known[1], "speaker": speaker, "entry": known[2]}
    return row | {"vector_state": "pending" if text.strip() else "none"}
