"""The proxy's paths: requests pass with their windows, answers come back and are kept."""

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
from jiyi.integrations.recalling import Owner, Recalled, Recaller, digest
from jiyi.records import Message
from jiyi.server.asking import caller_of
from jiyi.server.callers import Caller
from jiyi.server.openai_form import OPENAI, openai_failure
from jiyi.server.proxy.forms import CHAT, RESPONSES, Form, items_of, with_recalled
from jiyi.server.served import Served
from jiyi.settings import Settings
from jiyi.time_limit import OutOfTime, run_within
from jiyi.wire import problem_of, shown_text

__all__ = ["Proxy", "Relay", "Whose", "session_of"]

_LATE = 8  # slow calls of the memory that may be under way before it is not asked
_COLLECTED = 32_000_000  # bytes of an answer; a longer one is passed on and not kept
_NOTES = 500  # characters
_IDS = 100  # named in a header
_HOP = ("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade")  # RFC 9110, 7.6.1
_ASKING = (*_HOP, "host", "content-length", "accept-encoding", "cookie", "forwarded")  # are not passed on
_ANSWERING = (*_HOP, "set-cookie", "date", "server")
_OURS = ("x-jiyi-", "x-forwarded-", "proxy-")  # what such names begin with

_KEY = "jiyi_"  # every key of this server begins so

_T = TypeVar("_T")
_Keep = Callable[[bytes, bool], int]

Whose = Callable[[Request, Mapping[str, Any], Sequence[Message]], tuple[Owner, bool]]
"""Says whose conversation a request is of, and whether it may be kept; raises `JiyiError`."""

_log = logging.getLogger("jiyi.server")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Passing:
    """A request on its way."""

    content: bytes  # what the upstream is sent
    headers: Mapping[str, str] = field(default_factory=dict)  # what its answer says of the memory
    keep: _Keep | None = None  # saves the conversation with its answer


class Relay:
    """Passes requests on and answers back; what the memory does meanwhile stops neither.

    Where they go on to is in the settings ``proxy_*``, never said by a request.
    """

    def __init__(self, upstream: str, settings: Settings, *, whose: Whose) -> None:
        self._upstream = upstream.rstrip("/")
        self._key = settings.proxy_upstream_key  # in place of what the client sends
        self._seconds = settings.proxy_seconds
        self._talk = Recaller(tokens=settings.proxy_tokens)
        self._whose = whose
        # A model may think for minutes before it says a word.
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(30, read=900), limits=httpx.Limits(max_connections=None)
        )
        self._keeping: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        """Wait for what is being saved, and close all connections."""
        await asyncio.gather(*self._keeping, return_exceptions=True)
        await self._client.aclose()

    async def pass_on(self, request: Request, path: str, form: Form | None = None) -> Response:
        """Return the upstream's answer to a request; of a conversation where ``form`` says how to read it."""
        content = await request.body()
        passing = _Passing(content=content)
        if form and request.headers.get("x-jiyi-memory", "").lower() != "off":
            passing = await to_thread.run_sync(self._prepared, request, form, content)
        try:
            answer = await _while_there(request.receive, self._asked(request, path, passing.content))
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
        return _Back(answer, passing.headers, partial(self._begin_keeping, keep) if keep else None)

    def _prepared(self, request: Request, form: Form, content: bytes) -> _Passing:
        """Return a request with what the memory has for it."""
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            return _Passing(content=content, headers=_told(Recalled(notes=("the body is no JSON object",))))
        talk = form.read(items_of(body, form))
        owner, may_keep = self._whose(request, body, talk)
        recalled = self._recalled(owner, talk)
        # Where the upstream keeps the conversation, the client sends what is new.
        whole = not (body.get("previous_response_id") or body.get("conversation"))
        single = body.get("n") in (None, 1)  # which of several is taken, the next request shows

        def keep(answer: bytes, streamed: bool) -> int:
            try:
                reply = form.reply(answer, streamed) if single else []
            except ValueError:
                reply = []
            return self._talk.keep(owner, talk, reply, whole=whole)

        return _Passing(
            content=with_recalled(body, form, recalled.text) if recalled.text else content,
            headers={**_told(recalled), "X-Jiyi-Session": _plain(owner.session_id)},
            keep=keep if may_keep else None,
        )

    def _recalled(self, owner: Owner, talk: Sequence[Message]) -> Recalled:
        recall = partial(self._talk.recall, owner, talk)
        try:
            return run_within(recall, self._seconds, owner=self, most_late=_LATE)
        except OutOfTime as error:
            return Recalled(notes=(f"passed on without memory: {error}",))
        except Exception as error:
            _log.warning("the memory had nothing for a request of the proxy: %s", type(error).__name__)
            return Recalled(notes=(f"passed on without memory: {type(error).__name__}",))

    async def _asked(self, request: Request, path: str, content: bytes) -> httpx.Response:
        """Return the beginning of the upstream's answer."""
        query = f"?{request.url.query}" if request.url.query else ""
        headers = _passed(request.headers, _ASKING)
        headers["accept-encoding"] = "identity"  # streams are read on the way
        if self._key and (key := self._key.get_secret_value()):
            headers["authorization"] = f"Bearer {key}"
        url = f"{self._upstream}{path}{query}"
        asked = self._client.build_request(request.method, url, content=content, headers=headers)
        return await self._client.send(asked, stream=True)

    def _begin_keeping(self, keep: _Keep, answer: bytes, streamed: bool) -> None:
        saving = asyncio.create_task(self._kept(partial(keep, answer, streamed)))
        self._keeping.add(saving)
        saving.add_done_callback(self._keeping.discard)

    async def _kept(self, keep: Callable[[], int]) -> None:
        try:
            await to_thread.run_sync(keep)
        except Exception as error:
            _log.warning("the proxy could not keep a conversation: %s", type(error).__name__)


class _Back(Response):
    """An answer of the upstream, passed back as it comes; ``ended`` is told all of it, or b"" of a part."""

    def __init__(
        self,
        answer: httpx.Response,
        headers: Mapping[str, str],
        ended: Callable[[bytes, bool], None] | None,
    ) -> None:
        super().__init__(status_code=answer.status_code)
        told = {**_passed(answer.headers, _ANSWERING), **headers}
        self.raw_headers = [(n.lower().encode("latin-1"), v.encode("latin-1")) for n, v in told.items()]
        self._answer = answer
        self._ended = ended

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        await _while_there(receive, self._pass(send))

    async def _pass(self, send: Send) -> None:
        collected, whole = bytearray(), False
        try:
            start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            await send(start)
            async for piece in self._answer.aiter_raw():
                if self._ended and len(collected) <= _COLLECTED:
                    collected += piece
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
            whole = len(collected) <= _COLLECTED
        except httpx.HTTPError as error:  # the client is cut off as the proxy was
            _log.warning("the answer of the proxy's upstream broke off: %s", type(error).__name__)
        finally:
            await self._answer.aclose()
            if self._ended:
                streamed = self._answer.headers.get("content-type", "").startswith("text/event-stream")
                self._ended(bytes(collected) if whole else b"", streamed)


async def _while_there(receive: Receive, work: Coroutine[Any, Any, _T]) -> _T | None:
    """Return the result of some work, or None if the client leaves first: then the work is given up."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return await working if working.done() else None
    finally:
        working.cancel()
        leaving.cancel()


async def _left(receive: Receive) -> None:
    """Return when the client has left; the request was read whole before."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _passed(headers: Mapping[str, str], stay: Sequence[str]) -> dict[str, str]:
    """Return the headers that are the other side's business."""
    own = {name.strip().lower() for name in headers.get("connection", "").split(",")}
    return {
        name: value
        for name, value in headers.items()
        if not (name.lower() in (*stay, *own) or name.lower().startswith(_OURS) or _KEY in value)
    }


def _told(recalled: Recalled) -> dict[str, str]:
    out = {"X-Jiyi-Tokens": str(recalled.tokens), "X-Jiyi-Recalled": ",".join(recalled.ids[:_IDS])}
    if recalled.nothing_relevant is not None:
        out["X-Jiyi-Nothing-Relevant"] = f"{recalled.nothing_relevant:.3f}"
    if recalled.notes:
        out["X-Jiyi-Notes"] = _plain("; ".join(recalled.notes))[:_NOTES]
    return out


def _plain(text: str) -> str:
    """Return a text as a header may have it."""
    return " ".join(text.encode("ascii", "replace").decode().split())


_NOBODY = "whose memory? Send `user` in the body, a key that is for one user, or X-Jiyi-Memory: off"


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
        self._relay = Relay(url, settings, whose=self._whose)

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
            (await caller_of(request, self._served, _own(request.headers))).check("read")
            if self._relay is None:
                return openai_failure(501, "this proxy has no upstream; set proxy_upstream", "no_upstream")
            return await self._relay.pass_on(request, path, form)
        except JiyiError as error:
            caller = getattr(request.state, "caller", None)
            told = shown_text(str(error), caller.tenant if caller else "")
            return openai_failure(problem_of(error).status, told, type(error).__name__)

    def _whose(
        self, request: Request, body: Mapping[str, Any], talk: Sequence[Message]
    ) -> tuple[Owner, bool]:
        """Return whose conversation it is: the key's user's, or that of ``user``; and whether it is kept."""
        caller: Caller = request.state.caller
        try:
            user = caller.stored_user(None if caller.user else body.get("user"))
        except ScopeMissing:
            raise ScopeMissing(_NOBODY) from None
        kept = body.get("conversation")
        kept = kept.get("id") if isinstance(kept, dict) else kept
        named = request.headers.get("x-jiyi-session", "").encode("latin-1").decode("utf-8", "replace")
        session = named or (f"openai:{kept}" if kept else session_of(talk))
        owner = Owner(self._served.memory_of(caller.tenant), user, session)
        return owner, "write" in caller.access


def session_of(talk: Sequence[Message]) -> str:
    """Return a session id made of a conversation's first words, which the client sends each time."""
    first = next((message.text for message in talk if message.role == "user"), "")
    return f"openai:{digest(first.strip())}"


def _own(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers for us. What stands under Authorization is the upstream's, if no key of ours."""
    if "x-jiyi-key" in headers:
        return {"x-jiyi-key": headers["x-jiyi-key"]}
    said = headers.get("authorization", "")
    return {"authorization": said} if "jiyi_" in said else {}


async def _nothing(_: Request) -> Response:
    served = "POST /chat/completions, POST /responses, GET /models"
    return openai_failure(404, f"this proxy serves {served}", "not_found")
