"""The cache: what is sent on, what is remembered, who may change what."""

import threading

import numpy as np
import pytest
from refusing import refused

from jiyi.embeddings import CachedEmbedder, E5Embedder, TextKind, Vectors32
from jiyi.errors import EmbeddingError, InputError, SettingsError


class Counting(E5Embedder):
    """The bundled embedder, noting what reaches it."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[str, list[str]]] = []
        self.broken = False

    def embed(self, texts: list[str], kind: TextKind) -> Vectors32:
        if self.broken:
            raise EmbeddingError("down")
        self.sent.append((kind, list(texts)))
        return super().embed(texts, kind)


@pytest.fixture
def inner():
    return Counting()


@pytest.fixture
def cached(inner):
    return CachedEmbedder(inner)


def test_only_misses_are_sent_on_once_under_the_name_and_size_of_the_inner_one(inner, cached):
    cached.embed(["a", "b"], "passage")
    got = cached.embed(["c", "a", "c", "b", "d", "c"], "passage")
    assert inner.sent == [("passage", ["a", "b"]), ("passage", ["c", "d"])]
    np.testing.assert_array_equal(got, E5Embedder().embed(["c", "a", "c", "b", "d", "c"], "passage"))
    assert (cached.name, cached.dims, cached.inner) == (inner.name, inner.dims, inner)
    got[:] = 0  # a matrix is the caller's own
    assert cached.embed(["a"], "passage").any()
    assert cached.embed([], "query").shape == (0, inner.dims)
    refused(InputError, "list of texts", cached.embed, "bare", "query")


def test_the_longest_unused_is_forgotten_first_and_a_larger_call_answered_whole(inner):
    cached = CachedEmbedder(inner, size=2)
    for text in ("a", "b", "a", "c"):
        cached.embed([text], "query")
    inner.sent.clear()
    cached.embed(["a"], "query")
    cached.embed(["c"], "query")
    assert inner.sent == []
    cached.embed(["b"], "query")
    assert inner.sent == [("query", ["b"])]
    texts = list("abcde")
    np.testing.assert_array_equal(cached.embed(texts, "query"), E5Embedder().embed(texts, "query"))


def test_a_failure_inside_leaves_the_cache_as_it_was(inner, cached):
    before = cached.embed(["a"], "query")
    inner.broken = True
    refused(EmbeddingError, "down", cached.embed, ["a", "new"], "query")
    np.testing.assert_array_equal(cached.embed(["a"], "query"), before)
    inner.broken = False
    assert cached.embed(["new"], "query").shape == (1, 384)


def test_clear_forgets_and_no_room_is_refused(inner, cached):
    cached.embed(["a"], "query")
    cached.clear()
    cached.embed(["a"], "query")
    assert len(inner.sent) == 2
    refused(SettingsError, "size", CachedEmbedder, E5Embedder(), size=0)


def test_a_hit_does_not_wait_for_a_miss(inner, cached):
    cached.embed(["hit"], "query")
    entered, release = threading.Event(), threading.Event()

    def slow(texts: list[str], kind: TextKind) -> Vectors32:
        entered.set()
        assert release.wait(10)
        return E5Embedder().embed(texts, kind)

    inner.embed = slow
    thread = threading.Thread(target=cached.embed, args=(["miss"], "query"))
    thread.start()
    assert entered.wait(10)
    assert cached.embed(["hit"], "query").shape == (1, 384)
    release.set()
    thread.join()
