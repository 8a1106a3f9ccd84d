"""Text search over a user's rows in memory: which a query allows, which its words find. No I/O."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jiyi.clock import to_micros
from jiyi.records import SEARCHABLE, Query
from jiyi.storage.search.candidates import KINDS_BY_LABEL, LABELS, ROLES, Candidates, Key, Rows
from jiyi.storage.search.user_terms import UserTerms
from jiyi.text import Trait, query_terms

_Flags = NDArray[np.bool_]

_MAX_TERMS = 256  # of a longer query the first and the last 128 are searched
_HITS_WITH_NEIGHBOURS = 50  # best records by words, and first ones of ``near``, that get neighbours
KIND_NUMBERS_BY_LABEL = np.array([SEARCHABLE.index(kind) for kind in KINDS_BY_LABEL], np.int8)
_MAX_DISTANCE = 2  # places between a message and its neighbours


def find_candidates(
    index: UserTerms, query: Query, near: Sequence[Key] | Rows, docs: NDArray[np.int64] | None
) -> Candidates:
    """Return what `jiyi.storage.Store.match` describes, for a view of the user's rows.

    ``docs`` are the documents allowed by conditions that need the database; None without such.
    """
    terms = query_terms(query.text)
    if len(terms) > _MAX_TERMS:
        terms = [*terms[: _MAX_TERMS // 2], *terms[-_MAX_TERMS // 2 :]]
    scores = index.score(terms)
    scope = rows_in_scope(index, query)
    allowed = scope & matching_rows(index, query, docs)
    best = _best_of_each_group(index, scores.text, allowed, query.limit)
    nearest = near if isinstance(near, np.ndarray) else index.rows_of(near)
    nearest = nearest[nearest >= 0]
    nearest = nearest[allowed[nearest]]
    hits = np.concatenate([best[:_HITS_WITH_NEIGHBOURS], nearest[:_HITS_WITH_NEIGHBOURS]])
    chosen = np.zeros(index.size, np.bool_)
    chosen[np.concatenate([best, nearest, _neighbours(index, hits)])] = True
    rows = np.flatnonzero(chosen & scope)
    rows = rows[np.lexsort((-rows, -scores.text[rows]))]
    places = np.full(index.size + 1, -1, np.int32)  # the last is for row -1, no row
    places[rows] = np.arange(len(rows))
    labels = index.columns["label"][rows].astype(np.int8)
    return Candidates(
        rows=rows,
        ids=index.ids,
        kinds=KIND_NUMBERS_BY_LABEL[labels],
        text=scores.text[rows],
        words=scores.by_term(rows),
        eligible=allowed[rows],
        session=_compact(index.columns["session"][rows], len(index.sessions)),
        previous=places[index.neighbours(rows, "previous")],
        following=places[index.neighbours(rows, "following")],
        speakers=tuple(index.speakers),
        roles=np.where(labels < len(ROLES), labels, -1).astype(np.int8),
        total=int(np.count_nonzero(scope)),
        terms=tuple(terms),
        idf=scores.idf,
        **{name: index.columns[name][rows] for name in ("speaker", "created_at", "traits", "length")},
    )


def matching_rows(index: UserTerms, query: Query, docs: NDArray[np.int64] | None) -> _Flags:
    """Return for each row whether the query's conditions allow it; ``docs`` as in `find_candidates`."""
    allowed = np.ones(index.size, np.bool_)
    if query.roles is not None or not set(query.kinds) >= set(SEARCHABLE):
        of_role = [query.roles is None or role in query.roles for _, role in LABELS]
        of_kind = [kind in query.kinds for kind, _ in LABELS]
        allowed &= (np.array(of_role) & np.array(of_kind))[index.columns["label"]]
    if query.since is not None:
        allowed &= index.columns["created_at"] >= to_micros(query.since)
    if query.until is not None:
        allowed &= index.columns["created_at"] < to_micros(query.until)
    if docs is not None:
        allowed &= np.isin(index.columns["doc"], docs)
    return allowed


def rows_in_scope(index: UserTerms, query: Query) -> _Flags:
    """Return for each row whether it is in the query's scope and not among those it leaves out."""
    inside = np.ones(index.size, np.bool_)
    if query.without:
        unwanted = index.rows_of([(kind, id_) for id_ in query.without for kind in SEARCHABLE])
        inside[unwanted[unwanted >= 0]] = False
    agent_id, session_id = query.scope.agent_id, query.scope.session_id
    for column, numbers, name in (("agent", index.agents, agent_id), ("session", index.sessions, session_id)):
        if name is not None:
            inside &= index.columns[column] == numbers.get(name, -2)  # of no row
    return inside


def _best_of_each_group(index: UserTerms, scores: NDArray[np.float32], allowed: _Flags, limit: int) -> Rows:
    """Return the rows of the best scores above 0, ``limit`` of each group, best first; newer ones win ties.

    A group is a kind. Texts that mostly ask are a group, so that repeated questions hide no answer.
    """
    rows = np.flatnonzero(allowed & (scores > 0))
    asks = (index.columns["traits"][rows] & Trait.MOSTLY_ASKS.value) != 0
    groups = np.where(asks, len(SEARCHABLE), KIND_NUMBERS_BY_LABEL[index.columns["label"][rows]])
    return rows[best_of_groups(rows, scores[rows], groups, limit)]


def best_of_groups(
    numbers: NDArray[Any], scores: NDArray[np.float32], groups: NDArray[Any], limit: int
) -> NDArray[np.intp]:
    """Return the places of the best scores, ``limit`` of each group, best first; higher numbers win ties."""
    kept = [np.empty(0, np.intp)]
    for group in np.flatnonzero(np.bincount(groups)).tolist():
        places = np.flatnonzero(groups == group)
        if len(places) > limit:
            own = scores[places]
            places = places[own >= np.partition(own, len(own) - limit)[len(own) - limit]]
            if len(places) > limit:
                places = places[np.lexsort((-numbers[places], -scores[places]))[:limit]]
        kept.append(places)
    places = np.concatenate(kept)
    return places[np.lexsort((-numbers[places], -scores[places]))]


def _neighbours(index: UserTerms, rows: Rows) -> Rows:
    """Return the messages up to `_MAX_DISTANCE` places before and after these in their sessions."""
    found, places = [], index.columns["seq"]
    for link in ("previous", "following"):
        other = rows
        for _ in range(_MAX_DISTANCE):
            other = index.neighbours(other, link)
            near = (other >= 0) & (np.abs(places[other] - places[rows]) <= _MAX_DISTANCE)
            found.append(other[near])
    return np.concatenate(found)


def _compact(numbers: NDArray[np.int32], count: int) -> NDArray[np.int32]:
    """Renumber numbers below ``count`` without gaps from 0; -1 stays."""
    used = np.zeros(count + 1, np.bool_)
    used[numbers] = True
    used[-1] = False  # the place of -1
    compact = np.cumsum(used, dtype=np.int32) - 1
    compact[-1] = -1
    return compact[numbers]
