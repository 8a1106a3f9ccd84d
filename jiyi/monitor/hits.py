"""Whether a reply used the recalled blocks, judged by the words they share.

The distinctive terms of a block are those that the question does not have. Each weighs by how few blocks of
the window have it (idf, Spärck Jones 1972), three times that with a digit, twice as a name. A block was used
if the reply contains at least `USED_SHARE` of their weight; of a long block no more than 14 is required (a
rare plain word weighs 1), since a reply takes one thing from it and leaves the rest.

Not detected: a reply in another language than the block (except for numbers, names and identifiers), one
that only says yes or no, and a date that is above the text and not in it.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from jiyi.records import Block, Section
from jiyi.text import analyse, query_terms

__all__ = ["RETRIEVED_SECTIONS", "USED_SHARE", "Hit", "Hits", "find_hits"]

RETRIEVED_SECTIONS: tuple[Section, ...] = ("knowledge", "episodes", "recalled")
"""The sections with blocks that a search found; only these can be hits."""

USED_SHARE = 0.2
"""The share of the weight of a block from which it counts as used."""

_MAX_WEIGHT = 14.0  # of a block
_NUMBER_FACTOR = 3.0
_NAME_FACTOR = 2.0
_MAX_CHARS = 4_000  # of a block and of a question
_MAX_REPLY_CHARS = 20_000  # of a reply
_DIGIT = re.compile(r"\d")
_CHINESE = r"\u4e00-\u9fff，。：；、（“《"
_NAMES = re.compile(
    r"(?<=[a-z0-9,;:] )[A-Z][A-Za-z]+"  # capitalised inside a sentence
    r"|[A-Za-z]{1,40}(?:[A-Z_./-]{1,10}[a-z0-9]{1,40})+|[A-Z]{2,}"  # identifiers, acronyms
    rf"|(?:(?<=[{_CHINESE}])|(?<=[{_CHINESE}] ))[A-Za-z][\w.-]+"  # Latin words amid Chinese
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Whether one block was used."""

    section: Section
    source_id: str  # the id of the record of the block
    share: float  # of its weight that is in the reply, 0..1
    used: bool  # whether the share is at least `USED_SHARE`


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """Which retrieved blocks of one window were used."""

    blocks: tuple[Hit, ...]  # in the order of the window

    @property
    def used(self) -> int:
        """The number of used blocks."""
        return sum(hit.used for hit in self.blocks)


def find_hits(question: str, blocks: Sequence[Block], reply: str) -> Hits:
    """Return which blocks in `RETRIEVED_SECTIONS` the reply used; words of the question prove nothing.

    Takes some two milliseconds for each thousand characters of blocks. The first 4,000 characters of a block
    and 20,000 of the reply are read. A block without distinctive terms is not used.
    """
    question_terms = set(analyse(question[:_MAX_CHARS]))
    reply_terms = set(analyse(reply[:_MAX_REPLY_CHARS])) - question_terms
    candidates = [block for block in blocks if block.section in RETRIEVED_SECTIONS]
    terms = [_distinctive_terms(block.text[:_MAX_CHARS], question_terms) for block in candidates]
    counts = Counter(term for factors in terms for term in factors)
    rarest = log(1 + len(candidates))
    hits = []
    for block, factors in zip(candidates, terms, strict=True):
        weights = {t: factor * log(1 + len(candidates) / counts[t]) / rarest for t, factor in factors.items()}
        shared = sum(weight for term, weight in weights.items() if term in reply_terms)
        share = min(1.0, shared / min(_MAX_WEIGHT, sum(weights.values()))) if weights else 0.0
        used = share >= USED_SHARE
        hits.append(Hit(section=block.section, source_id=block.source_id, share=share, used=used))
    return Hits(blocks=tuple(hits))


def _distinctive_terms(text: str, known: set[str]) -> dict[str, float]:
    names = set(analyse(" ".join(_NAMES.findall(text))))
    return {
        term: _NUMBER_FACTOR if _DIGIT.search(term) else _NAME_FACTOR if term in names else 1.0
        for term in query_terms(text)
        if term not in known
    }
