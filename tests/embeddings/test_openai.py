"""The remote embedder against a server that does everything wrong."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from refusing import refused
from scripted_endpoint import Reply, ScriptedEndpoint, changed, vector_of
from tables import each, literals, read_tables

from jiyi.embeddings import Endpoint, OpenAIEmbedder
from jiyi.errors import EndpointRefused, SettingsError

KEY = "sk-very-secret-0123456789"


@pytest.fixture
def make(adapter_at):
    """Makes embedders on a server."""
    return partial(adapter_at, OpenAIEmbedder, key=KEY, timeout=5.0, retries=2)


def unit(text: str) -> Any:
    vector = np.array(vector_of(text))
    return vector / np.linalg.norm(vector)


# --- what is sent, and what comes of a good answer


def test_vectors_come_back_normalised_and_in_order_with_an_index_or_without(make):
    with ScriptedEndpoint(Reply(body=changed(lambda data: data[::-1]))) as server:
        vectors = make(server.url).embed(["a", "bbb", "cc"], "passage")
    np.testing.assert_allclose(vectors, [unit("a"), unit("bbb"), unit("cc")], rtol=1e-6)
    assert vectors.dtype == np.float32
    with ScriptedEndpoint(Reply(body=changed(lambda data: data[0].pop("index") and None))) as server:
        vectors = make(server.url).embed(["a", "bbb"], "passage")
    np.testing.assert_allclose(vectors, [unit("a"), unit("bbb")], rtol=1e-6)


def test_what_is_sent(make):
    with ScriptedEndpoint() as server:
        embedder = make(
            server.url, query_model="mq", query_prefix="find: ", passage_prefix="", dimensions=3, max_chars=6
        )
        embedder.embed(["", "\ud800x", "0123456789"], "passage")
        embedder.embed(["", "why"], "query")
        assert embedder.dims == 3
    first, second = server.asked
    assert first == {
        "model": "m",
        "input": [" ", "\ufffdx", "012345"],
        "encoding_format": "float",
        "dimensions": 3,
    }
    assert (second["model"], second["input"]) == ("mq", ["find: ", "find: why"])
    assert server.keys == [f"Bearer {KEY}"] * 2


def test_batches_stay_small_by_count_and_by_characters(make):
    texts = [f"{'x' * i}" for i in range(1, 8)]
    with ScriptedEndpoint() as server:
        vectors = make(server.url, batch_size=3).embed(texts, "passage")
        assert [len(asked["input"]) for asked in server.asked] == [3, 3, 1]
        np.testing.assert_allclose(vectors, [unit(text) for text in texts], rtol=1e-6)
        server.asked.clear()
        make(server.url, max_chars=90_000).embed(["y" * 90_000] * 5, "passage")
        assert [len(asked["input"]) for asked in server.asked] == [2, 2, 1]


def test_size_is_asked_once(make):
    with ScriptedEndpoint() as server:
        embedder = make(server.url)
        assert embedder.embed([], "query").shape == (0, 4)
        assert (embedder.dims, embedder.dims) == (4, 4)
        assert len(server.asked) == 1
        other = make(server.url)
        other.embed(["a"], "query")
        assert other.dims == 4
        assert len(server.asked) == 2


def test_extreme_numbers_survive_normalising(make):
    def extreme(data: list[dict[str, Any]]) -> None:
        data[0]["embedding"] = [3e300, 4e300]
        data[1]["embedding"] = [3e-300, -4e-300]

    with ScriptedEndpoint(Reply(body=changed(extreme))) as server:
        vectors = make(server.url).embed(["a", "b"], "passage")
    np.testing.assert_allclose(vectors, [[0.6, 0.8], [0.6, -0.8]], rtol=1e-6)


# --- what is tried again, and what is not


@pytest.mark.slow
def test_retry_after_is_honoured(make):
    with ScriptedEndpoint(Reply(status=429, body={}, headers={"Retry-After": "1"})) as server:
        started = time.monotonic()
        make(server.url).embed(["a"], "query")
        assert time.monotonic() - started >= 0.95


def test_a_batch_that_fails_fails_the_call(make):
    with ScriptedEndpoint(Reply(), Reply(status=401, body={"error": {"message": "bad"}})) as server:
        embedder = make(server.url, batch_size=1)
        refused(EndpointRefused, "bad", embedder.embed, ["a", "b", "c"], "passage")
    assert len(server.asked) == 2


def put(key: str, value: Any) -> Callable[[list[dict[str, Any]]], None]:
    return lambda data: data[0].__setitem__(key, value)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (changed(lambda data: data[:1]), "2 texts were sent, 1 vectors"),
        (changed(lambda data: data * 2), "2 texts were sent, 4 vectors"),
        (changed(put("embedding", [1.0, float("nan"), 1.0, 1.0])), "not a finite number"),
        (changed(put("embedding", [1.0, 10**400, 1.0, 1.0])), "not a"),
        *((changed(put(*field)), says) for *field, says in literals(read_tables(__file__)["junk"])),
        (changed(lambda data: ["junk"] * 2), "wrong or repeated index"),
        ([1, 2], "no list under 'data'"),
    ],
)
def test_junk_is_refused_at_once(make, body, says):
    with ScriptedEndpoint(Reply(body=body)) as server, pytest.raises(EndpointRefused, match=says):
        make(server.url).embed(["a", "bb"], "query")
    assert len(server.asked) == 1


def test_a_size_that_changes_is_refused(make):
    longer = changed(put("embedding", [1.0] * 5))
    with ScriptedEndpoint(Reply(), Reply(body=longer), Reply(body=longer)) as server:
        embedder = make(server.url)
        embedder.embed(["a"], "passage")
        refused(EndpointRefused, "size 5, not 4", embedder.embed, ["a"], "query")
        refused(EndpointRefused, "size 5, not 3", make(server.url, dimensions=3).embed, ["a"], "query")


# --- keys and settings


def test_openai_itself_needs_a_key_and_the_environment_gives_it_and_the_address(monkeypatch):
    refused(SettingsError, "OPENAI_API_KEY", OpenAIEmbedder, "text-embedding-3-small")
    with ScriptedEndpoint() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "from-outside\n")
        for endpoint in (None, Endpoint(api_key="")):
            embedder = OpenAIEmbedder("m", endpoint=endpoint)
            embedder.embed(["a"], "query")
            embedder.close()
    assert server.keys == ["Bearer from-outside", "Bearer none"]


ADDRESSES = ("localhost:11434", "ftp://x/v1", "http://", "http://[::1", "http://h:99999")


@pytest.mark.parametrize("fields", each(base_url=ADDRESSES, timeout=[0, float("nan")], retries=[-1]))
def test_what_is_no_address_and_impossible_patience_is_refused(fields):
    with pytest.raises(SettingsError, match="base_url" if "base_url" in fields else "timeout"):
        Endpoint(**{"base_url": "http://localhost", "api_key": KEY} | fields)


@pytest.mark.parametrize("key", ["两个字", "a b", "a\nb"])
def test_a_key_that_is_none_is_refused_unseen(key):
    with pytest.raises(SettingsError, match="paste error") as caught:
        Endpoint(base_url="http://localhost", api_key=key)
    assert key not in str(caught.value)


@pytest.mark.parametrize("options", each(batch_size=[0], max_chars=[0], dimensions=[0]))
def test_impossible_sizes_are_refused(make, options):
    refused(SettingsError, "at least 1", make, "http://localhost", **options)


def test_the_name_changes_with_whatever_changes_vectors(make):
    url = "http://localhost/v1"
    names = [make(url, **options).name for options in literals(read_tables(__file__)["options"])]
    assert names[:3] == ["openai:m", "openai:m@256", "openai:m+query:mq"]
    assert len(set(names)) == len(names)
    assert make(url, query_prefix="q: ", batch_size=5, max_chars=9).name == names[3]
    assert make("http://elsewhere/v1", query_model="m").name == "openai:m"
