"""A memory on a server, with the verbs of one that is here: `connect` and `connect_async`."""

import os
from urllib.parse import urlsplit

from jiyi.client.memory import AsyncRemoteMemory, RemoteMemory
from jiyi.endpoint import Endpoint
from jiyi.errors import SettingsError

__all__ = ["AsyncRemoteMemory", "RemoteMemory", "connect", "connect_async"]


def connect(
    url: str,
    *,
    api_key: str | None = None,
    user_id: str | None = None,
    agent_id: str | None = None,
    timeout: float = 60.0,
    retries: int = 4,
) -> RemoteMemory:
    """Return the memory on a server (`jiyi serve`) as if it were here; nothing is asked yet.

    Its verbs take and return the same as those of `jiyi.open`, and raise the same errors. It may be
    used from several threads, and after a fork.

    Args:
        url: the server, such as ``http://127.0.0.1:8710``.
        api_key: from ``jiyi keys create``; the environment's ``JIYI_API_KEY`` where it is left out.
            It appears in no error and no log.
        user_id, agent_id: whose memory by default; a key of one user needs no user_id.
        timeout: seconds to wait for each piece of an answer.
        retries: further tries after broken connections, 429, 502, 503 and 504, with pauses or after what
            Retry-After says. What writes is still done only once.

    Raises:
        SettingsError: the address or the key cannot be one.
        MissingExtra: ``pip install "jiyi[client]"``.
    """
    key = os.environ.get("JIYI_API_KEY", "") if api_key is None else api_key
    there = Endpoint(base_url=url, api_key=key, timeout=timeout, retries=retries)
    parts = urlsplit(there.url)
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise SettingsError("the address of a server has no user, password, query or fragment: give api_key=")
    return RemoteMemory(there, user_id=user_id, agent_id=agent_id)


def connect_async(
    url: str,
    *,
    api_key: str | None = None,
    user_id: str | None = None,
    agent_id: str | None = None,
    timeout: float = 60.0,
    retries: int = 4,
) -> AsyncRemoteMemory:
    """Return a memory on a server with verbs to be awaited; see `connect`."""
    memory = connect(
        url, api_key=api_key, user_id=user_id, agent_id=agent_id, timeout=timeout, retries=retries
    )
    return AsyncRemoteMemory(memory)
