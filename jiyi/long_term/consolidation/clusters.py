"""Episodes without a target: which of them are about the same, and which knowledge they belong to.

A text joins the leader it is most similar to, if it is similar enough; else it leads a group of its
own (leader clustering, Hartigan 1975, chapter 3). Leaders never change, so a group that was found once
takes in later texts by the same measure.

The similarity of two texts is

* by words: the cosine of their sets of search terms, rare terms counting more (a term of ``df``
  out of n texts weighs log(1 + n / df)); `_WORDS_ENOUGH` is enough;
* by vectors, if both have one and there are at least `_VECTORS_FROM` of them: the cosine after
  subtracting the mean of all (vectors of one language are close together whatever they say), plus
  half of the cosine of their words; `_BOTH_ENOUGH` is enough.

The numbers were chosen on hand-written episodes of ten themes in each language, with the bundled
model; docs/consolidation.md gives the figures.
"""

import math
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from jiyi.long_term.consolidation.lesson import Brief
from jiyi.long_term.consolidation.writer import Group
from jiyi.one_thread import one_blas_thread
from jiyi.prompts import Language
from jiyi.records import Episode, Knowledge, Query, Scope, stable_id
from jiyi.storage import Store, VectorIndex
from jiyi.storage.pages import all_pages
from jiyi.text import analyse
from jiyi.text import language as language_of

__all__ = ["WINDOW", "Likeness", "find_alike", "group_around"]

WINDOW = 2_000  # so many episodes without a target are compared with each other: the newest
_MOST_LEADERS = 2_000  # knowledge of such episodes that may grow: the youngest
_HEADS = 5  # sources of a knowledge that are looked for as its leader
_PAGE = 200
_WORDS = 2_000  # characters of an episode that are compared
_WORDS_ENOUGH = 0.15
_BOTH_ENOUGH = 0.25
_SHARE_OF_WORDS = 0.5
_VECTORS_FROM = 20  # the mean of fewer shows a theme more than a language

_Floats = NDArray[np.float32]
_Postings = Mapping[str, tuple[NDArray[np.intp], _Floats]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Alike:
    groups: tuple[Group, ...]  # to be written
    alone: int  # new episodes that are like too few others
    lacking: int  # of these, such as have no vector yet


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    brief: Brief
    words: str
    language: Language
    is_new: bool  # in no knowledge yet

    @classmethod
    def of(cls, episode: Episode) -> "_Text":
        words = episode.search_text[:_WORDS]
        return cls(
            brief=Brief.of(episode), words=words, language=language_of(words), is_new=not episode.consolidated
        )


def find_alike(store: Store, vectors: VectorIndex | None, scope: Scope, min_episodes: int) -> _Alike:
    """Return the groups among the newest `WINDOW` episodes of a scope that have no target.

    It compares episodes of one agent in one language. The first episode leads the group; its
    knowledge, once written, keeps that leader (the first of its sources that still exists), and
    later episodes similar to the leader join it.
    """
    query = Query(scope=scope, kinds=("episode",), target="", newest_first=True, limit=WINDOW)
    window = [_Text.of(cast("Episode", episode)) for episode in reversed(store.find(query))]
    leaders, known = _leaders(store, scope)
    texts = {text.brief.id: text for text in (*leaders, *window)}
    parts: dict[tuple[str | None, Language], list[_Text]] = {}
    for text in texts.values():
        parts.setdefault((text.brief.agent_id, text.language), []).append(text)
    groups: list[Group] = []
    alone = lacking = 0
    for part in parts.values():
        if not any(text.is_new for text in part):
            continue
        matrix = _read(vectors, scope, part)
        found = _group(scope.user_id, part, matrix, known, min_episodes)
        groups += found
        taken = {id_ for group in found for id_ in group.ids}
        left = [place for place, text in enumerate(part) if text.is_new and text.brief.id not in taken]
        alone += len(left)
        if matrix is not None:
            lacking += sum(not matrix[place].any() for place in left)
    return _Alike(groups=tuple(groups), alone=alone, lacking=lacking)


def _group(
    user_id: str,
    texts: Sequence[_Text],
    matrix: NDArray[np.float32] | None,
    known: Mapping[str, str],
    min_episodes: int,
) -> list[Group]:
    leading = [place for place, text in enumerate(texts) if text.brief.id in known]
    rest = [place for place, text in enumerate(texts) if text.is_new and text.brief.id not in known]
    with one_blas_thread():
        likeness = Likeness([text.words for text in texts], matrix)
        found = group_around(likeness, leading, rest, min_episodes)
    groups = []
    for place, members in found.items():
        lead = texts[place].brief
        scope = Scope(user_id=user_id, agent_id=lead.agent_id)
        new_id = stable_id("knowledge", user_id, lead.agent_id or "", "alike", lead.id)
        group = Group(scope=scope, knowledge_id=known.get(lead.id, new_id), target="")
        for member in sorted(members):
            group.add(texts[member].brief)
        groups.append(group)
    return groups


def _leaders(store: Store, scope: Scope) -> tuple[list[_Text], dict[str, str]]:
    """Return the leaders of the knowledge there is, and the knowledge of each, by episode id."""
    found: deque[tuple[_Text, str]] = deque(maxlen=_MOST_LEADERS)
    query = Query(scope=scope, kinds=("knowledge",), limit=_PAGE)
    for page in all_pages(store, query):
        heads = {
            known.id: known.source_episodes[:_HEADS] for known in cast("tuple[Knowledge, ...]", page.records)
        }
        ids = tuple(id_ for some in heads.values() for id_ in some)
        if ids:
            of_none = Query(scope=scope, kinds=("episode",), ids=ids, target="", limit=len(ids))
            there = {e.id: e for e in cast("list[Episode]", store.find(of_none))}
            for knowledge_id, some in heads.items():
                lead = next((there[id_] for id_ in some if id_ in there), None)
                if lead is not None:
                    found.append((_Text.of(lead), knowledge_id))
    return [text for text, _ in found], {text.brief.id: id_ for text, id_ in found}


def _read(vectors: VectorIndex | None, scope: Scope, texts: Sequence[_Text]) -> NDArray[np.float32] | None:
    """Return the vector of each episode's beginning, zeros where there is none yet."""
    if vectors is None:
        return None
    parts = vectors.read(scope, [("episode", text.brief.id) for text in texts])
    matrix = np.zeros((len(texts), parts.vectors.shape[1]), np.float32)
    rows, first = np.unique(parts.rows, return_index=True)
    matrix[rows] = parts.vectors[first]
    return matrix


class Likeness:
    """Some texts that can be compared with each other.

    Args:
        texts: of one language.
        vectors: one row a text, of length 1; a row of zeros for a text that has none yet.
    """

    def __init__(self, texts: Sequence[str], vectors: _Floats | None = None) -> None:
        self._terms = [frozenset(analyse(text[:_WORDS])) for text in texts]
        self._postings = _postings(self._terms)
        self._vectors = None if vectors is None else _centred(vectors)
        self._known = np.zeros(len(texts), np.bool_)  # which texts have a vector that is of use
        if self._vectors is not None:
            self._known[:] = np.any(self._vectors, axis=1)

    def to_all(self, place: int) -> _Floats:
        """Return the similarity of a text to each of the texts: 1 and more is enough."""
        words = np.zeros(len(self._terms), np.float32)
        for term in sorted(self._terms[place]):  # in one order: sums come out the same in every process
            rows, weights = self._postings[term]
            words[rows] += weights * weights[np.searchsorted(rows, place)]
        scores: _Floats = words / np.float32(_WORDS_ENOUGH)
        if self._vectors is not None and self._known[place]:
            both = (self._vectors @ self._vectors[place] + _SHARE_OF_WORDS * words) / _BOTH_ENOUGH
            scores = np.maximum(scores, np.where(self._known, both, 0), dtype=np.float32)
        return scores


def group_around(
    likeness: Likeness, leaders: Sequence[int], rest: Sequence[int], at_least: int
) -> dict[int, list[int]]:
    """Return the members of each group that has any, by the place of its leader.

    Those of ``rest`` that are similar to a leader join the nearest one; the others, in order, form
    groups of ``at_least``, led by their first. This is repeated until nothing changes: a call with
    the new leaders and what is left finds nothing.
    """
    groups: dict[int, list[int]] = {leader: [] for leader in leaders}
    left, before = list(rest), -1
    while len(left) != before:
        before = len(left)
        alone = [place for place in left if not _join(place, groups, likeness)]
        small: dict[int, list[int]] = {}
        for place in alone:
            if not _join(place, small, likeness):
                small[place] = [place]
        grown = {leader: members for leader, members in small.items() if len(members) >= at_least}
        groups |= grown
        taken = {place for members in grown.values() for place in members}
        left = [place for place in alone if place not in taken]
    return {leader: members for leader, members in groups.items() if members}


def _join(place: int, groups: dict[int, list[int]], likeness: Likeness) -> bool:
    """Put a text into the group whose leader it is most like, the earlier of equal ones."""
    if not groups:
        return False
    leaders = np.fromiter(groups, np.intp, len(groups))
    scores = likeness.to_all(place)[leaders]
    best = int(scores.argmax())
    if scores[best] < 1:
        return False
    groups[int(leaders[best])].append(place)
    return True


def _postings(texts: Sequence[frozenset[str]]) -> _Postings:
    """Return for each term the texts that have it, ascending, and its weight there."""
    rows: dict[str, list[int]] = defaultdict(list)
    for place, terms in enumerate(texts):
        for term in terms:
            rows[term].append(place)
    idf = {term: math.log(1 + len(texts) / len(places)) for term, places in rows.items()}
    lengths = [math.sqrt(math.fsum(idf[term] ** 2 for term in terms)) for terms in texts]
    return {
        term: (
            np.array(places, np.intp),
            np.array([idf[term] / lengths[place] for place in places], np.float32),
        )
        for term, places in rows.items()
    }


def _centred(vectors: _Floats) -> _Floats | None:
    known = np.any(vectors, axis=1, keepdims=True)
    if known.sum() < _VECTORS_FROM:
        return None
    centred = np.where(known, vectors - vectors[known[:, 0]].mean(axis=0), 0)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    return cast("_Floats", (centred / np.maximum(lengths, 1e-9)).astype(np.float32))
