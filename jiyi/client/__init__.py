"""A memory on a server with the verbs of a local one: `connect` and `connect_async`."""

import os
from inspect import signature
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from jiyi.endpoint import Endpoint, is_web_address
from jiyi.errors import SettingsError

if TYPE_CHECKING:  # loaded when a memory on a server is opened
    from jiyi.client.memory import AsyncRemoteMemory, RemoteMemory

__all__ = ["connect", "connect_async", "connect_for_open"]


def connect(
    url: str,
    *,
    api_key: str | None = None,
    user_id: str | None = None,
    agent_id: str | None = None,
    timeout: float = 60.0,
    retries: int = 4,
) -> "RemoteMemory":
    """Return the memory on a server (`jiyi serve`) as if it were local; no request is sent yet.

    Its verbs have the arguments, results and errors of `jiyi.open`. Threads may share it, also after a fork.

    Args:
        url: the server, such as ``http://127.0.0.1:8710``.
        api_key: from ``jiyi keys create``, by default ``JIYI_API_KEY``; it appears in no error and no log.
        user_id, agent_id: the default user and agent; a key for one user needs no user_id.
        timeout: seconds to wait for each part of a response.
        retries: further attempts after broken connections, 429, 502, 503 and 504, after a pause or the time
            in Retry-After. Writes are still done only once.

    Raises:
        SettingsError: the address or the key is invalid.
        MissingExtra: ``pip install "jiyi[client]"``.
    """
    from jiyi.client.memory import RemoteMemory

    key = os.environ.get("JIYI_API_KEY", "") if api_key is None else api_key
    if not is_web_address(url):
        raise SettingsError("the address of a server is a web address such as http://127.0.0.1:8710")
    endpoint = Endpoint(base_url=url, api_key=key, timeout=timeout, retries=retries)
    parts = urlsplit(endpoint.url)
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise SettingsError("the address of a server has no user, password, query or fragment: give api_key=")
    return RemoteMemory(endpoint, user_id=user_id, agent_id=agent_id)


def connect_async(url: str, **options: Any) -> "AsyncRemoteMemory":
    """Return a memory on a server with async verbs; ``options`` as for `connect`."""
    from jiyi.client.memory import AsyncRemoteMemory

    return AsyncRemoteMemory(connect(url, **options))


def connect_for_open(url: str, options: dict[str, Any], parts: tuple[object, ...]) -> "RemoteMemory":
    """Do what `connect` does; SettingsError: an option, or one of the ``parts``, is for `jiyi.open` only."""
    unknown = sorted(set(options) - set(signature(connect).parameters))
    if unknown or any(part is not None for part in parts):
        odd = ", ".join(unknown) or "embedder, llm and other parts"
        raise SettingsError(f"{odd}: this is for the server's settings, see `jiyi serve`; leave it out here")
    return connect(url, **options)
