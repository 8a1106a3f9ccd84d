"""What every endpoint needs: the caller, the JSON body, and threads with a time limit."""

from collections.abc import Callable, Mapping
from typing import TypeVar, cast

import anyio
import anyio.to_thread
from starlette.requests import Request

from jiyi.errors import InputError, RequestTimedOut
from jiyi.server.callers import Caller
from jiyi.server.served import Served

__all__ = ["authenticate", "get_served", "read_json_body", "run_in_thread"]

_T = TypeVar("_T")


def get_served(request: Request) -> Served:
    """Return the memory and keys that the app of a request serves."""
    return cast("Served", request.app.state.served)


async def authenticate(
    request: Request, served: Served | None = None, headers: Mapping[str, str] | None = None
) -> Caller:
    """Return who sent a request, by its key, and count it against the rate limit.

    The database is asked in a thread, so that other requests go on if it does not answer.

    Raises:
        Unauthorized, RateLimited: the key is missing, unknown or over, or there were too many requests.
        RequestTimedOut: the database does not say.
    """
    served, headers = served or get_served(request), request.headers if headers is None else headers
    if served.is_known(headers):
        caller = served.caller(headers)
    else:
        caller = await run_in_thread(served, lambda: served.caller(headers))
    request.state.caller = caller  # for the log, and for errors
    return caller


async def read_json_body(request: Request) -> bytes:
    """Return the JSON body of a request, b"" for none.

    Raises:
        InputError: it is of another type.
        RequestTooLarge: it is larger than the server takes.
    """
    body = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and kind != "application/json":
        raise InputError(f"the body must be JSON, with Content-Type: application/json, not {kind or 'none'}")
    return body


async def run_in_thread(served: Served, work: Callable[[], _T]) -> _T:
    """Run blocking work in a thread, within the time limit of a request.

    Raises:
        RequestTimedOut: it takes longer; it may still complete.
    """
    seconds = served.settings.server_seconds
    with anyio.move_on_after(seconds):
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    raise RequestTimedOut(
        f"this took more than {seconds:g} seconds and may still be done; ask again with the same "
        "Idempotency-Key"
    )
