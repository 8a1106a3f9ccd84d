"""A recall on a real file, with an embedder that can be told to fail."""

import pytest
from embedders import Moody

from jiyi.embeddings import CachedEmbedder, E5Embedder
from jiyi.long_term import Indexer, Recall
from jiyi.storage import SqliteVectors


@pytest.fixture
def embedder():
    return Moody()


@pytest.fixture(scope="module")
def model():
    return CachedEmbedder(E5Embedder())


@pytest.fixture
def vectors(database):
    return SqliteVectors(database)


@pytest.fixture
def flush(vectors, embedder):
    return Indexer(vectors, embedder).flush


@pytest.fixture
def recall(store, vectors, embedder):
    return Recall(store, vectors, embedder)


@pytest.fixture
def keep(store, flush):
    """Store records and make their vectors; the records."""

    def keep(records):
        stored = store.put(records)
        flush()
        return stored

    return keep
