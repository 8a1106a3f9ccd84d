"""Vectors, replies and scores from an endpoint that does everything wrong: what all adapters do alike."""

import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from scripted_chat import ScriptedChat
from scripted_endpoint import Reply, ScriptedEndpoint
from scripted_rerank import ScriptedRerank
from tables import literals, read_tables

from jiyi import errors
from jiyi.embeddings import Endpoint, OpenAIEmbedder
from jiyi.llm import OpenAILLM
from jiyi.rerank import EndpointReranker

TABLES = read_tables(__file__)
KEY = "sk-very-secret-0123456789"
SOON = {"Retry-After": "0.02"}


@dataclass(frozen=True)
class Kind:
    """One adapter: how it is asked, what its failures are, and what it advises."""

    server: type[ScriptedEndpoint]
    adapter: Callable[..., Any]
    ask: Callable[[Any], Any]
    unreachable: type[errors.JiyiError]
    refused: type[errors.JiyiError]
    advice: dict[int, str]
    asked_again: tuple[int, ...] = ()  # statuses after which another text is tried
    package: str = ""  # what is said without the package openai


KINDS = {
    "embeddings": Kind(
        server=ScriptedEndpoint,
        adapter=OpenAIEmbedder,
        ask=lambda it: it.embed(["a"], "passage").shape == (1, 4),
        unreachable=errors.EndpointUnreachable,
        refused=errors.EndpointRefused,
        advice={400: "check the name", 404: "check base_url", 413: "lower embedding_max_chars"},
        asked_again=(400, 413, 422),
        package='pip install "jiyi[openai]"',
    ),
    "llm": Kind(
        server=ScriptedChat,
        adapter=OpenAILLM,
        ask=lambda it: it.complete([{"role": "user", "content": "hello"}]).text == "ok",
        unreachable=errors.LLMUnreachable,
        refused=errors.LLMRefused,
        advice={400: "check the name", 404: "check base_url", 413: "fewer or shorter"},
        package='language models need an optional package: pip install "jiyi[openai]"',
    ),
    "rerank": Kind(
        server=ScriptedRerank,
        adapter=EndpointReranker,
        ask=lambda it: it.score("q", ["a"]) == [1.0],
        unreachable=errors.RerankError,
        refused=errors.RerankError,
        advice={400: "check base_url", 404: "base_url \\+ /rerank", 413: "lower max_chars"},
    ),
}


@pytest.fixture(params=KINDS.values(), ids=KINDS.keys())
def kind(request):
    return request.param


@pytest.fixture
def make(kind, adapter_at):
    """Makes adapters of a kind."""
    return partial(adapter_at, kind.adapter, key=KEY, retries=2)


def error(status: int, message: str | None = None, **fields: Any) -> Reply:
    return Reply(status=status, body={"error": {"message": message} | fields}, headers=SOON)


@pytest.mark.parametrize(
    "bad",
    [
        error(500, "oops"),
        Reply(status=503, body=b"<html>busy</html>", headers={"Content-Type": "text/html"} | SOON),
        error(429, "slow down"),
        Reply(cut=True),
    ],
    ids=["500", "503 as a page", "429", "dies in the middle of an answer"],
)
def test_a_passing_fault_is_tried_again(kind, make, bad):
    with kind.server(bad) as server:
        assert kind.ask(make(server.url))
    assert len(server.asked) == 2


def test_a_lasting_fault_is_unreachable_and_an_adapter_needs_a_name(kind, make):
    with kind.server(*[error(500, "out of memory")] * 9) as server:
        with pytest.raises(kind.unreachable, match=r"HTTP 500 \(.*out of memory.*try again") as caught:
            kind.ask(make(server.url))
        assert server.url in str(caught.value)
    assert len(server.asked) == 3
    adapter = make("http://localhost")
    with pytest.raises(errors.SettingsError, match="model"):
        type(adapter)(" ", endpoint=Endpoint(base_url="http://localhost"))


@pytest.mark.slow
def test_silence_is_asked_again_and_then_an_error(kind, make):
    said = r"did not answer within 0\.3 s, 2 time"
    with (
        kind.server(*[Reply(silent=True)] * 2) as server,
        pytest.raises(kind.unreachable, match=said) as caught,
    ):
        kind.ask(make(server.url, timeout=0.3, retries=1))
    assert len(server.asked) == 2
    assert isinstance(caught.value.__cause__, Exception)


def test_nobody_listening_is_unreachable(kind, make, dead):
    user = "" if kind.adapter is EndpointReranker else "user:hidden@"  # which takes none
    url = dead.replace("//", f"//{user}") + "?token=hidden"
    with pytest.raises(kind.unreachable, match=r"127.0.0.1.* could not be reached, 1 time") as caught:
        kind.ask(make(url, retries=0))
    assert "hidden" not in str(caught.value)
    assert "user" not in str(caught.value)
    assert isinstance(caught.value.__cause__, Exception)


@pytest.mark.parametrize(("status", "body", "words"), literals(TABLES["a refusal is passed on with advice"]))
def test_a_refusal_is_passed_on_with_advice(kind, make, status, body, words):
    advice = {401: "check api_key", 403: "check api_key and what it is allowed", 422: kind.advice[400]}
    said = rf"HTTP {status} \(.*{words}.*\): .*{(advice | kind.advice)[status]}"
    with kind.server(*[Reply(status=status, body=body, headers=SOON)] * 3) as server:
        with pytest.raises(kind.refused, match=said) as caught:
            kind.ask(make(server.url))
        assert server.url in str(caught.value)
    assert len(server.asked) == 1 + (status in kind.asked_again)


@pytest.mark.parametrize(("body", "says"), [*literals(TABLES["junk"]), (b"[" * 100_000, "not JSON")])
def test_junk_is_refused_at_once(kind, make, body, says):
    with kind.server(Reply(body=body)) as server, pytest.raises(kind.refused, match=says):
        kind.ask(make(server.url))
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "reply",
    [
        error(401, f"wrong key: {KEY}"),
        error(500, f"crashed on Bearer {KEY}"),
        Reply(body=f"<html>{KEY}</html>".encode()),
        error(400, f"{'a *** ' * 48} {KEY} is cut off"),
    ],
    ids=["401", "500", "junk", "at the place a long text is cut"],
)
def test_the_key_is_never_shown(kind, make, reply):
    with kind.server(reply) as server:
        adapter = make(server.url, retries=0)
        with pytest.raises(errors.JiyiError, match=r"\*\*\*") as caught:
            kind.ask(adapter)
    assert KEY[:10] not in "".join(traceback.format_exception(caught.value))
    assert KEY not in str(caught.value.__context__)
    assert KEY not in f"{adapter!r} {adapter.name} {Endpoint(base_url=server.url, api_key=KEY)!r}"


@pytest.mark.parametrize("kind", [one for one in KINDS.values() if one.package], ids=["embeddings", "llm"])
class TestThroughThePackageOpenai:
    def test_an_empty_account_is_not_asked_again(self, kind, make):
        empty = [error(429, "no credit", code="insufficient_quota")] * 3
        with kind.server(*empty) as server, pytest.raises(kind.refused, match=r"429 \(no credit\)"):
            kind.ask(make(server.url))
        assert len(server.asked) == 1

    def test_it_is_usable_again_after_close(self, kind, make):
        with kind.server() as server:
            adapter = make(server.url)
            assert kind.ask(adapter)
            adapter.close()
            adapter.close()
            assert kind.ask(adapter)
            assert adapter.name == "openai:m"
            assert repr(adapter).endswith(f"('openai:m' at {server.url})")

    def test_without_the_package_the_error_names_it(self, kind, monkeypatch):
        monkeypatch.setitem(sys.modules, "openai", None)
        with pytest.raises(errors.MissingExtra) as caught:
            kind.adapter("m", endpoint=Endpoint(base_url="http://localhost"))
        assert kind.package in str(caught.value)
