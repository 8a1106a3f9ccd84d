"""Recall: from a question to the records that answer it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from jiyi.embeddings import Embedder
from jiyi.errors import BadQuery, EmbeddingError
from jiyi.long_term.ranking import Key, fuse
from jiyi.records import (
    SEARCHABLE,
    Episode,
    Hit,
    Hits,
    Knowledge,
    Match,
    Message,
    Query,
    Scope,
)
from jiyi.storage import Store, VectorIndex

__all__ = ["Recall"]

_CANDIDATES = 3  # times the limit, from each index
_FEWEST = 100


class Recall:
    """Searches by words and by meaning and fuses both.

    Guarantees: the scope is part of every statement, nothing of another user can be
    found; a record is found by its words as soon as it is stored, by meaning once its
    vector is there; when the embedder fails the words answer alone and the result
    says so.
    """

    def __init__(self, store: Store, vectors: VectorIndex, embedder: Embedder) -> None:
        self._store = store
        self._vectors = vectors
        self._embedder = embedder

    def search(self, query: Query) -> Hits:
        """Return the records that answer ``query.text``, best first.

        Raises:
            BadQuery: the text is empty, or a kind cannot be searched.
        """
        if not query.text.strip():
            raise BadQuery("the query is empty; say what to look for")
        if not set(query.kinds) <= set(SEARCHABLE):
            raise BadQuery(f"only {', '.join(SEARCHABLE)} can be searched, not {', '.join(query.kinds)}")
        wide = replace(query, limit=min(max(_CANDIDATES * query.limit, _FEWEST), 10_000))
        found: dict[str, Sequence[Match]] = {"text": self._store.match(wide)}
        notes: tuple[str, ...] = ()
        try:
            vector = self._embedder.embed([query.text], "query")[0]
            self._vectors.claim(self._embedder.name)  # another process may have re-embedded the data
            found["vector"] = self._vectors.nearest(wide, vector)
        except EmbeddingError as error:
            notes = (f"vector search unavailable, text search only: {error}",)
        ranked = fuse(found)[: query.limit]
        records = self._records(query.scope, [key for key, _, _ in ranked])
        hits = [
            Hit(record=records[key], kind=key[0], score=score, why=why)
            for key, score, why in ranked
            if key in records
        ]
        return Hits(tuple(hits), notes)

    def _records(self, scope: Scope, keys: Sequence[Key]) -> dict[Key, Message | Episode | Knowledge]:
        user = Scope(user_id=scope.user_id)
        records: dict[Key, Message | Episode | Knowledge] = {}
        for kind in SEARCHABLE:
            ids = tuple(id_ for k, id_ in keys if k == kind)
            if ids:
                found = self._store.find(Query(scope=user, kinds=(kind,), ids=ids, limit=len(ids)))
                for record in cast("list[Message | Episode | Knowledge]", found):
                    records[kind, record.id] = record
        return records
