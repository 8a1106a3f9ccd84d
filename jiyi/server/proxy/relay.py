"""The proxy: forwards requests with recalled memory, passes answers back and saves the conversation."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from jiyi.endpoint import is_web_address
from jiyi.errors import JiyiError, ScopeMissing, SettingsError
from jiyi.integrations.recalling import Owner, Recalled, Recaller, hash_text
from jiyi.records import Message
from jiyi.server.asking import authenticate
from jiyi.server.callers import Caller
from jiyi.server.openai_form import OPENAI, openai_failure
from jiyi.server.proxy.forms import CHAT, RESPONSES, Form, items_of, with_recalled
from jiyi.server.served import Served
from jiyi.settings import Settings
from jiyi.time_limit import OutOfTime, run_within
from jiyi.wire import problem_of, shown_text

__all__ = ["Proxy", "Relay", "Whose", "session_of"]

_MAX_LATE_CALLS = 8  # slow recalls that may run before further ones are skipped
_MAX_COLLECTED_BYTES = 32_000_000  # of an answer; longer ones are passed on and not saved
_MAX_NOTES_LENGTH = 500  # characters
_MAX_IDS = 100  # in a header
_HOP = ("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade")  # RFC 9110, 7.6.1
_NOT_FORWARDED = (*_HOP, "host", "content-length", "accept-encoding", "cookie", "forwarded")
_NOT_RETURNED = (*_HOP, "set-cookie", "date", "server")
_OWN = ("x-jiyi-", "x-forwarded-", "proxy-")  # headers never forwarded nor returned

_KEY_START = "jiyi_"  # every key of this server begins so

_T = TypeVar("_T")
_Keep = Callable[[bytes, bool], int]

Whose = Callable[[Request, Mapping[str, Any], Sequence[Message]], tuple[Owner, bool]]
"""Says whose conversation a request is of, and whether it may be kept; raises `JiyiError`."""

_log = logging.getLogger("jiyi.server")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """A request ready to be forwarded."""

    content: bytes  # sent to the upstream
    headers: Mapping[str, str] = field(default_factory=dict)  # added to its answer
    keep: _Keep | None = None  # saves the conversation with its answer


class Relay:
    """Forwards requests and passes answers back; a failing memory stops neither.

    The upstream comes from the settings ``proxy_*``, never from a request.
    """

    def __init__(self, upstream: str, settings: Settings, *, whose: Whose) -> None:
        self._upstream = upstream.rstrip("/")
        self._key = settings.proxy_upstream_key  # in place of what the client sends
        self._seconds = settings.proxy_seconds
        self._talk = Recaller(tokens=settings.proxy_tokens)
        self._find_owner = whose
        # A model may think for minutes before it says a word.
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(30, read=900), limits=httpx.Limits(max_connections=None)
        )
        self._saving: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        """Wait until conversations are saved, and close all connections."""
        await asyncio.gather(*self._saving, return_exceptions=True)
        await self._client.aclose()

    async def pass_on(self, request: Request, path: str, form: Form | None = None) -> Response:
        """Return the upstream's answer to a request; ``form`` says how to read a conversation in it."""
        content = await request.body()
        passing = _Prepared(content=content)
        if form and request.headers.get("x-jiyi-memory", "").lower() != "off":
            passing = await to_thread.run_sync(self._prepare, request, form, content)
        try:
            answer = await _unless_disconnected(request.receive, self._send(request, path, passing.content))
        except httpx.HTTPError as error:
            timed_out = isinstance(error, httpx.TimeoutException)
            _log.warning("the proxy's upstream could not be asked: %s", type(error).__name__)
            told = f"the upstream of this proxy could not be asked: {type(error).__name__}"
            return openai_failure(504 if timed_out else 502, told, "upstream_error", dict(passing.headers))
        if answer is None:
            return Response(status_code=499)  # nobody is there to read it
        if answer.has_redirect_location:
            await answer.aclose()
            told = "the upstream of this proxy redirects; its address has to be set right"
            return openai_failure(502, told, "upstream_error", dict(passing.headers))
        keep = passing.keep if answer.is_success else None
        return _StreamedResponse(answer, passing.headers, partial(self._start_saving, keep) if keep else None)

    def _prepare(self, request: Request, form: Form, content: bytes) -> _Prepared:
        """Return the request with what the memory recalls for it."""
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            nothing = Recalled(notes=("the body is no JSON object",))
            return _Prepared(content=content, headers=_memory_headers(nothing))
        talk = form.read(items_of(body, form))
        owner, may_keep = self._find_owner(request, body, talk)
        recalled = self._recall(owner, talk)
        # Where the upstream keeps the conversation, the client sends what is new.
        whole = not (body.get("previous_response_id") or body.get("conversation"))
        single = body.get("n") in (None, 1)  # which of several is taken, the next request shows

        def keep(answer: bytes, streamed: bool) -> int:
            try:
                reply = form.reply(answer, streamed) if single else []
            except ValueError:
                reply = []
            return self._talk.save_new(owner, talk, reply, full=whole)

        return _Prepared(
            content=with_recalled(body, form, recalled.text) if recalled.text else content,
            headers={**_memory_headers(recalled), "X-Jiyi-Session": _header_value(owner.session_id)},
            keep=keep if may_keep else None,
        )

    def _recall(self, owner: Owner, talk: Sequence[Message]) -> Recalled:
        recall = partial(self._talk.recall, owner, talk)
        try:
            return run_within(recall, self._seconds, owner=self, most_late=_MAX_LATE_CALLS)
        except OutOfTime as error:
            return Recalled(notes=(f"passed on without memory: {error}",))
        except Exception as error:
            _log.warning("the memory had nothing for a request of the proxy: %s", type(error).__name__)
            return Recalled(notes=(f"passed on without memory: {type(error).__name__}",))

    async def _send(self, request: Request, path: str, content: bytes) -> httpx.Response:
        """Return the beginning of the upstream's answer."""
        query = f"?{request.url.query}" if request.url.query else ""
        headers = _forwarded_headers(request.headers, _NOT_FORWARDED)
        headers["accept-encoding"] = "identity"  # streams are read on the way
        if self._key and (key := self._key.get_secret_value()):
            headers["authorization"] = f"Bearer {key}"
        url = f"{self._upstream}{path}{query}"
        asked = self._client.build_request(request.method, url, content=content, headers=headers)
        return await self._client.send(asked, stream=True)

    def _start_saving(self, keep: _Keep, answer: bytes, streamed: bool) -> None:
        saving = asyncio.create_task(self._save(partial(keep, answer, streamed)))
        self._saving.add(saving)
        saving.add_done_callback(self._saving.discard)

    async def _save(self, keep: Callable[[], int]) -> None:
        try:
            await to_thread.run_sync(keep)
        except Exception as error:
            _log.warning("the proxy could not keep a conversation: %s", type(error).__name__)


class _StreamedResponse(Response):
    """An answer of the upstream, passed back as it comes; ``ended`` gets all of it, b"" if incomplete."""

    def __init__(
        self,
        answer: httpx.Response,
        headers: Mapping[str, str],
        ended: Callable[[bytes, bool], None] | None,
    ) -> None:
        super().__init__(status_code=answer.status_code)
        told = {**_forwarded_headers(answer.headers, _NOT_RETURNED), **headers}
        self.raw_headers = [(n.lower().encode("latin-1"), v.encode("latin-1")) for n, v in told.items()]
        self._answer = answer
        self._ended = ended

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        await _unless_disconnected(receive, self._stream(send))

    async def _stream(self, send: Send) -> None:
        collected, whole = bytearray(), False
        try:
            start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            await send(start)
            async for piece in self._answer.aiter_raw():
                if self._ended and len(collected) <= _MAX_COLLECTED_BYTES:
                    collected += piece
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
            whole = len(collected) <= _MAX_COLLECTED_BYTES
        except httpx.HTTPError as error:  # the client is cut off as the proxy was
            _log.warning("the answer of the proxy's upstream broke off: %s", type(error).__name__)
        finally:
            await self._answer.aclose()
            if self._ended:
                streamed = self._answer.headers.get("content-type", "").startswith("text/event-stream")
                self._ended(bytes(collected) if whole else b"", streamed)


async def _unless_disconnected(receive: Receive, work: Coroutine[Any, Any, _T]) -> _T | None:
    """Return the result of ``work``, or None if the client disconnects first, which cancels it."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_wait_for_disconnect(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return await working if working.done() else None
    finally:
        working.cancel()
        leaving.cancel()


async def _wait_for_disconnect(receive: Receive) -> None:
    """Return when the client has disconnected; the request must be read completely before."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _forwarded_headers(headers: Mapping[str, str], stay: Sequence[str]) -> dict[str, str]:
    """Return the headers to forward."""
    own = {name.strip().lower() for name in headers.get("connection", "").split(",")}
    return {
        name: value
        for name, value in headers.items()
        if not (name.lower() in (*stay, *own) or name.lower().startswith(_OWN) or _KEY_START in value)
    }


def _memory_headers(recalled: Recalled) -> dict[str, str]:
    out = {"X-Jiyi-Tokens": str(recalled.tokens), "X-Jiyi-Recalled": ",".join(recalled.ids[:_MAX_IDS])}
    if recalled.nothing_relevant is not None:
        out["X-Jiyi-Nothing-Relevant"] = f"{recalled.nothing_relevant:.3f}"
    if recalled.notes:
        out["X-Jiyi-Notes"] = _header_value("; ".join(recalled.notes))[:_MAX_NOTES_LENGTH]
    return out


def _header_value(text: str) -> str:
    """Return a text as a valid header value."""
    return " ".join(text.encode("ascii", "replace").decode().split())


_USER_MISSING = "whose memory? Send `user` in the body, a key that is for one user, or X-Jiyi-Memory: off"


class Proxy:
    """What speaks OpenAI's API: the same requests and answers, with memory; see the settings ``proxy_*``."""

    def __init__(self, served: Served) -> None:
        self._served = served
        settings = served.settings
        self._relay: Relay | None = None
        if (url := settings.proxy_upstream) is None:
            return
        if not is_web_address(url):
            raise SettingsError("proxy_upstream must be a web address such as https://api.openai.com/v1")
        self._relay = Relay(url, settings, whose=self._find_owner)

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route(f"{OPENAI}/models", self._models, methods=["GET"]),
            Route(f"{OPENAI}/models/{{model:path}}", self._models, methods=["GET"]),
            *(Route(OPENAI + form.path, self._talk(form), methods=["POST"]) for form in (CHAT, RESPONSES)),
            Route(OPENAI + "/{rest:path}", _nothing, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
        ]

    async def aclose(self) -> None:
        """Wait for what is being saved, and close all connections."""
        if self._relay is not None:
            await self._relay.aclose()

    async def _models(self, request: Request) -> Response:
        model = request.path_params.get("model", "")
        if {".", ".."}.intersection(model.split("/")):  # would be another path of the upstream
            return openai_failure(404, "no such model", "model_not_found")
        return await self._pass_on(request, "/models" + (f"/{quote(model)}" if model else ""))

    def _talk(self, form: Form) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            return await self._pass_on(request, form.path, form)

        return answer

    async def _pass_on(self, request: Request, path: str, form: Form | None = None) -> Response:
        try:
            (await authenticate(request, self._served, _own(request.headers))).check("read")
            if self._relay is None:
                return openai_failure(501, "this proxy has no upstream; set proxy_upstream", "no_upstream")
            return await self._relay.pass_on(request, path, form)
        except JiyiError as error:
            caller = getattr(request.state, "caller", None)
            told = shown_text(str(error), caller.tenant if caller else "")
            return openai_failure(problem_of(error).status, told, type(error).__name__)

    def _find_owner(
        self, request: Request, body: Mapping[str, Any], talk: Sequence[Message]
    ) -> tuple[Owner, bool]:
        """Return whose conversation it is: the key's user's, or that of ``user``; and whether it is kept."""
        caller: Caller = request.state.caller
        try:
            user = caller.stored_user(None if caller.user else body.get("user"))
        except ScopeMissing:
            raise ScopeMissing(_USER_MISSING) from None
        kept = body.get("conversation")
        kept = kept.get("id") if isinstance(kept, dict) else kept
        named = request.headers.get("x-jiyi-session", "").encode("latin-1").decode("utf-8", "replace")
        session = named or (f"openai:{kept}" if kept else session_of(talk))
        owner = Owner(self._served.memory_of(caller.tenant), user, session)
        return owner, "write" in caller.access


def session_of(talk: Sequence[Message]) -> str:
    """Return a session id derived from the first user message, which the client sends each time."""
    first = next((message.text for message in talk if message.role == "user"), "")
    return f"openai:{hash_text(first.strip())}"


def _own(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers for us. What stands under Authorization is the upstream's, if no key of ours."""
    if "x-jiyi-key" in headers:
        return {"x-jiyi-key": headers["x-jiyi-key"]}
    said = headers.get("authorization", "")
    return {"authorization": said} if "jiyi_" in said else {}


async def _nothing(_: Request) -> Response:
    served = "POST /chat/completions, POST /responses, GET /models"
    return openai_failure(404, f"this proxy serves {served}", "not_found")
