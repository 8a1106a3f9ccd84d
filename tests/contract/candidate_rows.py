"""Candidates as plain rows, and BM25 written out again from its formula."""

import math
from collections import Counter
from dataclasses import dataclass

from jiyi.storage import ROLES
from jiyi.text import Trait, analyse, query_terms


@dataclass(frozen=True)
class Row:
    text: float
    words: tuple[float, ...]
    eligible: bool
    session: int
    previous: str | None
    following: str | None
    speaker: str | None
    role: str | None
    created_at: int
    traits: Trait
    length: int


def rows_of(found):
    """Return the rows of candidates by id; neighbours by their ids."""
    names = [*(id_ for _, id_ in found.keys), None]  # -1 is nobody, and no speaker, and no role
    named = [(names, found.previous), (names, found.following)]
    named += [([*found.speakers, None], found.speaker), ([*ROLES, None], found.roles)]
    columns = [found.text.tolist(), map(tuple, found.words.tolist())]
    columns += [found.eligible.tolist(), found.session.tolist()]
    columns += [[known[place] for place in places] for known, places in named]
    columns += [found.created_at.tolist(), map(Trait, found.traits.tolist()), found.length.tolist()]
    return {id_: Row(*row) for id_, *row in zip(names[:-1], *columns, strict=True)}


def naive_bm25(records, question):
    """Return idf by term, and (score, what each term gives) by id, for all records of one user.

    k1 = 1.2, b = 0.4.
    """
    terms = query_terms(question)
    if len(terms) > 256:
        terms = terms[:128] + terms[-128:]
    counts = {r.id: Counter(analyse(r.search_text)) for r in records}
    held = Counter(term for found in counts.values() for term in found)
    total = len(records)
    idf = {t: math.log(1 + (total - held[t] + 0.5) / (held[t] + 0.5)) for t in terms}
    average = sum(found.total() for found in counts.values()) / total if total else 0
    scores = {}
    for id_, found in counts.items():
        norm = 1.2 * (0.6 + 0.4 * found.total() / average) if average else 1
        gains = tuple(found[t] / (found[t] + norm) for t in terms)
        scores[id_] = (math.fsum(idf[t] * gain for t, gain in zip(terms, gains, strict=True)), gains)
    return idf, scores
