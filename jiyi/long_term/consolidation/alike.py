"""Episodes without a target: which of them are alike, and which knowledge they belong to."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from jiyi.long_term.consolidation.brief import Brief
from jiyi.long_term.consolidation.likeness import Likeness, group_around
from jiyi.long_term.consolidation.write import Group
from jiyi.one_thread import one_blas_thread
from jiyi.prompts import Language
from jiyi.records import Episode, Knowledge, Query, Scope, stable_id
from jiyi.storage import Cursor, Store, Upkeep, VectorIndex
from jiyi.text import language as language_of

__all__ = ["WINDOW", "Alike", "find_alike"]

WINDOW = 2_000
"""So many episodes without a target are compared with each other: the newest."""

_MOST_LEADERS = 2_000  # knowledge of such episodes that may grow: the youngest
_HEADS = 5  # sources of a knowledge that are looked for as its leader
_PAGE = 200
_WORDS = 2_000  # characters of an episode that are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """What was found."""

    groups: tuple[Group, ...]  # to be written
    alone: int  # new episodes that are like too few others
    lacking: int  # of these, such as have no vector yet


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    """An episode as it is compared."""

    user_id: str
    brief: Brief
    words: str
    language: Language
    is_new: bool  # in no knowledge yet

    @classmethod
    def of(cls, episode: Episode) -> "_Text":
        words = episode.search_text[:_WORDS]
        return cls(
            user_id=episode.scope.user_id,
            brief=Brief.of(episode),
            words=words,
            language=language_of(words),
            is_new=not episode.consolidated,
        )


def find_alike(
    store: Store, upkeep: Upkeep, vectors: VectorIndex | None, scope: Scope, min_episodes: int
) -> Alike:
    """Return the groups among the newest `WINDOW` episodes of a scope that have no target.

    Compared are episodes of one agent in one language. A group is led by its first episode; its
    knowledge, once written, keeps that leader (the first of its sources that is still there), and
    later episodes that are like the leader join it.
    """
    query = Query(scope=scope, kinds=("episode",), target="", newest_first=True, limit=WINDOW)
    window = [_Text.of(cast("Episode", episode)) for episode in reversed(store.find(query))]
    leaders, known = _leaders(store, upkeep, scope)
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
        found = _group(part, matrix, known, min_episodes)
        groups += found
        taken = {id_ for group in found for id_ in group.ids}
        left = [place for place, text in enumerate(part) if text.is_new and text.brief.id not in taken]
        alone += len(left)
        if matrix is not None:
            lacking += sum(not matrix[place].any() for place in left)
    return Alike(groups=tuple(groups), alone=alone, lacking=lacking)


def _group(
    texts: Sequence[_Text], matrix: NDArray[np.float32] | None, known: Mapping[str, str], min_episodes: int
) -> list[Group]:
    leading = [place for place, text in enumerate(texts) if text.brief.id in known]
    rest = [place for place, text in enumerate(texts) if text.is_new and text.brief.id not in known]
    with one_blas_thread():
        likeness = Likeness([text.words for text in texts], matrix)
        found = group_around(likeness, leading, rest, min_episodes)
    groups = []
    for place, members in found.items():
        lead = texts[place].brief
        scope = Scope(user_id=texts[place].user_id, agent_id=lead.agent_id)
        new_id = stable_id("knowledge", scope.user_id, scope.agent_id or "", "alike", lead.id)
        group = Group(scope=scope, knowledge_id=known.get(lead.id, new_id), target="")
        for member in sorted(members):
            group.add(texts[member].brief)
        groups.append(group)
    return groups


def _leaders(store: Store, upkeep: Upkeep, scope: Scope) -> tuple[list[_Text], dict[str, str]]:
    """Return the leaders of the knowledge there is, and the knowledge of each, by episode id."""
    found: deque[tuple[_Text, str]] = deque(maxlen=_MOST_LEADERS)
    query = Query(scope=scope, kinds=("knowledge",), limit=_PAGE)
    after: Cursor | None = None
    while True:
        page = upkeep.scan(query, after)
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
        after = page.next
        if after is None:
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
