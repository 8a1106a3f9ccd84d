"""Was what the memory recalled used in the reply? Told from the words they share.

A block's telling terms are those of its text that the question did not have already. Each
weighs by how few of the window's blocks have it (idf, Spärck Jones 1972), three times that
where it has a digit, twice where it is a name. A block was used when the reply holds at
least `USED` of their weight; of a long block no more than `MOST_WEIGHT` is asked for, since
a reply takes one thing from it and leaves the rest.

What this cannot see: a reply in another language than the block (numbers, names and
identifiers still meet), one that only says yes or no, and a date that stands above the
text and not in it.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from jiyi.records import Block, Section
from jiyi.text import analyse, query_terms

__all__ = ["MOST_WEIGHT", "RETRIEVED", "USED", "Hit", "Hits", "find_hits"]

RETRIEVED: tuple[Section, ...] = ("knowledge", "episodes", "recalled")
"""The sections whose blocks were searched for; others are not asked whether they hit."""

USED = 0.2
"""The share of a block's weight from which it counts as used."""

MOST_WEIGHT = 14.0
"""The weight a block has at most; a rare plain word weighs 1."""

_NUMBER = 3.0
_NAME = 2.0
_MOST_CHARS = 4_000  # of a block and of a question that are looked at
_MOST_REPLY = 20_000  # characters of a reply
_DIGIT = re.compile(r"\d")
_BEFORE = r"\u4e00-\u9fff，。：；、（“《"
_NAMES = re.compile(
    r"(?<=[a-z0-9,;:] )[A-Z][A-Za-z]+"  # capitalised inside a sentence
    r"|[A-Za-z]{1,40}(?:[A-Z_./-]{1,10}[a-z0-9]{1,40})+|[A-Z]{2,}"  # identifiers, acronyms
    rf"|(?:(?<=[{_BEFORE}])|(?<=[{_BEFORE}] ))[A-Za-z][\w.-]+"  # Latin words amid Chinese
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """What became of one block."""

    section: Section
    source_id: str  # the id of what the block was made from
    share: float  # how much of its weight is in the reply, 0..1
    used: bool  # whether that is enough


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """What became of the retrieved blocks of one window."""

    blocks: tuple[Hit, ...]  # in the order of the window

    @property
    def used(self) -> int:
        """How many of the blocks were used."""
        return sum(hit.used for hit in self.blocks)


def find_hits(question: str, blocks: Sequence[Block], reply: str) -> Hits:
    """Return which of the retrieved blocks the reply used.

    Pure; some two milliseconds for each thousand characters of blocks. The
    first 4,000 characters of a block and 20,000 of the reply are looked at. A block that
    says nothing beyond the question is not used.

    Args:
        question: what was asked; its words prove nothing.
        blocks: those of the window; only sections in `RETRIEVED` are looked at.
        reply: what the model answered.
    """
    asked = set(analyse(question[:_MOST_CHARS]))
    said = set(analyse(reply[:_MOST_REPLY])) - asked
    shown = [block for block in blocks if block.section in RETRIEVED]
    terms = [_telling(block.text[:_MOST_CHARS], asked) for block in shown]
    having = Counter(term for some in terms for term in some)
    rarest = log(1 + len(shown))
    hits = []
    for block, some in zip(shown, terms, strict=True):
        weights = {t: extra * log(1 + len(shown) / having[t]) / rarest for t, extra in some.items()}
        found = sum(weight for term, weight in weights.items() if term in said)
        share = min(1.0, found / min(MOST_WEIGHT, sum(weights.values()))) if weights else 0.0
        hits.append(Hit(section=block.section, source_id=block.source_id, share=share, used=share >= USED))
    return Hits(blocks=tuple(hits))


def _telling(text: str, asked: set[str]) -> dict[str, float]:
    """Return the terms that the question has not, each with its factor."""
    names = set(analyse(" ".join(_NAMES.findall(text))))
    return {
        term: _NUMBER if _DIGIT.search(term) else _NAME if term in names else 1.0
        for term in query_terms(text)
        if term not in asked
    }
