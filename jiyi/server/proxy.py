"""A proxy for OpenAI's API: requests go on to another endpoint, with what the memory recalls for them.

It passes answers back and saves the conversation. Both forms of request and answer, Chat Completions and
Responses, are read as messages of words and tool calls, without system prompts, pictures and thoughts: what
a memory saves, and what identifies a message that the client sends again.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, unquote

import httpx
from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from jiyi.endpoint import is_web_address
from jiyi.errors import BadMessage, ScopeMissing, SettingsError
from jiyi.importers.entries import join_text
from jiyi.integrations.recalling import Owner, Recalled, Recaller, hash_text
from jiyi.integrations.responses import group_items, join_items
from jiyi.llm import assemble_stream, read_turn, strip_thoughts
from jiyi.records import Message, new_id
from jiyi.server.gate import CLIENT_LEFT, OPENAI, openai_failure
from jiyi.server.keys import Caller
from jiyi.server.served import Served, authenticate
from jiyi.time_limit import OutOfTime, run_within

_MAX_LATE_CALLS = 8  # slow recalls that may run before further ones are skipped
_MAX_SAVERS = 16  # conversations saved at once
_MAX_COLLECTED_BYTES = 32_000_000  # of an answer; longer ones are passed on and not saved
_MAX_NOTES_LENGTH = 500  # characters
_MAX_IDS = 100  # in a header
_HOP_BY_HOP = ("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade")  # RFC 9110, 7.6.1
_NOT_FORWARDED = (*_HOP_BY_HOP, "host", "content-length", "accept-encoding", "cookie", "forwarded")
_NOT_RETURNED = (*_HOP_BY_HOP, "set-cookie", "date", "server")
_PRIVATE = ("x-jiyi-", "x-forwarded-", "proxy-")  # headers never forwarded nor returned
_FINAL_EVENTS = ("response.completed", "response.incomplete")  # of a stream of Responses

_T = TypeVar("_T")
_EndTurn = Callable[[bytes, bool], None]

_log = logging.getLogger("jiyi.server")


@dataclass(frozen=True, slots=True)
class Form:
    """One of the two forms."""

    path: str  # below the upstream's base URL
    items: str  # the field of a request that has the conversation
    to_chat: Callable[[list[Any]], Iterable[Mapping[str, Any]]]  # items as messages of Chat Completions
    reply: Callable[[bytes, bool], list[Any]]  # items of an answer, which may be a stream; ValueError: none

    def read(self, items: Iterable[Any]) -> list[Message]:
        """Return the messages of items."""
        bodies = self.to_chat([item for item in items if isinstance(item, dict)])
        return [message for body in bodies for message in _to_message(body)]

    def items_of(self, body: Mapping[str, Any]) -> list[Any]:
        """Return the items of a request's conversation; a text is an item of the user."""
        items = body.get(self.items)
        if isinstance(items, str):
            return [{"role": "user", "content": items}]
        return items if isinstance(items, list) else []

    def with_recalled(self, body: Mapping[str, Any], text: str) -> bytes:
        """Return a request with ``text`` as a message directly before the user's newest one.

        All before it stays as it was, in the same order, so that it is the same from turn to turn.
        """
        items = self.items_of(body)
        index = max(i for i, item in enumerate(items) if _is_users(item))
        recalled = {"role": "user", "content": text}  # not a system message: recalled text has no authority
        return json.dumps({**body, self.items: [*items[:index], recalled, *items[index:]]}).encode()


def session_of(items: Iterable[Any]) -> str:
    """Return a session id: made from the first user message, which clients send each time, else a new one."""
    for item in filter(_is_users, items):
        content = item.get("content")
        return f"openai:{hash_text(join_text(content).strip() or json.dumps(content))}"
    return f"openai:{new_id()}"


def _is_users(item: Any) -> bool:
    return isinstance(item, dict) and item.get("role") == "user"


def _read_chat_reply(answer: bytes, streamed: bool) -> list[Any]:
    turn = read_turn(assemble_stream(answer) if streamed else answer)
    calls = [call.to_openai() for call in turn.tool_calls]
    return [{"role": "assistant", "content": turn.text, "tool_calls": calls}]


def _read_final_reply(answer: bytes, streamed: bool) -> list[Any]:
    response = _read_final_response(answer) if streamed else json.loads(answer)
    output = response.get("output") if isinstance(response, dict) else None
    if not isinstance(output, list):
        raise ValueError("it has no output")
    return output


def _read_final_response(stream: bytes) -> Any:
    """Return the response in a stream's last event."""
    for line in reversed(stream.split(b"\n")):
        if line.startswith(b"data:") and b"response." in line:
            event = json.loads(line[len(b"data:") :])
            if isinstance(event, dict) and event.get("type") in _FINAL_EVENTS:
                return event.get("response")
    raise ValueError("it ended without an end")


def _to_message(item: Mapping[str, Any]) -> Iterator[Message]:
    """Yield the message of an item, with its text and calls; nothing if it is not to be saved."""
    role, calls, text = item.get("role"), item.get("tool_calls") or [], join_text(item.get("content"))
    try:
        text = strip_thoughts(text) if role == "assistant" else text
        if role == "tool" or (role in ("user", "assistant") and (text.strip() or calls)):
            given = {"role": role, "content": text, "tool_calls": calls}
            fields = {name: item[name] for name in ("name", "tool_call_id") if item.get(name)}
            yield Message.from_openai({name: value for name, value in given.items() if value != []} | fields)
    except BadMessage:  # the upstream may understand it
        return


CHAT = Form("/chat/completions", "messages", iter, _read_chat_reply)
RESPONSES = Form("/responses", "input", lambda items: map(join_items, group_items(items)), _read_final_reply)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """A request ready to be forwarded."""

    content: bytes  # sent to the upstream
    headers: Mapping[str, str] = field(default_factory=dict)  # added to its answer
    ended: _EndTurn | None = None  # gets the whole answer, b"" if it broke off, and saves the conversation


class Proxy:
    """OpenAI's API, with the same requests and answers, plus memory; see the settings ``proxy_*``.

    Forwards requests and passes answers back; a failing memory stops neither.
    """

    def __init__(self, served: Served) -> None:
        settings = served.settings
        url = settings.proxy_upstream
        if url is not None and not is_web_address(url):
            raise SettingsError("proxy_upstream must be a web address such as https://api.openai.com/v1")
        self._served = served
        self._upstream = url and url.rstrip("/")
        self._key = settings.proxy_upstream_key  # in place of what the client sends
        self._recall_seconds = settings.proxy_seconds
        self._recaller = Recaller(tokens=settings.proxy_tokens)
        # A model may think for minutes before it answers.
        timeout, limits = httpx.Timeout(30, read=900), httpx.Limits(max_connections=None)
        self._client = httpx.AsyncClient(timeout=timeout, limits=limits)
        self._saving: dict[Future[None], str | None] = {}  # whose conversation each saves
        self._savers = CapacityLimiter(_MAX_SAVERS)  # not the threads of requests, which wait for them

    def routes(self) -> list[Route]:
        """Return the routes."""
        talks = {form.path: partial(self._answer, path=form.path, form=form) for form in (CHAT, RESPONSES)}
        return [
            Route(f"{OPENAI}/models", self._forward_models, methods=["GET"]),
            Route(f"{OPENAI}/models/{{model:path}}", self._forward_models, methods=["GET"]),
            *(Route(OPENAI + path, talk, methods=["POST"]) for path, talk in talks.items()),
            Route(OPENAI + "/{rest:path}", _refuse_path, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
        ]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """At the end, wait until conversations are saved, and close all connections."""
        yield
        await asyncio.gather(*map(asyncio.wrap_future, self._saving), return_exceptions=True)
        await self._client.aclose()

    async def _forward_models(self, request: Request) -> Response:
        model = request.path_params.get("model", "")
        if {".", ".."}.intersection(model.split("/")):  # would be another path of the upstream
            return openai_failure(404, "no such model", "model_not_found")
        return await self._answer(request, "/models" + (f"/{quote(model)}" if model else ""))

    async def _answer(self, request: Request, path: str, form: Form | None = None) -> Response:
        """Return the upstream's answer to a request; ``form`` says how to read a conversation in it."""
        (await authenticate(request, _select_own_headers(request.headers))).check("read")
        if self._upstream is None:
            return openai_failure(501, "this proxy has no upstream; set proxy_upstream", "no_upstream")
        content = await request.body()
        ready = _Prepared(content=content)
        if form and request.headers.get("x-jiyi-memory", "").lower() != "off":
            ready = await to_thread.run_sync(self._prepare, request, form, content)
        try:
            answer = await _run_until_disconnect(request.receive, self._send(request, path, ready.content))
        except httpx.HTTPError as error:
            _log.warning("the proxy's upstream could not be asked: %s", type(error).__name__)
            message = f"the upstream of this proxy could not be asked: {type(error).__name__}"
            status = 504 if isinstance(error, httpx.TimeoutException) else 502
            return openai_failure(status, message, "upstream_error", ready.headers)
        if answer is None:
            return Response(status_code=CLIENT_LEFT)
        if answer.has_redirect_location:
            await answer.aclose()
            message = "the upstream of this proxy redirects; its address has to be set right"
            return openai_failure(502, message, "upstream_error", ready.headers)
        return _StreamedResponse(answer, ready.headers, ready.ended if answer.is_success else None)

    def _prepare(self, request: Request, form: Form, content: bytes) -> _Prepared:
        """Return the request with what the memory recalls for it."""
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            recalled = Recalled(notes=("the body is no JSON object",))
            return _Prepared(content=content, headers=_make_memory_headers(recalled))
        items = form.items_of(body)
        talk = form.read(items)
        owner, may_keep = self._find_owner(request, body, session_of(items))
        recalled = self._recall(owner, talk)
        # Where the upstream keeps the conversation, the client sends what is new.
        is_complete = not (body.get("previous_response_id") or body.get("conversation"))
        is_single = body.get("n") in (None, 1)  # with several, the next request shows which was used

        def keep(answer: bytes, streamed: bool) -> int:
            try:
                reply = form.read(form.reply(answer, streamed)) if is_single else []
            except ValueError:
                reply = []
            return self._recaller.save_new(owner, talk, reply, full=is_complete)

        return _Prepared(
            content=form.with_recalled(body, recalled.text) if recalled.text else content,
            headers={**_make_memory_headers(recalled), "X-Jiyi-Session": quote(owner.session_id, safe=":/")},
            ended=partial(self._start_saving, owner, keep) if may_keep else None,
        )

    def _find_owner(self, request: Request, body: Mapping[str, Any], session: str) -> tuple[Owner, bool]:
        """Return the owner of a conversation, by key, field or setting, and whether it is saved."""
        caller: Caller = request.state.caller
        default = None if caller.tenant else self._served.settings.user_id
        user = caller.user or body.get("user", body.get("safety_identifier", default))  # its newer name
        if user is None:
            raise ScopeMissing("whose memory? send `user` in the body, a user's key or X-Jiyi-Memory: off")
        conversation = body.get("conversation")
        conversation = conversation.get("id") if isinstance(conversation, dict) else conversation
        named = request.headers.get("x-jiyi-session", "").encode("latin-1")
        requested = unquote(named.decode("utf-8", "replace"))
        session = requested or (f"openai:{conversation}" if conversation else session)
        owner = Owner(self._served.memory_of(caller.tenant), caller.stored_user(user), session)
        return owner, "write" in caller.access

    def _recall(self, owner: Owner, talk: Sequence[Message]) -> Recalled:
        """Return what the memory has for a question, once the user's earlier conversations are saved."""

        def recall() -> Recalled:
            wait([saving for saving, user in [*self._saving.items()] if user == owner.user_id])
            return self._recaller.recall(owner, talk)

        try:
            return run_within(recall, self._recall_seconds, owner=self, most_late=_MAX_LATE_CALLS)
        except OutOfTime as error:
            return Recalled(notes=(f"passed on without memory: {error}",))
        except Exception as error:
            _log.warning("the memory had nothing for a request of the proxy: %s", type(error).__name__)
            return Recalled(notes=(f"passed on without memory: {type(error).__name__}",))

    async def _send(self, request: Request, path: str, content: bytes) -> httpx.Response:
        query = f"?{request.url.query}" if request.url.query else ""
        headers = _filter_headers(request.headers, _NOT_FORWARDED)
        headers["accept-encoding"] = "identity"  # streams are read on the way
        if self._key and (key := self._key.get_secret_value()):
            headers["authorization"] = f"Bearer {key}"
        url = f"{self._upstream}{path}{query}"
        outgoing = self._client.build_request(request.method, url, content=content, headers=headers)
        return await self._client.send(outgoing, stream=True)

    def _start_saving(self, owner: Owner, keep: Callable[..., int], answer: bytes, streamed: bool) -> None:
        saving = self._save(partial(keep, answer, streamed))
        future = asyncio.run_coroutine_threadsafe(saving, asyncio.get_running_loop())  # threads wait for it
        self._saving[future] = owner.user_id
        future.add_done_callback(self._saving.pop)

    async def _save(self, keep: Callable[[], int]) -> None:
        try:
            await to_thread.run_sync(keep, limiter=self._savers)
        except Exception as error:
            _log.warning("the proxy could not keep a conversation: %s", type(error).__name__)


class _StreamedResponse(Response):
    """An answer of the upstream, passed back as it arrives; ``ended`` gets all of it, b"" if incomplete."""

    def __init__(self, answer: httpx.Response, headers: Mapping[str, str], ended: _EndTurn | None) -> None:
        super().__init__(status_code=answer.status_code)
        merged = {**_filter_headers(answer.headers, _NOT_RETURNED), **headers}
        self.raw_headers = [(n.lower().encode("latin-1"), v.encode("latin-1")) for n, v in merged.items()]
        self._answer = answer
        self._ended = ended

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        await _run_until_disconnect(receive, self._stream(send))

    async def _stream(self, send: Send) -> None:
        collected, is_complete = bytearray(), False
        try:
            start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            await send(start)
            async for piece in self._answer.aiter_raw():
                if self._ended and len(collected) <= _MAX_COLLECTED_BYTES:
                    collected += piece
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
            is_complete = len(collected) <= _MAX_COLLECTED_BYTES
        except httpx.HTTPError as error:  # the client is cut off as the proxy was
            _log.warning("the answer of the proxy's upstream broke off: %s", type(error).__name__)
        finally:
            if self._ended:  # before the client may ask again
                streamed = self._answer.headers.get("content-type", "").startswith("text/event-stream")
                self._ended(bytes(collected) if is_complete else b"", streamed)
            await self._answer.aclose()


async def _run_until_disconnect(receive: Receive, work: Coroutine[Any, Any, _T]) -> _T | None:
    """Return the result of ``work``, or None if the client leaves first; the request must be read before."""

    async def wait_for_disconnect() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(wait_for_disconnect())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return await working if working.done() else None
    finally:
        working.cancel()
        leaving.cancel()


def _filter_headers(headers: Mapping[str, str], skipped: Sequence[str]) -> dict[str, str]:
    hop = {name.strip().lower() for name in headers.get("connection", "").split(",")}
    return {
        name: value
        for name, value in headers.items()
        if not (name.lower() in (*skipped, *hop) or name.lower().startswith(_PRIVATE) or "jiyi_" in value)
    }


def _make_memory_headers(recalled: Recalled) -> dict[str, str]:
    headers = {"X-Jiyi-Tokens": str(recalled.tokens), "X-Jiyi-Recalled": ",".join(recalled.ids[:_MAX_IDS])}
    if recalled.nothing_relevant is not None:
        headers["X-Jiyi-Nothing-Relevant"] = f"{recalled.nothing_relevant:.3f}"
    if recalled.notes:
        words = "; ".join(recalled.notes).encode("ascii", "replace").decode().split()
        headers["X-Jiyi-Notes"] = " ".join(words)[:_MAX_NOTES_LENGTH]
    return headers


def _select_own_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers for this server. Authorization is the upstream's unless it holds a key of ours."""
    if "x-jiyi-key" in headers:
        return {"x-jiyi-key": headers["x-jiyi-key"]}
    authorization = headers.get("authorization", "")
    return {"authorization": authorization} if "jiyi_" in authorization else {}


async def _refuse_path(_: Request) -> Response:
    served = "POST /chat/completions, POST /responses, GET /models"
    return openai_failure(404, f"this proxy serves {served}", "not_found")
