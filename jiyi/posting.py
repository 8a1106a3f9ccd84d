"""One request to a web API: with the standard library, or through the package `openai`."""

import importlib.util
import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from jiyi.endpoint import Endpoint, Failure, Faults
from jiyi.errors import MissingExtra
from jiyi.forks import free_after_fork

if TYPE_CHECKING:
    from openai import OpenAI

_MAX_ANSWER_BYTES = 10_000_000  # of an answer
_CHUNK_SIZE = 65_536


def post(
    endpoint: Endpoint,
    url: str,
    payload: Mapping[str, Any],
    faults: Faults,
    *,
    left: float,
    attempt: int,
    scheme: str = "Bearer",
    max_bytes: int = _MAX_ANSWER_BYTES,
) -> bytes:
    """Send a request once, with the standard library, and return the body of its answer.

    Certificates are checked against those of the machine, proxies are taken from the environment, and a
    redirect is an answer like any other: the payload goes nowhere else. `left` and `attempt` are the seconds
    for all of it and the number of the try, from 1; `scheme` is the word before the key in ``Authorization``;
    no answer over `max_bytes` is read.

    Raises `Failure`: there was no answer, or another one than 200.
    """
    # Only here: this brings the standard library's HTTP and TLS, some 20 ms of imports.
    import http.client
    import urllib.error
    import urllib.request

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            """Follow nothing; the redirect comes back as an error with its status."""

    headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "jiyi"}
    if endpoint.has_key:
        headers["Authorization"] = f"{scheme} {endpoint.key}"
    seconds, deadline = min(endpoint.timeout, left), time.monotonic() + left
    try:
        request = urllib.request.Request(url, json.dumps(payload).encode(), headers)
        try:
            response = urllib.request.build_opener(Stay).open(request, timeout=seconds)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            status, retry_after = response.status, response.headers.get("Retry-After")
            body = _read_body(response, deadline, max_bytes)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _no_answer(error, endpoint, faults, seconds, attempt) from None
    if len(body) > max_bytes:
        raise faults.unusable(endpoint, f"it is too large, more than {max_bytes:,} bytes", b"")
    if status != 200:
        raise faults.status_failure(endpoint, status, body.decode(errors="replace"), retry_after=retry_after)
    return body


def _no_answer(error: Exception, endpoint: Endpoint, faults: Faults, seconds: float, attempt: int) -> Failure:
    reason = getattr(error, "reason", None)  # the cause below urllib's own errors
    if isinstance(reason, OSError):
        error = reason
    is_late, is_known = isinstance(error, TimeoutError), isinstance(error, OSError | ValueError)
    words = str(error) if is_known else f"no HTTP answer: {type(error).__name__} {error}"
    failure = faults.no_answer(endpoint, None if is_late else words, seconds=seconds, tries=attempt)
    failure.cause = endpoint.shareable(error)
    return failure


def _read_body(response: Any, deadline: float, max_bytes: int) -> bytes:
    """Return the body of an answer, or its beginning if it is too large; OSError: it broke off."""
    body = bytearray()
    while piece := response.read1(_CHUNK_SIZE):
        body += piece
        if len(body) > max_bytes:
            return bytes(body)
        if time.monotonic() > deadline:
            raise TimeoutError("the answer came too slowly")
    if response.length:
        raise ConnectionError("the connection broke in the middle of the answer")
    return bytes(body)


class OpenAIClient:
    """Asks one endpoint once through the package `openai` (`pip install "jiyi[openai]"`).

    Making one connects to nothing and imports nothing. The key appears in no error. Without the package it
    raises `MissingExtra`; ``purpose`` says what it is needed for.
    """

    def __init__(self, endpoint: Endpoint, faults: Faults, *, purpose: str) -> None:
        if importlib.util.find_spec("openai") is None:
            raise MissingExtra(f'{purpose} need an optional package: pip install "jiyi[openai]"')
        self._endpoint = endpoint
        self._faults = faults
        self._client: OpenAI | None = None
        self._lock = free_after_fork(threading.Lock())

    def ask(self, send: Callable[["OpenAI", float], bytes], *, left: float, attempt: int) -> bytes:
        """Return what `send` returns, given the seconds to wait, or raise its error as `Failure`."""
        client = self._open_client()
        import openai

        seconds = min(self._endpoint.timeout, left)
        try:
            return send(client, seconds)
        except (openai.OpenAIError, ValueError) as error:
            failure = self._translate_error(error, seconds, attempt)
            failure.cause = self._endpoint.shareable(error)
        # Out here, so that an error that quotes the key is not kept as context either.
        raise failure

    def close(self) -> None:
        """Close the connections; a later `ask` opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _open_client(self) -> "OpenAI":
        with self._lock:
            if self._client is None:
                try:
                    from openai import OpenAI
                except ImportError as error:
                    reason = f"the package openai cannot be imported ({error})"
                    advice = 'reinstall it with `pip install --force-reinstall "jiyi[openai]"`'
                    raise Failure(self._faults.refused(f"{reason}: {advice}")) from error
                url, key, timeout = self._endpoint.url, self._endpoint.key, self._endpoint.timeout
                # Without retries, because `retry` tries again.
                self._client = OpenAI(api_key=key, base_url=url, timeout=timeout, max_retries=0)
            return self._client

    def _translate_error(self, error: Exception, seconds: float, tries: int) -> Failure:
        import openai

        if isinstance(error, openai.APIStatusError):
            body = error.body
            message = (body.get("message") or body.get("detail") or body) if isinstance(body, dict) else body
            return self._faults.status_failure(
                self._endpoint,
                error.status_code,
                str(message or error.response.reason_phrase),
                blamed=error.param if isinstance(error.param, str) else "",
                retry_after=error.response.headers.get("retry-after"),
                # An exhausted account also answers 429, but waiting does not fill it.
                permanent=error.code == "insufficient_quota",
            )
        if isinstance(error, openai.APIConnectionError):
            is_late = isinstance(error, openai.APITimeoutError)
            reason = None if is_late else str(error.__cause__ or error)
            return self._faults.no_answer(self._endpoint, reason, seconds=seconds, tries=tries)
        failed = f"asking {self._endpoint.shown} failed ({self._endpoint.short(str(error))})"
        return Failure(self._faults.refused(f"{failed}: check the settings"))
