"""The proxy over real sockets, asked by OpenAI's own client; upstreams do as they are told."""

import json
import socket
import threading
from contextlib import ExitStack
from typing import Any

import httpx
import openai
import pytest
from at_once import wait_until
from local_llm import local_llm  # noqa: F401
from openai import OpenAI
from refusing import raises, refused
from scripted_chat import END, ScriptedChat, call, delta, refuses, says, streams, turn
from scripted_endpoint import Reply

import jiyi
from jiyi.server import Keys
from jiyi.server.gate import OPENAI as PREFIX
from jiyi.testing import HashEmbedder

DOOR = "The blue door's code is 7341"
ASK = "What is the code of the blue door?"


class Proxied:
    """A server with a proxy, and what its clients do."""

    def __init__(self, server: Any) -> None:
        self.memory = server.memory
        self.url = server.url + PREFIX
        self.address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        self.sdks: list[OpenAI] = []

    def sdk(self, api_key: str = "sk-theirs", **headers: str) -> OpenAI:
        named = {f"X-Jiyi-{name}": value for name, value in headers.items()}
        made = OpenAI(base_url=self.url, api_key=api_key, default_headers=named, max_retries=0)
        self.sdks.append(made)
        return made

    def post(self, body: Any, **headers: str) -> httpx.Response:
        named = {f"X-Jiyi-{name}": value for name, value in headers.items()}
        return httpx.post(f"{self.url}/chat/completions", json=body, headers=named, timeout=30)

    def stored(self, count: int, user: str = "ana") -> list[str]:
        """The words kept of a user, as soon as there are so many: they are saved after the answer."""

        def found() -> list[str]:
            sessions = self.memory.sessions(user_id=user)[::-1]
            some = [m for s in sessions for m in self.memory.session_messages(s.id, user_id=user)]
            return [message.search_text for message in some]

        wait_until(lambda: len(found()) >= count)
        return found()


@pytest.fixture
def database(path):
    return path


@pytest.fixture
def proxy(serve):
    with ExitStack() as opened:

        def make(upstream: str | None, **settings: Any) -> Proxied:
            given = {"embedder": HashEmbedder(), "proxy_upstream": upstream, **settings}
            proxied = Proxied(opened.enter_context(serve(**given)))
            opened.callback(lambda: [sdk.close() for sdk in proxied.sdks])
            return proxied

        yield make


@pytest.fixture
def upstream():
    with ScriptedChat() as server:
        yield server


def ask(text: str = ASK, **more: Any) -> dict[str, Any]:
    return {"model": "m", "user": "ana", "messages": [{"role": "user", "content": text}]} | more


def test_what_one_conversation_says_another_recalls(proxy, upstream):
    proxied = proxy(upstream.url)
    sdk = proxied.sdk()
    upstream.replies = [says("Noted."), says("It is 7341.")]
    sdk.chat.completions.create(**ask(DOOR))
    assert proxied.stored(2) == [DOOR, "Noted."]
    system = {"role": "system", "content": "Be brief."}
    asked = ask(messages=[system, {"role": "user", "content": ASK}])
    got = sdk.chat.completions.with_raw_response.create(**asked)
    assert got.parse().choices[0].message.content == "It is 7341."
    sent = upstream.asked[1]["messages"]
    assert (sent[0], sent[2]) == (system, {"role": "user", "content": ASK})
    assert DOOR in sent[1]["content"]
    assert int(got.headers["x-jiyi-tokens"]) > 0
    kept = proxied.memory.search(DOOR, user_id="ana")
    assert set(got.headers["x-jiyi-recalled"].split(",")) <= {hit.id for hit in kept}
    assert float(got.headers["x-jiyi-nothing-relevant"]) < 0.5
    assert upstream.keys == ["Bearer sk-theirs"] * 2
    assert not [name for name in upstream.headers[1] if name.startswith("x-jiyi")]
    assert proxied.stored(4) == [DOOR, "Noted.", ASK, "It is 7341."]


def test_a_stream_is_passed_on_byte_for_byte_and_kept(proxy, upstream):
    pieces = [delta(content=word) for word in ("你好", ", ", "wörld")]
    told = streams(*pieces, delta(tool_calls=[call("f", '{"a":') | {"index": 0}]), END, "[DONE]")
    told.body = b": thinking\n\n" + told.body + b'data: {"choices": []}\r\n\r\n'
    upstream.replies = [told]
    proxied = proxy(upstream.url)
    got = proxied.post(ask(stream=True), Session="%E5%91%A8%E4%B8%80")
    assert got.headers["x-jiyi-session"] == "%E5%91%A8%E4%B8%80"
    assert (got.content, got.headers["content-type"]) == (told.body, "text/event-stream")
    assert proxied.stored(2) == [ASK, '你好, wörld\nf {"a":']
    assert [session.id for session in proxied.memory.sessions(user_id="ana")] == ["周一"]


def test_tool_calls_go_round_untouched(proxy, upstream):
    proxied = proxy(upstream.url)
    proxied.memory.save_message("old", role="user", content=DOOR, user_id="ana")
    upstream.replies = [turn(None, tool_calls=[call("open", '{"door": "blue"}')]), says("Open.")]
    sdk, messages = proxied.sdk(), ask()["messages"]
    first = sdk.chat.completions.create(**ask()).choices[0].message
    assert first.tool_calls[0].function.arguments == '{"door": "blue"}'
    proxied.stored(3)
    result = {"role": "tool", "tool_call_id": "c1", "content": "ok"}
    run = [*messages, first.model_dump(exclude_none=True), result]
    sdk.chat.completions.create(**ask(messages=run))
    sent = upstream.asked[1]["messages"]
    assert DOOR in sent.pop(0)["content"]
    assert sent == run
    assert proxied.stored(5)[1:] == [ASK, 'open {"door": "blue"}', "ok", "Open."]


def test_responses_are_passed_on_too(proxy, upstream):
    words = {"type": "output_text", "text": "It is 7341."}
    said = {"type": "message", "role": "assistant", "content": [words]}
    whole = {"id": "r1", "object": "response", "output": [said | {"id": "m1", "status": "completed"}]}
    upstream.replies = [Reply(body=whole), streams({"type": "response.completed", "response": whole})]
    proxied = proxy(upstream.url)
    proxied.memory.save_message("old", role="user", content=DOOR, user_id="ana")
    sdk = proxied.sdk()
    got = sdk.responses.create(model="m", input=ASK, user="ana", instructions="Be brief.")
    assert got.output_text == "It is 7341."
    assert upstream.asked[0]["instructions"] == "Be brief."
    recalled, question = upstream.asked[0]["input"]
    assert DOOR in recalled["content"]
    assert question["content"] == ASK
    proxied.stored(3)
    more = {"previous_response_id": "r1", "stream": True}
    events = sdk.responses.create(model="m", input="And now?", user="ana", **more)
    assert [event.type for event in events] == ["response.completed"]
    assert upstream.paths == ["/v1/responses"] * 2
    assert proxied.stored(5)[1:] == [ASK, "It is 7341.", "And now?", "It is 7341."]


def test_the_upstreams_errors_are_passed_on_and_nothing_is_kept(proxy, upstream):
    upstream.replies = [refuses("slow down", status=429, code="rate_limit_exceeded")]
    proxied = proxy(upstream.url)
    with pytest.raises(openai.RateLimitError, match="slow down") as caught:
        proxied.sdk().chat.completions.create(**ask())
    assert caught.value.code == "rate_limit_exceeded"
    assert caught.value.response.headers["retry-after"] == "0.02"
    upstream.replies = [Reply(status=302, headers={"Location": "http://127.0.0.1:9/"})]
    assert proxied.post(ask()).status_code == 502
    assert proxied.stored(0) == []


def test_a_dead_upstream_or_none_is_an_error_as_openai_writes_them(proxy):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(openai.InternalServerError, match="ConnectError") as caught:
        proxy(f"http://127.0.0.1:{port}/v1").sdk().chat.completions.create(**ask())
    assert (caught.value.status_code, caught.value.type) == (502, "upstream_error")
    got = proxy(None).post(ask())
    assert (got.status_code, "proxy_upstream" in got.json()["error"]["message"]) == (501, True)


def test_an_answer_that_breaks_off_breaks_off_and_the_question_is_kept(proxy, upstream):
    upstream.replies = [streams(delta(content="It"), cut=True)]
    proxied = proxy(upstream.url)
    raises(httpx.RemoteProtocolError, proxied.post, ask(stream=True))
    assert proxied.stored(1) == [ASK]


def test_without_its_memory_a_request_goes_on_as_it_is(proxy, upstream):
    proxied = proxy(upstream.url)
    proxied.memory.save_message("old", role="user", content=DOOR, user_id="ana")
    assert not [name for name in proxied.post(ask(), Memory="off").headers if name.startswith("x-jiyi")]
    proxied.memory.close()
    broken = proxied.post(ask())
    assert (broken.status_code, broken.headers["x-jiyi-tokens"]) == (200, "0")
    assert "Closed" in broken.headers["x-jiyi-notes"]
    assert upstream.asked == [ask()] * 2


def test_a_slow_memory_does_not_keep_a_request_waiting(proxy, upstream):
    proxied = proxy(upstream.url, proxy_seconds=0.2)
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        entered.set()
        leave.wait(20)

    store = proxied.memory.parts.store
    real, held = store.find, []

    def find(query: Any) -> Any:
        if not held:
            held.append(query)
            hold()
        return real(query)

    object.__setattr__(store, "find", find)
    try:
        got = proxied.post(ask())
    finally:
        leave.set()
    assert entered.is_set()
    assert got.status_code == 200
    assert "longer than 0.2 s" in got.headers["x-jiyi-notes"]
    assert upstream.asked == [ask()]


def test_what_is_still_being_saved_is_waited_for(proxy, upstream, monkeypatch):
    proxied = proxy(upstream.url)
    saving, go_on, real = threading.Event(), threading.Event(), jiyi.MemoryManager.save_messages

    def save_messages(memory: Any, *args: Any, **named: Any) -> Any:
        saving.set()
        go_on.wait(20)
        return real(memory, *args, **named)

    monkeypatch.setattr(jiyi.MemoryManager, "save_messages", save_messages)
    proxied.post(ask(DOOR))
    assert saving.wait(20)
    assert "x-jiyi-notes" not in proxied.post(ask(user="bo")).headers  # nobody else waits
    threading.Timer(0.3, go_on.set).start()
    assert int(proxied.post(ask()).headers["x-jiyi-tokens"]) > 0
    assert DOOR in json.dumps(upstream.asked[-1])


def test_a_client_that_leaves_ends_the_upstreams_work(proxy):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        proxied = proxy(f"http://127.0.0.1:{listening.getsockname()[1]}/v1")
        for begun in (b"", b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {}\n\n"):
            client = socket.create_connection(proxied.address)
            body = json.dumps(ask(stream=True)).encode()
            head = f"POST {PREFIX}/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            asked, _ = listening.accept()
            asked.settimeout(10)
            received = b""
            while body not in received:
                received += asked.recv(65_536)
            asked.sendall(begun)
            if begun:
                while b"data: {}" not in client.recv(65_536):
                    pass
            client.close()
            assert asked.recv(1) == b""  # the proxy hung up
            asked.close()


def test_keys_say_whose_memory_and_are_shown_to_nobody(proxy, upstream, path):
    with jiyi.open(path, embedder=HashEmbedder(), background=False) as memory:
        keys = Keys(memory.parts.ledger)
        secrets = {tenant: keys.create(tenant, ["read", "write"])[1] for tenant in ("acme", "globex")}
        secrets["reads"] = keys.create("acme", ["read"], user="ana")[1]
    proxied = proxy(upstream.url, user_id="cleo")  # of whom no tenant knows
    acme, globex = (proxied.sdk(Key=secrets[tenant]) for tenant in ("acme", "globex"))
    acme.chat.completions.create(**ask(DOOR))
    assert proxied.stored(2, "acme//ana") == [DOOR, "ok"]
    for sdk, knows in ((globex, False), (acme, True), (proxied.sdk(secrets["reads"]), True)):
        got = sdk.chat.completions.with_raw_response.create(**ask())
        assert (DOOR in json.dumps(upstream.asked[-1])) is knows
        assert "acme" not in str(got.headers)
    assert len(proxied.stored(4, "acme//ana")) == 4  # a key that only reads keeps nothing
    assert upstream.keys == ["Bearer sk-theirs"] * 3 + [None]
    assert "jiyi_" not in str(upstream.headers)
    for api_key in ("sk-theirs", "jiyi_wrong"):
        refused(openai.AuthenticationError, "API key", proxied.sdk(api_key).chat.completions.create, **ask())
    with pytest.raises(openai.BadRequestError, match="X-Jiyi-Memory"):
        acme.chat.completions.create(model="m", messages=ask()["messages"])


def test_the_servers_own_key_goes_to_the_upstream(proxy, upstream):
    proxied = proxy(upstream.url, proxy_upstream_key="sk-ours", user_id="cleo")
    for user, field in ("cleo", {}), ("dora", {"safety_identifier": "dora"}):
        upstream.replies = [says("ok")]
        proxied.sdk().chat.completions.create(model="m", messages=ask()["messages"], **field)
        assert proxied.stored(2, user) == [ASK, "ok"]
    upstream.replies = [Reply(body={"object": "list", "data": [{"id": "a/m", "object": "model"}]})]
    assert [model.id for model in proxied.sdk().models.list()] == ["a/m"]
    upstream.replies = [Reply(body={"id": "a/m", "object": "model"})]
    assert proxied.sdk().models.retrieve("a/m").id == "a/m"
    assert upstream.keys == ["Bearer sk-ours"] * 4
    assert upstream.paths[2:] == ["/v1/models", "/v1/models/a/m"]
    assert httpx.get(f"{proxied.url}/models/%2e%2e/admin").status_code == 404


def test_other_routes_are_said_to_be_none(proxy, upstream):
    with pytest.raises(openai.NotFoundError, match="this proxy serves"):
        proxy(upstream.url).sdk().embeddings.create(model="m", input="hello")
    assert not upstream.asked


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"messages": 3, "user": "ana"}'])
def test_what_is_no_conversation_is_the_upstreams_business(proxy, upstream, body):
    upstream.replies = [refuses("no such request")]
    got = httpx.post(f"{proxy(upstream.url).url}/chat/completions", content=body)
    assert (got.status_code, got.json()["error"]["message"]) == (400, "no such request")
    assert upstream.bodies == [body]


@pytest.mark.slow
def test_a_real_model_with_memory(proxy, local_llm):  # noqa: F811
    proxied = proxy(local_llm, proxy_tokens=300)
    proxied.memory.save_message("old", role="user", content=DOOR, user_id="ana")
    sdk = proxied.sdk()
    whole = sdk.chat.completions.with_raw_response.create(**ask(max_tokens=24, temperature=0))
    text = whole.parse().choices[0].message.content
    assert int(whole.headers["x-jiyi-tokens"]) > 0
    chunks = sdk.chat.completions.create(**ask(max_tokens=24, temperature=0, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == text
    assert proxied.stored(3) == [DOOR, ASK, text.strip()]
    assert sdk.models.list().data
