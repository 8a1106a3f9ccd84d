"""The collections of one memory in Chroma, one for each set of vectors, and searching them."""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from chromadb.api import ClientAPI
from chromadb.api.models.Collection import Collection
from numpy.typing import NDArray

from jiyi.errors import EmbedderMismatch, StorageError
from jiyi.one_thread import one_blas_thread
from jiyi.records import SEARCHABLE, Kind, Match, Query
from jiyi.storage.cached_vectors import CachedVectors
from jiyi.storage.chroma.connection import ChromaConnection, CollectionMissing, translated
from jiyi.storage.database import Database
from jiyi.storage.relational.conditions import document_conditions
from jiyi.storage.vectors import Vector

__all__ = ["Collections", "Item", "Nearest", "ReadVectors", "vector_ids"]

# The inner product of vectors of length 1 is their cosine. Chroma's "cosine" would normalize them
# again, and vectors that are read back would differ from those stored.
_CONFIGURATION: dict[str, Any] = {
    "hnsw": {"space": "ip", "ef_construction": 200, "ef_search": 200, "max_neighbors": 32}
}
_OWNER = "jiyi"  # names the memory in a collection's metadata
_BATCH_SIZE = 2_000  # ids in one request
_SYNC = 1_000  # changes after which Chroma writes its index to its files, by default

_Near = tuple[str, float]
"""A vector near a query: the token of its record, and its cosine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """The vectors of one record for Chroma."""

    token: str  # their unique name
    user_id: str
    doc: int
    kind: Kind
    vectors: Vector  # shape (parts, dims)


def vector_ids(token: str, parts: int) -> list[str]:
    """Return the ids of a record's vectors in Chroma."""
    return [f"{token}.{part}" for part in range(parts)]


class Collections:
    """The collections of one memory; all errors are from `jiyi.errors`."""

    def __init__(self, connection: ChromaConnection, name: str, owner: str) -> None:
        """``name`` comes before a set's number; ``owner`` names the memory: two never share a collection."""
        self.connection = connection
        self.place = connection.place
        self._name = name
        self._owner = owner

    def add(self, space: int, items: Sequence[Item]) -> None:
        """Store vectors, creating the collection if there is none."""
        if not items:
            return
        ids = [id_ for item in items for id_ in vector_ids(item.token, len(item.vectors))]
        vectors = np.concatenate([item.vectors for item in items])
        metadata = [
            {"user": item.user_id, "kind": item.kind, "doc": item.doc, "part": part}
            for item in items
            for part in range(len(item.vectors))
        ]
        with self.connection.use(changing=True) as client:
            collection = self._open(client, space, make=True)
            for piece in _pieces(len(ids), client):
                collection.upsert(
                    ids=ids[piece], embeddings=vectors[piece], metadatas=cast("Any", metadata[piece])
                )

    def erase(self, space: int, ids: Sequence[str]) -> None:
        """Overwrite vectors with noise and delete them: Chroma's index only marks what is deleted."""
        with self.connection.use(changing=True) as client:
            collection = self._find(client, space)
            dims = _dims(collection)
            if collection is None or not dims:
                return
            for piece in _pieces(len(ids), client):
                noise = np.random.default_rng().normal(size=(len(ids[piece]), dims))
                noise /= np.linalg.norm(noise, axis=1, keepdims=True)
                collection.update(ids=list(ids[piece]), embeddings=noise.astype(np.float32))
                collection.delete(ids=list(ids[piece]))

    def nearest(self, space: int, user_id: str, kind: Kind, vector: Vector, count: int) -> list[_Near]:
        """Return up to ``count`` vectors of a user's records of one kind near ``vector``, best first."""
        where: Any = {"$and": [{"user": user_id}, {"kind": kind}]}
        with self.connection.use(changing=False) as client:
            answer = self._open(client, space).query(
                query_embeddings=cast("Any", [vector]), n_results=count, where=where, include=["distances"]
            )
        distances = answer["distances"] or [[]]
        return [
            (id_.rpartition(".")[0], 1.0 - float(distance))
            for id_, distance in zip(answer["ids"][0], distances[0], strict=True)
        ]

    def read(self, space: int, parts: Mapping[str, int]) -> dict[str, Vector]:
        """Return the vectors of tokens with their numbers of parts, without incomplete ones."""
        ids = [id_ for token, count in parts.items() for id_ in vector_ids(token, count)]
        found: dict[str, NDArray[Any]] = {}
        with self.connection.use(changing=False) as client:
            collection = self._open(client, space)
            for start in range(0, len(ids), _BATCH_SIZE):
                answer = collection.get(ids=ids[start : start + _BATCH_SIZE], include=["embeddings"])
                vectors = cast("Any", answer["embeddings"])
                found |= dict(zip(answer["ids"], () if vectors is None else vectors, strict=True))
        return {
            token: np.asarray([found[id_] for id_ in vector_ids(token, count)], np.float32)
            for token, count in parts.items()
            if all(id_ in found for id_ in vector_ids(token, count))
        }

    def ids(self, space: int) -> Iterator[list[str]]:
        """Yield the ids of all vectors in a set in batches; nothing if there is no collection."""
        offset = 0
        while True:
            with self.connection.use(changing=False) as client:
                collection = self._find(client, space)
                if collection is None:
                    return
                piece = collection.get(limit=_BATCH_SIZE, offset=offset, include=[])["ids"]
            yield piece
            if len(piece) < _BATCH_SIZE:
                return
            offset += _BATCH_SIZE

    def spaces(self) -> list[int]:
        """Return the numbers of this memory's sets in Chroma."""
        form = re.compile(rf"{re.escape(self._name)}-(\d+)")
        with self.connection.use(changing=False) as client:
            found = [
                int(match[1])
                for collection in client.list_collections()
                if (match := form.fullmatch(collection.name))
                and (collection.metadata or {}).get(_OWNER) == self._owner
            ]
        return sorted(found)

    def drop(self, space: int) -> None:
        """Remove a whole set."""
        with self.connection.use(changing=True) as client:
            if self._find(client, space) is not None:
                client.delete_collection(self._title(space))

    def scrub(self) -> bool:
        """Make Chroma rewrite its files, so that nothing of erased vectors is left in them.

        Returns whether its database was rewritten too, which is impossible for a server on another
        machine.
        """
        for space in self.spaces():
            with self.connection.use(changing=True) as client:
                collection = self._open(client, space)
                if not _dims(collection):
                    client.delete_collection(self._title(space))  # created again with the next vector
                    continue
                # Enough changes make Chroma write its index and truncate its log to the newest ones.
                nothing = vector_ids("nothing", _SYNC)
                for _ in range(2):
                    collection.delete(ids=nothing)
        return self.connection.compact()

    def _find(self, client: ClientAPI, space: int) -> Collection | None:
        with contextlib.suppress(CollectionMissing):
            return self._open(client, space)
        return None

    def _open(self, client: ClientAPI, space: int, *, make: bool = False) -> Collection:
        """Return a collection without an embedding function."""
        title = self._title(space)
        with translated(self.place):
            if make:
                collection = client.get_or_create_collection(
                    title,
                    embedding_function=None,
                    metadata={_OWNER: self._owner},
                    configuration=cast("Any", _CONFIGURATION),
                )
            else:
                collection = client.get_collection(title, embedding_function=None)
        if (collection.metadata or {}).get(_OWNER) != self._owner:
            raise StorageError(
                f"the collection {title} at {self.connection.place} belongs to another memory or program; "
                "set chroma_collection to another name"
            )
        return collection

    def _title(self, space: int) -> str:
        return f"{self._name}-{space}"


def _dims(collection: Collection | None) -> int:
    """Return how many numbers a vector of a collection has, 0 if it is empty or missing."""
    sample = collection.get(limit=1, include=["embeddings"])["embeddings"] if collection else None
    return 0 if sample is None or not len(sample) else len(sample[0])


def _pieces(count: int, client: ClientAPI) -> Iterator[slice]:
    most = client.get_max_batch_size()
    return (slice(start, start + most) for start in range(0, count, most))


_COMPARED_EXACTLY = 300  # records up to which all are compared instead of using Chroma's index
_FIRST_COUNT = 200  # fewest vectors asked for: the index is more exact the more it is asked for
_GROWTH = 4  # factor for the next try if the rows allow too few of them
_MAX_COUNT = 5_000  # beyond that all allowed records are compared
_NO_LIMIT = 2**31 - 1
_EPSILON = 1e-6  # largest difference between scores of equal vectors

ReadVectors = Callable[[str, int, Mapping[int, tuple[str, int]]], CachedVectors]
"""Returns a user's vectors of a set from Chroma, given token and number of parts by record number."""

_Allowed = tuple[str, int, Kind, str, int]  # token, number of vectors, kind, id and number of a record
_Found = dict[int, Match]  # by number of the record, with the score of its best vector


class Nearest:
    """Answers `VectorIndex.nearest` for one set of vectors.

    A query goes to Chroma with the user and the kind. The result is joined with the rows: removed
    records and those excluded by other conditions are dropped, and more is asked for until ``limit``
    of each kind are found, including ties at the end. Few records are compared exactly.
    """

    def __init__(self, database: Database, collections: Collections, read: ReadVectors, space: int) -> None:
        self._db = database
        self._collections = collections
        self._read_cached = read
        self._space = space

    def find(self, query: Query, vector: Vector) -> list[Match]:
        """Return the matches, best first."""
        kinds = [kind for kind in SEARCHABLE if kind in query.kinds]
        allowed = self._allowed(query, _COMPARED_EXACTLY + 1)
        found: _Found = {}
        if len(allowed) <= _COMPARED_EXACTLY:
            compared = self._compare(query.scope.user_id, allowed, vector)
            for kind in kinds:
                found |= _best(compared, kind, query.limit)
        else:
            for kind in kinds:
                found |= self._of_kind(query, kind, vector)
        return list(_best(found, None, len(found)).values())

    def _of_kind(self, query: Query, kind: Kind, vector: Vector) -> _Found:
        count = max(_FIRST_COUNT, 2 * query.limit)
        while count <= max(_MAX_COUNT, 2 * query.limit):
            near = self._collections.nearest(self._space, query.scope.user_id, kind, vector, count)
            scores = dict(reversed(near))  # the best comes first: a record counts with its best vector
            best = _best(self._join(query, scores), kind, query.limit)
            least = min([match.score for match in best.values()], default=0.0)
            if len(best) == query.limit and (len(near) < count or least > near[-1][1] + _EPSILON):
                return best
            if len(near) < count:
                break
            count *= _GROWTH
        # Chroma returned all it has, or very many that are not allowed: compare all allowed rows.
        everything = self._allowed(query, _NO_LIMIT, kind=kind)
        return _best(self._compare(query.scope.user_id, everything, vector), kind, query.limit)

    def _join(self, query: Query, scores: Mapping[str, float]) -> _Found:
        with self._db.read(query.scope.user_id) as db:
            where, values = document_conditions(query, db.dialect)
            tokens = db.dialect.array(list(scores))
            rows = db.rows("chroma_of_tokens", values | {"tokens": tokens, "space": self._space}, where=where)
        return {doc: Match(kind, id_, scores[token]) for token, kind, id_, doc in rows}

    def _allowed(self, query: Query, limit: int, *, kind: Kind | None = None) -> list[_Allowed]:
        """Return token, vectors, kind, id and number of the records that a query allows."""
        with self._db.read(query.scope.user_id) as db:
            where, values = document_conditions(query, db.dialect)
            if kind is not None:
                where += f" AND d.kind = '{kind}'"
            rows = db.rows("chroma_allowed", values | {"space": self._space, "limit": limit}, where=where)
        return cast("list[_Allowed]", rows)

    def _compare(self, user_id: str, allowed: Sequence[_Allowed], vector: Vector) -> _Found:
        known = self._read_cached(user_id, self._space, {doc: (token, n) for token, n, _, _, doc in allowed})
        parts = known.parts(np.array([record[-1] for record in allowed], np.int64))
        dims = parts.vectors.shape[1] if len(parts.vectors) else len(vector)
        if dims != len(vector):
            raise EmbedderMismatch(
                f"{self._collections.place} holds vectors of {dims} numbers, these have {len(vector)}; "
                "open it with the embedder that made them"
            )
        scores = np.full(len(allowed), -np.inf, np.float32)
        if len(parts.vectors):
            with one_blas_thread():
                np.maximum.at(scores, parts.rows, parts.vectors @ vector)
        return {
            doc: Match(kind, id_, score)
            for (_, _, kind, id_, doc), score in zip(allowed, scores.tolist(), strict=True)
            if np.isfinite(score)  # others have no vectors
        }


def _best(found: _Found, kind: Kind | None, limit: int) -> _Found:
    """Return the best of a kind or of all, best first; newer ones win ties."""
    own = [(doc, match) for doc, match in found.items() if kind in (None, match.kind)]
    return dict(sorted(own, key=lambda entry: (-entry[1].score, -entry[0]))[:limit])
