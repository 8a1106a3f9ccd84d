"""Texts that an endpoint refuses: cut to what it takes, or told apart from what it refuses altogether."""

from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import pytest
from refusing import refused
from refusing_endpoint import POISON, RefusingEndpoint
from scripted_endpoint import Reply, vector_of
from tables import read_tables

from jiyi.embeddings import OpenAIEmbedder
from jiyi.errors import EndpointRefused, TextRefused

LONG = "alpha " * 1_300
OTHERS = ["one", "two three", "four five six"]


@pytest.fixture
def make(adapter_at):
    return partial(adapter_at, OpenAIEmbedder)


def rows(*texts: str) -> Any:
    matrix = np.array([vector_of(text) for text in texts])
    return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)


SAID = read_tables(__file__)["what an endpoint says, least and most words that are left of 1300"]


@pytest.mark.parametrize(("says", "least", "most"), SAID)
@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_text_is_cut_at_the_limit_that_is_named_else_halved(make, says, least, most, status):
    with RefusingEndpoint(most=512, status=status, says=says) as server:
        vectors = make(server.url).embed([*OTHERS[:2], LONG, OTHERS[2]], "passage")
    (cut,) = [t for asked in server.asked for t in asked["input"] if 200 <= len(t.split()) <= 512]
    assert LONG.startswith(cut)
    assert int(least) <= len(cut.split()) <= int(most)
    np.testing.assert_allclose(vectors, rows(*OTHERS[:2], cut, OTHERS[2]), rtol=1e-6)


def test_a_limit_that_is_too_wide_is_halved_and_the_prefix_stays(make):
    with RefusingEndpoint(most=100, says="maximum context length is 9000 tokens") as server:
        make(server.url).embed([LONG], "query")
    assert 50 < len(server.asked[-1]["input"][0].split()) <= 100
    with RefusingEndpoint(most=100) as server:
        make(server.url, passage_prefix="passage: ").embed([LONG], "passage")
    assert server.asked[-1]["input"][0].startswith("passage: alpha alpha")


@pytest.mark.parametrize("text", [POISON, f"{POISON} " * 900])
def test_a_text_that_is_refused_whatever_its_length_is_named_as_such(make, text):
    with RefusingEndpoint(status=422, says="not this one") as server:
        with pytest.raises(TextRefused, match=r"422 \(not this one") as caught:
            make(server.url).embed([*OTHERS, text], "passage")
        assert caught.value.status == 422
        assert len(server.asked) < 20


def test_an_endpoint_that_refuses_everything_or_fails_otherwise_ends_it_at_once(make):
    with RefusingEndpoint(most=0, says="no such model") as server:
        with pytest.raises(EndpointRefused, match="no such model") as caught:
            make(server.url).embed([*OTHERS, LONG], "passage")
        assert not isinstance(caught.value, TextRefused)
        assert len(server.asked) == 2
    with RefusingEndpoint(most=100) as server, closing(make(server.url)) as embedder:
        server.replies += [Reply(status=413), Reply(), Reply(status=401)]
        refused(EndpointRefused, "401", embedder.embed, OTHERS, "passage")
        assert len(server.asked) == 3
