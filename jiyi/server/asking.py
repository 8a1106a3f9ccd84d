"""What every endpoint asks of a request: who sent it, what it says, and an answer in time."""

from collections.abc import Callable, Mapping
from typing import TypeVar, cast

import anyio
import anyio.to_thread
from starlette.requests import Request

from jiyi.errors import InputError, RequestTimedOut
from jiyi.server.callers import Caller
from jiyi.server.served import Served

__all__ = ["body_of", "caller_of", "in_thread", "served_by"]

_T = TypeVar("_T")


def served_by(request: Request) -> Served:
    """Return what the app of a request serves."""
    return cast("Served", request.app.state.served)


async def caller_of(
    request: Request, served: Served | None = None, headers: Mapping[str, str] | None = None
) -> Caller:
    """Return who sent a request, as its key says, and count it.

    What must be asked of the database is asked in a thread: while that is away, others are answered.

    Raises:
        Unauthorized, RateLimited: the key is missing, unknown or over, or there were too many requests.
        RequestTimedOut: the database does not say.
    """
    served, headers = served or served_by(request), request.headers if headers is None else headers
    if served.is_known(headers):
        caller = served.caller(headers)
    else:
        caller = await in_thread(served, lambda: served.caller(headers))
    request.state.caller = caller  # for the log, and for errors
    return caller


async def body_of(request: Request) -> bytes:
    """Return the JSON that a request brings, b"" for none.

    Raises:
        InputError: it is of another type.
        RequestTooLarge: it is larger than the server takes.
    """
    body = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and kind != "application/json":
        raise InputError(f"the body must be JSON, with Content-Type: application/json, not {kind or 'none'}")
    return body


async def in_thread(served: Served, work: Callable[[], _T]) -> _T:
    """Do something that waits in a thread, within the time a request may take.

    Raises:
        RequestTimedOut: it takes longer; it may still be done.
    """
    seconds = served.settings.server_seconds
    with anyio.move_on_after(seconds):
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    raise RequestTimedOut(
        f"this took more than {seconds:g} seconds and may still be done; ask again with the same "
        "Idempotency-Key"
    )
