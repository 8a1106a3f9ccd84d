"""From a question to the nearest records: Chroma finds, the rows decide."""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np

from jiyi.errors import EmbedderMismatch
from jiyi.one_thread import one_blas_thread
from jiyi.records import SEARCHABLE, Kind, Match, Query
from jiyi.storage.chroma.collections import Collections
from jiyi.storage.database import Database
from jiyi.storage.known_vectors import KnownVectors
from jiyi.storage.relational.conditions import on_documents
from jiyi.storage.vectors import Vector

__all__ = ["Nearest", "Recall"]

_EXACT = 300  # records compared one by one: fewer than Chroma's index is worth
_FIRST = 200  # vectors asked for at least: its index is the more exact the more it is to give
_MORE = 4  # so many times more where the rows allowed too few of them
_MOST = 5_000  # beyond that all that the rows allow are compared
_EVERY = 2**31 - 1
_SAME = 1e-6  # scores no further apart are those of equal vectors

Recall = Callable[[str, int, Mapping[int, tuple[str, int]]], KnownVectors]
"""Gives the vectors that Chroma has of a user and a set: by the numbers of records, with token and parts."""

_Allowed = tuple[str, int, Kind, str, int]  # token, number of vectors, kind, id and number of a record
_Entry = tuple[int, float, Kind, str]  # number of a record, its score, kind and id
_Best = dict[int, tuple[float, Kind, str]]
"""By number of the record: its best score, kind and id."""


class Nearest:
    """Answers `VectorIndex.nearest` for one set of vectors.

    A question goes to Chroma with the user and the kind. What comes back is joined with the rows:
    what is gone, or not allowed by other conditions, falls out, and more is asked for until ``limit``
    of each kind are found, equal ones at the end included. Few records are compared one by one.
    """

    def __init__(self, database: Database, collections: Collections, recall: Recall, space: int) -> None:
        self._db = database
        self._collections = collections
        self._recall = recall
        self._space = space

    def find(self, query: Query, vector: Vector) -> list[Match]:
        """Return the matches, best first."""
        kinds = [kind for kind in SEARCHABLE if kind in query.kinds]
        allowed = self._allowed(query, _EXACT + 1)
        if len(allowed) <= _EXACT:
            best = self._compare(query.scope.user_id, allowed, vector)
            found = [entry for kind in kinds for entry in _top(best, kind, query.limit)]
        else:
            found = [entry for kind in kinds for entry in self._of_kind(query, kind, vector)]
        found.sort(key=lambda entry: (-entry[1], -entry[0]))
        return [Match(kind=kind, id=id_, score=score) for _, score, kind, id_ in found]

    def _of_kind(self, query: Query, kind: Kind, vector: Vector) -> list[_Entry]:
        count = max(_FIRST, 2 * query.limit)
        while count <= max(_MOST, 2 * query.limit):
            near = self._collections.nearest(self._space, query.scope.user_id, kind, vector, count)
            scores: dict[str, float] = {}
            for token, score in near:  # best first: a record counts with its best part
                scores.setdefault(token, score)
            best = self._join(query, kind, scores)
            top = _top(best, kind, query.limit)
            if len(top) == query.limit and (len(near) < count or top[-1][1] > near[-1][1] + _SAME):
                return top
            if len(near) < count:
                break
            count *= _MORE
        # Chroma gave all it would, or very many that are not allowed: the rows say what there is.
        everything = self._allowed(query, _EVERY, kind=kind)
        return _top(self._compare(query.scope.user_id, everything, vector), kind, query.limit)

    def _join(self, query: Query, kind: Kind, scores: dict[str, float]) -> _Best:
        with self._db.read(query.scope.user_id) as db:
            where, values = on_documents(query, db.dialect)
            tokens = db.dialect.listed(list(scores))
            rows = db.rows("chroma_among", values | {"tokens": tokens, "space": self._space}, where=where)
        return {doc: (scores[token], kind, id_) for token, other, id_, doc in rows if other == kind}

    def _allowed(self, query: Query, limit: int, *, kind: Kind | None = None) -> list[_Allowed]:
        """Return token, vectors, kind, id and number of the records that a question allows."""
        with self._db.read(query.scope.user_id) as db:
            where, values = on_documents(query, db.dialect)
            if kind is not None:
                where += f" AND d.kind = '{kind}'"
            rows = db.rows("chroma_allowed", values | {"space": self._space, "limit": limit}, where=where)
        return cast("list[_Allowed]", rows)

    def _compare(self, user_id: str, allowed: Sequence[_Allowed], vector: Vector) -> _Best:
        records = {doc: (kind, id_) for _, _, kind, id_, doc in allowed}
        known = self._recall(user_id, self._space, {doc: (token, n) for token, n, _, _, doc in allowed})
        parts = known.parts(np.fromiter(records, np.int64))
        dims = parts.vectors.shape[1] if len(parts.vectors) else len(vector)
        if dims != len(vector):
            raise EmbedderMismatch(
                f"{self._collections.place} holds vectors of {dims} numbers, these have {len(vector)}; "
                "open it with the embedder that made them"
            )
        best: _Best = {}
        docs = list(records)
        with one_blas_thread():
            scores = (parts.vectors @ vector).tolist() if len(parts.vectors) else []
        for place, score in zip(parts.rows.tolist(), scores, strict=True):
            doc = docs[place]
            if doc not in best or score > best[doc][0]:
                best[doc] = (score, *records[doc])
        return best


def _top(best: _Best, kind: Kind, limit: int) -> list[_Entry]:
    """Return the best of a kind, the newer of equal ones first."""
    own = [(doc, score, kind, id_) for doc, (score, other, id_) in best.items() if other == kind]
    return sorted(own, key=lambda entry: (-entry[1], -entry[0]))[:limit]
