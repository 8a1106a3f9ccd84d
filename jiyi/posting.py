"""One request to a web API, sent with the standard library."""

import json
import time
from collections.abc import Mapping
from typing import Any

from jiyi.endpoint import Endpoint, Failure, Faults

__all__ = ["post"]

_MOST_BYTES = 10_000_000  # of an answer
_PIECE = 65_536


def post(
    endpoint: Endpoint,
    url: str,
    payload: Mapping[str, Any],
    faults: Faults,
    *,
    left: float,
    number: int,
    scheme: str = "Bearer",
    most: int = _MOST_BYTES,
) -> bytes:
    """Send a request once, with the standard library, and return the body of its answer.

    Certificates are checked against those of the machine, proxies are taken from the
    environment, and a redirect is an answer like any other: the payload goes nowhere else.

    Args:
        endpoint, faults: whose key and patience, and what failures are called.
        url: below the endpoint's address.
        payload: sent as JSON.
        left: seconds that all of it may take.
        number: of the try, from 1.
        scheme: the word before the key in ``Authorization``.
        most: bytes of the largest answer that is read.

    Raises:
        Failure: there was no answer, or another one than 200.
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
            body = _read(response, deadline, most)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _unanswered(error, endpoint, faults, seconds, number) from None
    if len(body) > most:
        raise faults.unusable(endpoint, f"it is too large, more than {most:,} bytes", b"")
    if status != 200:
        raise faults.answered(endpoint, status, body.decode("utf-8", "replace"), retry_after=retry_after)
    return body


def _unanswered(error: Exception, endpoint: Endpoint, faults: Faults, seconds: float, number: int) -> Failure:
    """Return the failure of a request that had no answer."""
    reason = getattr(error, "reason", None)  # of urllib's own errors, what is below them
    if isinstance(reason, OSError):
        error = reason
    if isinstance(error, TimeoutError):
        failure = faults.silent(endpoint, seconds=seconds, tries=number)
    else:
        is_known = isinstance(error, OSError | ValueError)
        said = str(error) if is_known else f"no HTTP answer: {type(error).__name__} {error}"
        failure = faults.cut_off(endpoint, said, tries=number)
    failure.cause = endpoint.shareable(error)
    return failure


def _read(response: Any, deadline: float, most: int) -> bytes:
    """Return the body of an answer, or its beginning where it is larger than allowed.

    Raises:
        OSError: it came too slowly, or the connection broke.
    """
    body = bytearray()
    while piece := response.read1(_PIECE):
        body += piece
        if len(body) > most:
            return bytes(body)
        if time.monotonic() > deadline:
            raise TimeoutError("the answer came too slowly")
    if response.length:
        raise ConnectionError("the connection broke in the middle of the answer")
    return bytes(body)
