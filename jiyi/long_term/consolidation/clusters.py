"""Groups episodes without a target by similarity.

A text joins the leader it is most similar to, if it is similar enough; else it leads a group of its own
(leader clustering, Hartigan 1975, chapter 3). Leaders never change, so later texts join an existing group by
the same measure. The similarity of two texts is

* by words: the cosine of their sets of search terms, rare terms counting more (a term of ``df`` out of n
  texts weighs log(1 + n / df)); `_WORD_THRESHOLD` is enough;
* by vectors, if both have one and there are at least `_MIN_VECTORS` of them: the cosine after subtracting the
  mean of all (vectors of one language are close together whatever the topic), plus half of the cosine of
  their words; `_VECTOR_THRESHOLD` is enough.

The numbers were chosen on hand-written episodes of ten themes in each language, with the bundled model;
docs/consolidation.md gives the figures.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from numpy.typing import NDArray

from jiyi.long_term.consolidation.lesson import Brief
from jiyi.long_term.finding import center, find_by_ids, first_vectors
from jiyi.one_thread import one_blas_thread
from jiyi.prompts import Language
from jiyi.records import Episode, Knowledge, Query, Scope, stable_id
from jiyi.storage import Key, Store, VectorIndex, grouped
from jiyi.storage.store import all_pages
from jiyi.text import analyse
from jiyi.text import language as language_of

MAX_READ = 1_000  # newest episodes of a group read for its lesson; all of them are its sources
WINDOW = 2_000  # newest episodes without a target that are compared with each other
_MAX_LEADERS = 2_000  # newest knowledge of such episodes that can be extended
_MAX_LEADER_SOURCES = 5  # first sources of a knowledge of which one is its leader
_PAGE = 200
_COMPARED_CHARS = 2_000  # of an episode
_WORD_THRESHOLD = 0.15
_VECTOR_THRESHOLD = 0.25
_WORD_WEIGHT = 0.5
_MIN_VECTORS = 20  # the mean of fewer reflects a topic more than a language

_Floats = NDArray[np.float32]
_Postings = Mapping[str, tuple[NDArray[np.intp], _Floats]]


@dataclass(slots=True)
class Group:
    """Episodes that belong together and are in no knowledge yet."""

    scope: Scope  # of the knowledge: the user, and the agent of the episodes
    knowledge_id: str
    target: str  # its key; "" if they are only similar
    ids: list[str] = field(default_factory=list)  # oldest first
    briefs: deque[Brief] = field(default_factory=lambda: deque(maxlen=MAX_READ))  # the newest, oldest first

    def add(self, brief: Brief) -> None:
        """Add the next episode."""
        self.ids.append(brief.id)
        self.briefs.append(brief)


@dataclass(frozen=True, slots=True)
class _Text:
    brief: Brief
    words: str
    language: Language
    is_new: bool  # in no knowledge yet

    @classmethod
    def of(cls, episode: Episode) -> "_Text":
        words = episode.search_text[:_COMPARED_CHARS]
        return cls(Brief.of(episode), words, language_of(words), is_new=not episode.consolidated)


def group_similar(
    store: Store, vectors: VectorIndex | None, scope: Scope, min_episodes: int
) -> tuple[list[Group], int, int]:
    """Return the groups among the newest `WINDOW` episodes of a scope without a target.

    Also how many new episodes are in no group, and how many of these have no vector yet.
    It compares episodes of one agent in one language. The first episode leads the group; its
    knowledge, once written, keeps that leader (the first of its sources that still exists), and
    later episodes similar to it join.
    """
    query = Query(scope=scope, kinds=("episode",), target="", newest_first=True, limit=WINDOW)
    window = [_Text.of(cast("Episode", episode)) for episode in reversed(store.find(query))]
    leaders, known = _load_leaders(store, scope)
    texts = {text.brief.id: text for text in (*leaders, *window)}
    parts = grouped(((text.brief.agent_id, text.language), text) for text in texts.values())
    groups: list[Group] = []
    ungrouped = unembedded = 0
    for part in parts.values():
        if not any(text.is_new for text in part):
            continue
        keys: list[Key | None] = [("episode", text.brief.id) for text in part]
        matrix = None if vectors is None else first_vectors(vectors, scope.user_id, keys)
        found = _make_groups(scope.user_id, part, matrix, known, min_episodes)
        groups += found
        in_group = {id_ for group in found for id_ in group.ids}
        left = [row for row, text in enumerate(part) if text.is_new and text.brief.id not in in_group]
        ungrouped += len(left)
        if matrix is not None:
            unembedded += sum(not matrix[row].any() for row in left)
    return groups, ungrouped, unembedded


def _make_groups(
    user_id: str, texts: Sequence[_Text], matrix: _Floats | None, known: Mapping[str, str], min_episodes: int
) -> list[Group]:
    leading = [position for position, text in enumerate(texts) if text.brief.id in known]
    rest = [position for position, text in enumerate(texts) if text.is_new and text.brief.id not in known]
    with one_blas_thread():
        similarity = TextSimilarity([text.words for text in texts], matrix)
        found = cluster_texts(similarity, leading, rest, min_episodes)
    groups = []
    for position, members in found.items():
        lead = texts[position].brief
        scope = Scope(user_id=user_id, agent_id=lead.agent_id)
        new_id = stable_id("knowledge", user_id, lead.agent_id or "", "alike", lead.id)
        group = Group(scope=scope, knowledge_id=known.get(lead.id, new_id), target="")
        for member in sorted(members):
            group.add(texts[member].brief)
        groups.append(group)
    return groups


def _load_leaders(store: Store, scope: Scope) -> tuple[list[_Text], dict[str, str]]:
    """Return the leaders of existing knowledge, and the knowledge ids by leader id."""
    found: deque[tuple[_Text, str]] = deque(maxlen=_MAX_LEADERS)
    for page in all_pages(store, Query(scope=scope, kinds=("knowledge",), limit=_PAGE)):
        knowledge = cast("tuple[Knowledge, ...]", page.records)
        sources = {one.id: one.source_episodes[:_MAX_LEADER_SOURCES] for one in knowledge}
        ids = [id_ for first_sources in sources.values() for id_ in first_sources]
        episodes = {e.id: e for e in find_by_ids(store, scope, "episode", ids, target="")}
        for knowledge_id, first_sources in sources.items():
            lead = next((episodes[id_] for id_ in first_sources if id_ in episodes), None)
            if lead is not None:
                found.append((_Text.of(lead), knowledge_id))
    return [text for text, _ in found], {text.brief.id: id_ for text, id_ in found}


class TextSimilarity:
    """Compares texts of one language; the rows of ``vectors`` have length 1, or 0 without a vector."""

    def __init__(self, texts: Sequence[str], vectors: _Floats | None = None) -> None:
        self._terms = [frozenset(analyse(text[:_COMPARED_CHARS])) for text in texts]
        self._postings = _postings(self._terms)
        self._vectors: _Floats | None = None
        self._known = np.zeros(len(texts), np.bool_)  # which texts have a usable vector
        if vectors is not None and (known := np.any(vectors, axis=1)).sum() >= _MIN_VECTORS:
            self._vectors = center(vectors, vectors[known].mean(axis=0))
            self._known[:] = np.any(self._vectors, axis=1)

    def similarities(self, position: int) -> _Floats:
        """Return the similarity of a text to each of the texts; from 1 on they belong together."""
        words = np.zeros(len(self._terms), np.float32)
        for term in sorted(self._terms[position]):  # in a fixed order, so that sums are always the same
            rows, weights = self._postings[term]
            words[rows] += weights * weights[np.searchsorted(rows, position)]
        scores: _Floats = words / np.float32(_WORD_THRESHOLD)
        if self._vectors is not None and self._known[position]:
            both = (self._vectors @ self._vectors[position] + _WORD_WEIGHT * words) / _VECTOR_THRESHOLD
            scores = np.maximum(scores, np.where(self._known, both, 0), dtype=np.float32)
        return scores


def cluster_texts(
    similarity: TextSimilarity, leaders: Sequence[int], rest: Sequence[int], min_size: int
) -> dict[int, list[int]]:
    """Return the members of each group that has any, by the position of its leader.

    Texts of ``rest`` that are similar to a leader join the nearest one; the others, in order, form
    groups of at least ``min_size`` led by their first. This is repeated until nothing changes, so a call
    with the new leaders and the remaining texts finds nothing.
    """
    groups: dict[int, list[int]] = {leader: [] for leader in leaders}
    left, before = list(rest), -1
    while len(left) != before:
        before = len(left)
        ungrouped = [position for position in left if not _join_nearest(position, groups, similarity)]
        small: dict[int, list[int]] = {}
        for position in ungrouped:
            if not _join_nearest(position, small, similarity):
                small[position] = [position]
        grown = {leader: members for leader, members in small.items() if len(members) >= min_size}
        groups |= grown
        taken = {position for members in grown.values() for position in members}
        left = [position for position in ungrouped if position not in taken]
    return {leader: members for leader, members in groups.items() if members}


def _join_nearest(position: int, groups: dict[int, list[int]], similarity: TextSimilarity) -> bool:
    """Add a text to the group with the most similar leader, if it is similar enough; return whether it is."""
    if not groups:
        return False
    leaders = np.fromiter(groups, np.intp, len(groups))
    scores = similarity.similarities(position)[leaders]
    best = int(scores.argmax())
    if scores[best] < 1:
        return False
    groups[int(leaders[best])].append(position)
    return True


def _postings(texts: Sequence[frozenset[str]]) -> _Postings:
    """Return for each term the texts that have it, ascending, and its weight there."""
    rows = grouped((term, position) for position, terms in enumerate(texts) for term in terms)
    idf = {term: math.log(1 + len(texts) / len(places)) for term, places in rows.items()}
    lengths = [math.sqrt(math.fsum(idf[term] ** 2 for term in terms)) for terms in texts]
    weights = {term: [idf[term] / lengths[row] for row in places] for term, places in rows.items()}
    return {term: (np.array(rows[term], np.intp), np.array(weights[term], np.float32)) for term in rows}
