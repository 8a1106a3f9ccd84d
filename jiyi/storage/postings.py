"""The terms of one record as bytes: what every backend keeps beside a record for text search.

An entry holds, for each distinct term in ascending order of its hash, 5 bytes, little-endian:

* the CRC-32 of the term's UTF-8 (the polynomial of zip and PNG, as `zlib.crc32`), 4 bytes,
* how often the term occurs, 1 byte, where 255 stands for 255 and more.

Hashes take a fraction of the room of words and are compared as numbers. Two words of one
hash are one to the index. Of 100,000 words in a user's memory, one shares the hash of a given
word with a chance of 1 in 43,000; then a record gets the score of a word it does not have, and
the other words of the question still decide. Counts above 255 occur in records of thousands
of terms, such as logs; those score somewhat lower than by their full counts.
"""

import zlib
from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = ["ENTRY", "pack", "term_hash", "unpack"]

ENTRY = np.dtype([("term", "<u4"), ("count", "u1")])
"""One term of an entry: 5 bytes without padding."""

_MOST = 255


def term_hash(term: str) -> int:
    """Return the number that stands for a term in entries."""
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))


def pack(terms: Iterable[str]) -> bytes:
    """Return the entry of a record with these terms, in any order and with repetitions."""
    counts = sorted(Counter(map(term_hash, terms)).items())
    return b"".join(term.to_bytes(4, "little") + min(count, _MOST).to_bytes() for term, count in counts)


def unpack(entries: bytes) -> NDArray[np.void]:
    """Return the terms and counts of an entry, or of several joined, as an array of `ENTRY`."""
    return np.frombuffer(entries, ENTRY)
