"""From a question to candidates: which of a user's rows it allows, finds and shows. No I/O."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jiyi.clock import to_micros
from jiyi.records import SEARCHABLE, Query
from jiyi.storage.candidates import KINDS_BY_LABEL, ROLES, Candidates, Key, Rows, labels_of
from jiyi.storage.user_terms import UserTerms
from jiyi.text import Trait, query_terms

__all__ = ["PLACES_OF_KINDS", "allowed_rows", "candidates"]

_Flags = NDArray[np.bool_]

_TERMS = 256  # a longer question is searched by its first and its last half of these
_SHOWN_AROUND = 50  # best records by words, and first ones of `near`, whose neighbours are shown
PLACES_OF_KINDS = np.array([SEARCHABLE.index(kind) for kind in KINDS_BY_LABEL], np.int8)
_STEPS = 2  # how far a neighbour is away at most


def candidates(
    mine: UserTerms, query: Query, near: Sequence[Key] | Rows, docs: NDArray[np.int64] | None
) -> Candidates:
    """Return what `jiyi.storage.Store.match` promises, of a view of the user's rows.

    ``docs`` is what conditions that rows do not carry allow; None where there are none.
    """
    terms = query_terms(query.text)
    if len(terms) > _TERMS:
        terms = [*terms[: _TERMS // 2], *terms[-_TERMS // 2 :]]
    words = mine.score(terms)
    scope = _in_scope(mine, query)
    allowed = allowed_rows(mine, query, docs)
    best = _best_of_each_group(mine, words.text, allowed, query.limit)
    known = near if isinstance(near, np.ndarray) else mine.rows_of(near)
    known = known[known >= 0]
    known = known[allowed[known]]
    around = _around(mine, np.concatenate([best[:_SHOWN_AROUND], known[:_SHOWN_AROUND]]))
    shown = np.zeros(mine.size, np.bool_)
    shown[np.concatenate([best, known, around])] = True
    rows = np.flatnonzero(shown & scope)
    rows = rows[np.lexsort((-rows, -words.text[rows]))]
    places = np.full(mine.size + 1, -1, np.int32)  # the last is for row -1, which is none
    places[rows] = np.arange(len(rows))
    labels = mine.columns["label"][rows].astype(np.int8)
    return Candidates(
        rows=rows,
        ids=mine.ids,
        kinds=PLACES_OF_KINDS[labels],
        text=words.text[rows],
        words=words.words(rows),
        eligible=allowed[rows],
        session=_renumbered(mine.columns["session"][rows], len(mine.sessions.names)),
        previous=places[mine.beside(rows, "previous")],
        following=places[mine.beside(rows, "following")],
        speaker=mine.columns["speaker"][rows],
        speakers=tuple(mine.speakers.names),
        roles=np.where(labels < len(ROLES), labels, -1).astype(np.int8),
        created_at=mine.columns["created_at"][rows],
        traits=mine.columns["traits"][rows],
        length=mine.columns["length"][rows],
        total=int(np.count_nonzero(scope)),
        terms=tuple(terms),
        idf=words.idf,
    )


def allowed_rows(mine: UserTerms, query: Query, docs: NDArray[np.int64] | None) -> _Flags:
    """Return for each row of a view whether the query's scope and conditions allow it.

    ``docs`` as for `candidates`.
    """
    allowed = _in_scope(mine, query)
    labels = labels_of(query)
    if labels is not None:
        allowed &= np.isin(mine.columns["label"], np.array(labels, np.uint8))
    if query.since is not None:
        allowed &= mine.columns["created_at"] >= to_micros(query.since)
    if query.until is not None:
        allowed &= mine.columns["created_at"] < to_micros(query.until)
    if docs is not None:
        allowed &= np.isin(mine.columns["doc"], docs)
    return allowed


def _in_scope(mine: UserTerms, query: Query) -> _Flags:
    inside = np.ones(mine.size, np.bool_)
    if query.without:
        unwanted = mine.rows_of([(kind, id_) for id_ in query.without for kind in SEARCHABLE])
        inside[unwanted[unwanted >= 0]] = False
    for column, names, name in (
        ("agent", mine.agents, query.scope.agent_id),
        ("session", mine.sessions, query.scope.session_id),
    ):
        if name is not None:
            number = names.get(name)
            inside &= False if number is None else mine.columns[column] == number
    return inside


def _best_of_each_group(mine: UserTerms, scores: NDArray[np.float32], allowed: _Flags, limit: int) -> Rows:
    """Return the rows of the best scores above 0, ``limit`` of each group, best first; newer ones win ties.

    A group is a kind. Texts that mostly ask are one of their own: however often a question was asked,
    its answer is found.
    """
    rows = np.flatnonzero(allowed & (scores > 0))
    if len(rows) > limit:
        asks = (mine.columns["traits"][rows] & Trait.MOSTLY_ASKS.value) != 0
        groups = np.where(asks, len(SEARCHABLE), PLACES_OF_KINDS[mine.columns["label"][rows]])
        found = [_highest(rows[groups == group], scores, limit) for group in range(len(SEARCHABLE) + 1)]
        rows = np.concatenate(found)
    return rows[np.lexsort((-rows, -scores[rows]))]


def _highest(rows: Rows, scores: NDArray[np.float32], limit: int) -> Rows:
    """Return those of ascending rows that have the highest scores; newer ones win ties."""
    if len(rows) <= limit:
        return rows
    found = scores[rows]
    least = np.partition(found, len(found) - limit)[len(found) - limit]
    above, equal = rows[found > least], rows[found == least]
    return np.concatenate([above, equal[len(equal) - limit + len(above) :]])


def _around(mine: UserTerms, rows: Rows) -> Rows:
    """Return the messages near enough in their session to be shown with these."""
    found, places = [], mine.columns["seq"]
    for link in ("previous", "following"):
        step = rows
        for _ in range(_STEPS):
            step = mine.beside(step, link)
            near = (step >= 0) & (np.abs(places[step] - places[rows]) <= _STEPS)
            found.append(step[near])
    return np.concatenate(found)


def _renumbered(numbers: NDArray[np.int32], count: int) -> NDArray[np.int32]:
    """Return numbers below ``count`` renumbered from 0; -1 stays."""
    seen = np.zeros(count + 1, np.bool_)
    seen[numbers] = True
    seen[-1] = False  # where -1 went to
    renumbered = np.cumsum(seen, dtype=np.int32) - 1
    renumbered[-1] = -1
    return renumbered[numbers]
