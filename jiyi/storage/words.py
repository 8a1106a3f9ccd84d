"""The words of records, as the text index stores them."""

import re

from jiyi.records import Message, Searchable
from jiyi.storage.postings import pack
from jiyi.storage.rows import Row
from jiyi.text import analyse
from jiyi.text.traits import traits

__all__ = ["Words", "encode_terms"]

Words = tuple[int, int, bytes]
"""What the analysis of a text gave: number of terms, traits, and the terms as `postings.pack` writes them."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # in a column of text


def encode_terms(record: Searchable, known: Words | None = None) -> Row:
    """Return the columns of the text index for a record; ``known`` are length, traits and entry of it."""
    speaker = _UNSTORABLE.sub("\ufffd", record.speaker) if isinstance(record, Message) else None
    if known is None:
        terms = analyse(record.search_text)
        known = len(terms), int(traits(record.search_text)), pack(terms)
    return {"length": known[0], "traits": known[1], "speaker": speaker, "entry": known[2]}
