"""The collections of one memory in Chroma, one for each set of vectors."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from chromadb.api import ClientAPI
from chromadb.api.models.Collection import Collection
from numpy.typing import NDArray

from jiyi.errors import StorageError
from jiyi.records import Kind
from jiyi.storage.chroma.connection import ChromaConnection, CollectionMissing, translated
from jiyi.storage.database import batched
from jiyi.storage.vectors import Vector

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
            for batch in batched(ids, _BATCH_SIZE):
                answer = collection.get(ids=list(batch), include=["embeddings"])
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
