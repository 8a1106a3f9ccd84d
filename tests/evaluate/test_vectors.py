"""The measured embedder: same answers, each text once, costs known."""

import numpy as np
import pytest

from jiyi.embeddings import Embedder
from jiyi.errors import EmbeddingError, InputError
from jiyi.evaluate.run import MeasuredEmbedder
from jiyi.testing import HashEmbedder

TEXTS = ["nginx 又 502 了", "hello", "", "a\ud800b"]


class Counting(HashEmbedder):
    """The hash embedder, which notes what it is asked."""

    def __init__(self, dims=64):
        super().__init__(dims)
        self.asked = []

    def embed(self, texts, kind):
        self.asked += [(kind, text) for text in texts]
        return super().embed(texts, kind)


def test_same_answers_each_text_once():
    inner = Counting()
    measured = MeasuredEmbedder(inner)
    assert isinstance(measured, Embedder)
    assert (measured.name, measured.dims) == (inner.name, inner.dims)
    plain = HashEmbedder().embed(TEXTS, "passage")
    assert np.array_equal(measured.embed(TEXTS, "passage"), plain)
    assert np.array_equal(measured.embed([TEXTS[1], TEXTS[0], TEXTS[1]], "passage"), plain[[1, 0, 1]])
    assert len(inner.asked) == len(TEXTS)
    measured.embed(TEXTS[:1], "query")
    assert inner.asked[-1] == ("query", TEXTS[0])
    assert measured.embed([], "query").shape == (0, 64)
    with pytest.raises(InputError):
        measured.embed("bare", "query")


def test_a_returned_matrix_is_the_callers_own_and_a_failing_embedder_fails():
    measured = MeasuredEmbedder(HashEmbedder())
    matrix = measured.embed(TEXTS, "passage")
    kept = matrix.copy()
    matrix[:] = 0
    assert np.array_equal(measured.embed(TEXTS, "passage"), kept)

    class Failing(HashEmbedder):
        def embed(self, texts, kind):
            raise EmbeddingError("out of order")

    with pytest.raises(EmbeddingError, match="out of order"):
        MeasuredEmbedder(Failing()).embed(["x"], "query")


def test_what_a_query_took_is_known_again():
    measured = MeasuredEmbedder(HashEmbedder())
    start = measured.read()
    measured.embed(["question"], "query")
    first = measured.read() - start
    assert 0 < first[1] <= first[0]
    before = measured.read()
    measured.embed(["question"], "query")
    assert (measured.read() - before)[1] == pytest.approx(first[1])
    before = measured.read()
    measured.embed(["question"], "passage")
    assert (measured.read() - before)[1] == 0
    assert not start.any()
