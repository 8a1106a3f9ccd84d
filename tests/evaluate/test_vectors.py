"""The measured embedder and its folder: same answers, each text once, costs known."""

import sqlite3

import numpy as np
import pytest

from jiyi.embeddings import Embedder
from jiyi.errors import EmbeddingError, InputError, StorageError
from jiyi.evaluate.vectors import MeasuredEmbedder, Reading, VectorFolder
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


def test_a_returned_matrix_is_the_callers_own():
    measured = MeasuredEmbedder(HashEmbedder())
    matrix = measured.embed(TEXTS, "passage")
    kept = matrix.copy()
    matrix[:] = 0
    assert np.array_equal(measured.embed(TEXTS, "passage"), kept)


def test_what_a_query_took_is_known_again():
    measured = MeasuredEmbedder(HashEmbedder())
    start = measured.read()
    measured.embed(["question"], "query")
    first = measured.read() - start
    assert 0 < first.query_seconds <= first.seconds
    before = measured.read()
    measured.embed(["question"], "query")
    again = measured.read() - before
    assert again.query_seconds == pytest.approx(first.query_seconds)
    assert again.unknown == 0
    before = measured.read()
    measured.embed(["question"], "passage")
    assert (measured.read() - before).query_seconds == 0
    assert start == Reading()


def test_a_folder_spares_the_next_run(tmp_path):
    with VectorFolder(tmp_path / "new" / "folder") as folder:
        first = MeasuredEmbedder(Counting(), folder)
        made = first.embed(TEXTS, "passage")
        first.embed(["hello"], "query")
        assert first.read().from_disk == 0
    with VectorFolder(tmp_path / "new" / "folder") as folder:
        inner = Counting()
        second = MeasuredEmbedder(inner, folder)
        assert np.array_equal(second.embed(["new", *TEXTS], "passage")[1:], made)
        assert inner.asked == [("passage", "new")]
        assert second.read().from_disk == len(TEXTS)
        second.embed(["hello"], "query")
        assert inner.asked == [("passage", "new")]
        assert second.read().unknown == 1
        other = Counting(dims=32)
        assert MeasuredEmbedder(other, folder).embed(TEXTS, "passage").shape == (4, 32)
        assert len(other.asked) == len(TEXTS)


def test_a_row_of_another_size_is_made_again(tmp_path):
    with VectorFolder(tmp_path) as folder:
        MeasuredEmbedder(HashEmbedder(), folder).embed(["x"], "passage")
    connection = sqlite3.connect(tmp_path / "vectors.sqlite")
    with connection:
        connection.execute("UPDATE vectors SET vector = x'00'")
    connection.close()
    with VectorFolder(tmp_path) as folder:
        again = MeasuredEmbedder(HashEmbedder(), folder).embed(["x"], "passage")
    assert np.array_equal(again, HashEmbedder().embed(["x"], "passage"))


def test_a_folder_that_cannot_be_one(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(StorageError, match="name another folder"):
        VectorFolder(file)
    (tmp_path / "vectors.sqlite").write_text("no database " * 100)
    with pytest.raises(StorageError, match="not a database"):
        VectorFolder(tmp_path)


def test_a_folder_with_another_table(tmp_path):
    connection = sqlite3.connect(tmp_path / "vectors.sqlite")
    connection.execute("CREATE TABLE vectors (x)")
    connection.close()
    with VectorFolder(tmp_path) as folder, pytest.raises(StorageError, match="delete"):
        MeasuredEmbedder(HashEmbedder(), folder).embed(["x"], "passage")


def test_a_failing_embedder_fails():
    class Failing(HashEmbedder):
        def embed(self, texts, kind):
            raise EmbeddingError("out of order")

    with pytest.raises(EmbeddingError, match="out of order"):
        MeasuredEmbedder(Failing()).embed(["x"], "query")
