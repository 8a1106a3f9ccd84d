"""The routes of the proxy, and who may use them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from jiyi.endpoint import is_web_address
from jiyi.errors import JiyiError, ScopeMissing, SettingsError
from jiyi.integrations.recalling import Owner, digest
from jiyi.records import Message
from jiyi.server.asking import caller_of
from jiyi.server.callers import Caller
from jiyi.server.openai_form import OPENAI, openai_failure
from jiyi.server.proxy.forms import CHAT, RESPONSES, Form
from jiyi.server.proxy.relay import Relay
from jiyi.server.served import Served
from jiyi.wire import problem_of, shown_text

__all__ = ["Proxy", "session_of"]

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
