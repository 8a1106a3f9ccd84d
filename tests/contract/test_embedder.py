"""What every embedder promises, run on each of them; see `jiyi.embeddings.Embedder`."""

import hashlib

import numpy as np
import pytest
from at_once import at_once
from refusing import refused
from samples import AWKWARD
from scripted_endpoint import ScriptedEndpoint

from jiyi.embeddings import CachedEmbedder, E5Embedder, Embedder, Endpoint, OpenAIEmbedder
from jiyi.errors import InputError

ODD = AWKWARD | {
    "surrogates the wrong way round": "\ude00\ud83d",
    "long ligatures": "\ufdfa" * 20,
    "controls": "\x01\x1b[31mred\x7f\u202e",
    "100,000 characters": "nginx 502 重启 " * 10_000,
}


class HashEndpoint(ScriptedEndpoint):
    """An /embeddings endpoint whose vectors are hashes of the texts."""

    @staticmethod
    def honest(asked):
        assert all(asked["input"]), "endpoints refuse empty texts"
        digests = [hashlib.sha256(text.encode("utf-8")).digest() for text in asked["input"]]
        vectors = enumerate([byte - 127.5 for byte in digest] for digest in digests)
        data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in vectors]
        return {"object": "list", "model": asked["model"], "data": data}


@pytest.fixture(scope="module", params=["e5", "cached", "openai"])
def embedder(request):
    if request.param == "openai":
        with HashEndpoint() as server:
            endpoint = Endpoint(base_url=server.url, api_key="")
            remote = OpenAIEmbedder("hash", endpoint=endpoint, query_prefix="query: ", batch_size=3)
            yield remote
            remote.close()
    elif request.param == "cached":
        yield CachedEmbedder(E5Embedder(), size=50)
    else:
        yield E5Embedder()


def test_follows_the_protocol(embedder):
    assert isinstance(embedder, Embedder)
    assert embedder.name == embedder.name
    assert embedder.name.strip()
    assert embedder.dims > 0


def test_rows_are_unit_vectors_of_the_promised_shape_one_for_each_text(embedder):
    vectors = embedder.embed(["磁盘满了", "the disk is full", "ok"], "passage")
    assert (vectors.shape, vectors.dtype) == ((3, embedder.dims), np.float32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    none = embedder.embed([], "query")
    assert (none.shape, none.dtype) == ((0, embedder.dims), np.float32)


def test_a_batch_equals_single_calls_in_order(embedder):
    texts = ["one", "第二个", "three is a longer text than the others", "一", "one", "six", "7"]
    batch = embedder.embed(texts, "passage")
    single = np.concatenate([embedder.embed([text], "passage") for text in texts])
    np.testing.assert_allclose(batch, single, atol=1e-5)
    np.testing.assert_array_equal(batch[0], batch[4])
    assert not np.allclose(batch[0], batch[1])


def test_the_same_text_gives_the_same_row_but_for_the_kind(embedder):
    query, passage = embedder.embed(["502"], "query"), embedder.embed(["502"], "passage")
    np.testing.assert_array_equal(embedder.embed(["502"], "query"), query)
    assert not np.allclose(query, passage, atol=1e-3)


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
def test_any_text_is_accepted(embedder, text):
    vectors = embedder.embed([text], "passage")
    assert vectors.shape == (1, embedder.dims)
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(np.linalg.norm(vectors), 1, atol=1e-5)


def test_a_changed_answer_does_not_change_later_ones(embedder):
    before = embedder.embed(["mine"], "passage").copy()
    for _ in range(2):
        embedder.embed(["mine"], "passage")[:] = 0
    np.testing.assert_array_equal(embedder.embed(["mine"], "passage"), before)


def test_several_threads_get_what_one_gets(embedder):
    lists = [[f"note {i}", f"记录 {i}"] for i in range(6)]
    together = at_once(lambda texts: embedder.embed(texts, "query"), lists)
    for texts, vectors in zip(lists, together, strict=True):
        np.testing.assert_allclose(vectors, embedder.embed(texts, "query"), atol=1e-6)


def test_misuse_is_named(embedder):
    refused(InputError, "list of texts", embedder.embed, "one string", "query")
    refused(InputError, "int", embedder.embed, [502], "query")
    refused(InputError, "kind", embedder.embed, ["x"], "document")
