"""The /rerank endpoint, against a server that does everything wrong."""

import socket
import threading
import time
from functools import partial
from typing import Any

import pytest
from refusing import refused
from scripted_endpoint import Reply, changed
from scripted_rerank import ScriptedRerank, scores
from tables import literals, read_tables

from jiyi.embeddings import Endpoint
from jiyi.errors import InputError, RerankError, SettingsError
from jiyi.rerank import EndpointReranker, Reranker

KEY = "sk-very-secret-0123456789"
ODD_ITEMS = literals(read_tables(__file__)["what the first item says instead, what is said of it"])


def make(url: str, *, timeout: float = 5.0, retries: int = 1, **options: Any) -> EndpointReranker:
    endpoint = Endpoint(base_url=url, api_key=KEY, timeout=timeout, retries=retries)
    return EndpointReranker("m", endpoint=endpoint, **options)


altered = partial(changed, honest=scores, under="results")


# --- what is sent, and what comes of a good answer


def test_scores_come_back_in_the_order_of_the_texts():
    with ScriptedRerank() as server:
        reranker = make(server.url)
        assert reranker.score("q", ["a", "ccc", "bb"]) == [1.0, 3.0, 2.0]
        assert reranker.score("q", []) == []
    assert isinstance(reranker, Reranker)
    assert server.paths == ["/v1/rerank"]
    assert server.keys == [f"Bearer {KEY}"]


def test_what_is_sent():
    with ScriptedRerank() as server:
        make(server.url, max_chars=6).score("哪个端口？", ["", "\ud800x", "0123456789"])
        make(server.url).score("", ["a"])
    assert server.asked[0] == {
        "model": "m",
        "query": "哪个端口？",
        "documents": [" ", "\ufffdx", "012345"],
        "top_n": 3,
        "return_documents": False,
    }
    assert server.asked[1]["query"] == " "


@pytest.mark.parametrize("path", ["/rerank", "/compatible-api/v1/reranks", "/v2/rerank/"])
def test_an_address_that_ends_in_the_verb_is_taken_as_it_is(path):
    with ScriptedRerank() as server:
        make(server.url.removesuffix("/v1") + path + "?v=1").score("q", ["a"])
    assert server.paths == [path.rstrip("/") + "?v=1"]


def test_without_a_key_none_is_sent_and_a_success_without_content_is_none():
    with ScriptedRerank() as server:
        EndpointReranker("m", endpoint=Endpoint(base_url=server.url, api_key="")).score("q", ["a"])
    assert server.keys == [None]
    with ScriptedRerank(Reply(status=204, body=b"")) as server, pytest.raises(RerankError, match="HTTP 204"):
        make(server.url).score("q", ["a"])


@pytest.mark.parametrize(
    "body",
    [
        lambda asked: {"data": scores(asked)["results"]},
        lambda sent: [{"index": r["index"], "score": r["relevance_score"]} for r in scores(sent)["results"]],
        lambda asked: {"results": [r | {"document": {"text": "x"}} for r in scores(asked)["results"]]},
        lambda asked: {"results": [{"index": i, "relevance_score": i + 1} for i in range(2)]},
    ],
    ids=["under data", "a bare list", "with documents", "whole numbers"],
)
def test_other_forms_of_the_answer_are_understood(body):
    with ScriptedRerank(Reply(body=body)) as server:
        assert make(server.url).score("q", ["a", "bb"]) == [1.0, 2.0]


def test_text_embeddings_inference_is_asked_in_its_own_form_from_then_on():
    def answer(asked: dict[str, Any]) -> Any:
        return [{"index": i, "score": len(text) / 10} for i, text in reversed([*enumerate(asked["texts"])])]

    missing = b"Failed to deserialize the JSON body into the target type: missing field `texts` at line 1"
    refusal = Reply(status=422, body=missing, headers={"Content-Type": "text/plain"})
    with ScriptedRerank(refusal, Reply(body=answer), Reply(body=answer)) as server:
        reranker = make(server.url)
        assert reranker.score("q", ["a", "bb"]) == [0.1, 0.2]
        assert reranker.score("q", ["ccc"]) == [0.3]
    assert len(server.asked) == 3
    assert server.asked[2] == {"query": "q", "texts": ["ccc"], "truncate": True, "raw_scores": False}


# --- what is tried again


def test_the_time_limit_holds_over_all_tries_and_pieces():
    dripping, started = [Reply(drip=0.02, body=b" " * 2_000)] * 3, time.monotonic()
    with ScriptedRerank(*dripping) as server, pytest.raises(RerankError, match="did not answer within"):
        make(server.url, retries=5, time_limit=0.5).score("q", ["a"])
    assert time.monotonic() - started < 10


def test_something_that_speaks_no_http_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"220 mail.example ESMTP\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(RerankError, match="no HTTP answer"):
            make(f"http://127.0.0.1:{server.getsockname()[1]}", retries=0).score("q", ["a"])
        thread.join()


# --- what is not tried again


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_texts_are_not_sent_on_to_another_place(status):
    with ScriptedRerank() as elsewhere:
        redirect = Reply(status=status, body=b"", headers={"Location": f"{elsewhere.url}/rerank"})
        with ScriptedRerank(redirect) as server, pytest.raises(RerankError, match=f"HTTP {status}"):
            make(server.url).score("q", ["a"])
    assert elsewhere.asked == []


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (altered(lambda found: found[:1]), "2 texts were sent, 1 scores"),
        *((altered(lambda found, odd=odd: found[0].update(odd)), says) for odd, says in ODD_ITEMS),
        (altered(lambda found: found[0].pop("index") and None), "item 0 has a wrong"),
        (altered(lambda found: found[0].update(relevance_score=float("nan"))), "not finite"),
        (altered(lambda found: found[0].update(relevance_score=10**400)), "not finite"),
        ({"error": "model is loading"}, "no list under 'results'"),
        (b" " * 10_000_001, "too large, more than 10,000,000 bytes"),
    ],
)
def test_junk_is_refused_at_once(body, says):
    with ScriptedRerank(Reply(body=body)) as server, pytest.raises(RerankError, match=says):
        make(server.url).score("q", ["a", "bb"])
    assert len(server.asked) == 1


def test_misuse_is_named():
    reranker = make("http://localhost")
    refused(InputError, "list of texts", reranker.score, "q", "one string")
    refused(InputError, "int", reranker.score, "q", [502])
    refused(InputError, "NoneType", reranker.score, None, ["a"])
    for options in ({"time_limit": 0}, {"time_limit": float("nan")}, {"max_chars": 0}):
        refused(SettingsError, "time_limit", make, "http://localhost", **options)
    refused(SettingsError, "no user and password", make, "http://user:word@localhost")
