"""One POST of JSON with the standard library: bounded in time and size, following no redirect."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Answer", "TooMuch", "post_json"]

_PIECE = 65_536


class TooMuch(Exception):
    """The answer is larger than allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server answered, whatever its status."""

    status: int  # the HTTP status
    body: bytes  # all of it
    retry_after: str | None  # the header of that name


def post_json(
    url: str,
    payload: Mapping[str, Any],
    *,
    key: str | None,
    timeout: float,
    time_limit: float,
    most_bytes: int,
) -> Answer:
    """Send `payload` and return the answer.

    Certificates are checked against those of the machine, proxies are taken from the
    environment, and a redirect is an answer like any other: texts go nowhere else.

    Args:
        url: http or https, without user and password.
        payload: what to send.
        key: sent as "Authorization: Bearer ...".
        timeout: seconds to wait for a connection, and for each piece of the answer.
        time_limit: seconds after which the next piece of an answer is not waited for.
        most_bytes: largest body accepted.

    Raises:
        TimeoutError: nothing came in time.
        TooMuch: the body is larger than `most_bytes`.
        OSError: the connection was refused or broke.
        ValueError: the address cannot be used, or the answer is no HTTP.
    """
    # Only here: this brings the standard library's HTTP and TLS, some 20 ms of imports.
    import http.client
    import urllib.error
    import urllib.request

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            """Follow nothing; the redirect comes back as an error with its status."""

    headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "jiyi"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    deadline = time.monotonic() + time_limit
    try:
        request = urllib.request.Request(url, json.dumps(payload).encode(), headers)
        try:
            response = urllib.request.build_opener(Stay).open(request, timeout=timeout)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            body = _read(response, deadline, most_bytes)
            return Answer(status=response.status, body=body, retry_after=response.headers.get("Retry-After"))
    except urllib.error.URLError as error:
        raise error.reason if isinstance(error.reason, OSError) else OSError(str(error.reason)) from error
    except http.client.HTTPException as error:
        raise ValueError(f"no HTTP answer: {type(error).__name__} {error}") from error


def _read(response: Any, deadline: float, most_bytes: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := response.read1(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > most_bytes:
            raise TooMuch(f"more than {most_bytes:,} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError("the answer came too slowly")
    if response.length:
        raise ConnectionError("the connection broke in the middle of the answer")
    return b"".join(pieces)
