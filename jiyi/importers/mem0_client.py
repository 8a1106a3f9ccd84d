"""Memories of mem0: from exported pages, its API, or one of its Python clients."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from inspect import iscoroutinefunction, signature
from itertools import combinations, count
from typing import Any, Protocol, runtime_checkable
from urllib.parse import parse_qsl, urlsplit

from jiyi.breaker import Breaker
from jiyi.endpoint import Endpoint, Faults, retry
from jiyi.errors import InputError, JiyiError, ServerError, ServerUnreachable, SettingsError
from jiyi.importers.entries import Entry, LeftOut, RecordMaker, as_dict
from jiyi.importers.files import Files, iter_json_values
from jiyi.posting import post
from jiyi.storage.transfer.files import NOT_JSON, Rejected

_FIELDS = ("id", "memory", "data", "hash", "metadata", "created_at", "updated_at", "expiration_date", "score")
_EMPTY: Sequence[Any] = (None, "", [], {})
_OF_OTHERS = LeftOut("memories of other users")


def read_mem0(files: Files, make: RecordMaker) -> Iterator[Entry]:
    """Read memories as notes about the user; of a file of several users only those of the scope's user."""
    others = make.find_others(as_dict(memory).get("user_id") for _, memory in _memories(files))
    for where, memory in _memories(files):
        if isinstance(memory, Rejected):
            yield memory
        elif as_dict(memory).get("user_id") in others:
            yield _OF_OTHERS
        else:
            yield _note(where, as_dict(memory), make)


def _memories(files: Files) -> Iterator[tuple[str, Any]]:
    for name in files.matching("*.json"):
        for where, value in iter_json_values(files, name):
            page = as_dict(value).get("results") or as_dict(value).get("memories")
            if isinstance(page, list):
                yield from ((f"{where} [{number}]", memory) for number, memory in enumerate(page))
            elif as_dict(value).get("results") != []:
                yield where, value


def _note(where: str, memory: Mapping[str, Any], make: RecordMaker) -> Entry:
    text, role = memory.get("memory") or memory.get("data"), memory.get("actor_id") or memory.get("role")
    speaker = role if isinstance(role, str) and role else "user"
    labels = {**as_dict(memory.get("metadata"))}
    labels |= {k: v for k, v in memory.items() if k not in (*_FIELDS, *labels) and v not in _EMPTY}
    id_ = memory.get("id") or make.hash_id(memory.get("user_id"), text)
    origin = memory.get("user_id") or memory.get("agent_id") or "mem0"
    dates: Any = {"date": memory.get("created_at"), "ends": memory.get("expiration_date")}
    triple = (speaker, "note", text)
    return make.fact(where, triple, id=id_, origin=origin, speaker=speaker, labels=labels, **dates)


_URL_SCHEMES = {"mem0://": "https://", "mem0+https://": "https://", "mem0+http://": "http://"}
OWNER_FIELDS = ("user_id", "agent_id", "app_id", "run_id")
_PAGE_SIZE = 100  # memories
_FIRST_LIMIT = 1_000  # memories, of a client without pages
_PAGE_BYTES = 64 << 20  # of one page
_FAULTS = Faults(
    unreachable=ServerUnreachable,
    refused=ServerError,
    advice={
        401: "set MEM0_API_KEY to a key of mem0",
        403: "set MEM0_API_KEY to a key that may read these memories",
        404: "this is not the API of mem0's MemoryClient; check the address, or give its Memory to import_",
    },
    other_advice="check the address and MEM0_API_KEY",
    misfit="did not answer as mem0 does",
    misfit_advice="check the address",
)

_Page = tuple[list[Any], bool]  # memories, and whether more may follow
_FetchPage = Callable[[Mapping[str, Any], int], _Page]
"""Fetches a page of the memories that filters select; pages count from 1."""


@runtime_checkable
class Mem0Client(Protocol):
    """A client of mem0: its ``MemoryClient``, or its ``Memory`` that needs no service."""

    @property
    def get_all(self) -> Callable[..., Any]:
        """The method that lists memories."""


def is_mem0(place: object) -> bool:
    """Return whether a place is a URL of mem0's API or a client of mem0."""
    if isinstance(place, str):
        return place.startswith(tuple(_URL_SCHEMES))
    return callable(getattr(place, "get_all", None)) and not isinstance(place, type)


def read_mem0_client(place: str | Mem0Client, make: RecordMaker) -> Iterator[Entry]:
    """Read a user's memories as notes, including those that also belong to an agent, an app or a run.

    The place is a client, or ``mem0://HOST/PATH`` (HTTPS) or ``mem0+http://HOST:PORT/PATH``, with the key in
    MEM0_API_KEY; ``?user_id=`` and the like name another owner than the scope's user.

    Raises `SettingsError` or `InputError` if the address, the key or the client cannot be used; a
    `ServerError` if mem0 does not answer as it should: importing again goes on from there.
    """
    owner: dict[str, Any] = {"user_id": make.scope.user_id.rpartition("//")[2]}  # a server adds the tenant
    if isinstance(place, str):
        endpoint, named_owner = _endpoint(place)
        owner = named_owner or owner
        pages = _each_owner(partial(_fetch_api_page, endpoint, Breaker()), owner)
    else:
        pages = _list_memories(place, owner)
    seen = set[str]()
    for memory in pages:
        if (key := _memory_key(memory)) in seen:
            continue
        where, fields = f"mem0 [{len(seen)}]", as_dict(memory)
        seen.add(key)
        if not fields:
            yield Rejected(where=where, reason="no memory of mem0")
        elif "user_id" in owner and fields.get("user_id") not in (None, owner["user_id"]):
            yield _OF_OTHERS
        else:
            yield _note(where, fields, make)


def _memory_key(memory: Any) -> str:
    id_ = as_dict(memory).get("id")
    return id_ if isinstance(id_, str) else json.dumps(memory, sort_keys=True, default=str)


def _each_owner(fetch: _FetchPage, owner: Mapping[str, Any]) -> Iterator[Any]:
    """Yield all memories, some of them several times.

    For mem0 a missing owner field in a filter means that a memory must not have it, and "*" means any: so
    each combination is fetched, unless the first answers show that this API has no such rule.
    """
    others = [name for name in OWNER_FIELDS if name not in owner]
    for size in range(len(others) + 1):
        for wildcards in combinations(others, size):
            fields = {**owner, **dict.fromkeys(wildcards, "*")}
            filters = {"AND": [{name: value} for name, value in fields.items()]}
            for memory in _all_pages(partial(fetch, filters)):
                yield memory
                if not wildcards and any(as_dict(memory).get(name) for name in others):
                    others = []
        if not others:
            return


def _all_pages(fetch: Callable[[int], _Page]) -> Iterator[Any]:
    """Yield the memories of all pages, up to the last page or one without new memories."""
    seen = set[str]()
    for number in count(1):
        memories, more = fetch(number)
        new = {_memory_key(memory) for memory in memories} - seen
        yield from memories
        seen |= new
        if not (new and more):
            return


def _endpoint(address: str) -> tuple[Endpoint, dict[str, str]]:
    scheme = next(scheme for scheme in _URL_SCHEMES if address.startswith(scheme))
    url, _, query = address.partition("?")
    owner = dict(parse_qsl(query, keep_blank_values=True))
    valid_owner = all(name in OWNER_FIELDS and value for name, value in owner.items())
    if "@" in urlsplit(url).netloc or "#" in address or not valid_owner:
        raise SettingsError(
            "an address of mem0 is mem0://HOST or mem0+http://HOST:PORT/PATH, with at most ?user_id=, "
            "agent_id=, app_id= or run_id= after it; the key goes into MEM0_API_KEY"
        )
    base = _URL_SCHEMES[scheme] + url.removeprefix(scheme).rstrip("/")
    return Endpoint(base_url=base, api_key=os.environ.get("MEM0_API_KEY", "")), owner


def _fetch_api_page(endpoint: Endpoint, breaker: Breaker, filters: Mapping[str, Any], number: int) -> _Page:
    url = f"{endpoint.url}/v3/memories/?page={number}&page_size={_PAGE_SIZE}"
    payload = {"filters": filters, "show_expired": True}
    send = partial(post, endpoint, url, payload, _FAULTS, scheme="Token", max_bytes=_PAGE_BYTES)

    def request(left: float, attempt: int) -> _Page:
        body = send(left=left, attempt=attempt)
        try:
            return _parse_page(json.loads(body))
        except NOT_JSON as error:
            raise _FAULTS.unusable(endpoint, error, body) from None

    return retry(request, breaker, retries=endpoint.retries)


def _parse_page(answer: Any) -> _Page:
    """Return the memories of an answer; raise `ValueError` if it has no list of them."""
    memories = as_dict(answer).get("results") if isinstance(answer, dict) else answer
    if not isinstance(memories, list):
        raise ValueError("it has no list under 'results'")
    return memories, not isinstance(answer, dict) or answer.get("next", True) is not None


def _list_memories(client: Mem0Client, owner: Mapping[str, Any]) -> Iterator[Any]:
    parameters = signature(client.get_all).parameters
    if iscoroutinefunction(client.get_all):
        raise InputError("mem0's clients for asyncio are not read: give its MemoryClient or Memory")
    limit = next((name for name in ("top_k", "limit") if name in parameters), None)
    if limit is None:
        fetch = partial(_call_client, client, page_size=_PAGE_SIZE, show_expired=True)
        return _each_owner(lambda filters, page: fetch(filters=filters, page=page), owner)
    arguments: dict[str, Any] = {"filters": dict(owner)} if limit == "top_k" else dict(owner)
    arguments |= {"show_expired": True} if "show_expired" in parameters else {}
    return _unpaged_memories(lambda size: _call_client(client, **arguments, **{limit: size})[0])


def _unpaged_memories(fetch: Callable[[int], list[Any]]) -> Iterator[Any]:
    """Yield the memories of a list without pages, raising the limit until fewer are returned."""
    limit, previous = _FIRST_LIMIT, 0
    while len(memories := fetch(limit)) >= limit and len(memories) > previous:
        limit, previous = limit * 10, len(memories)
    yield from memories


def _call_client(client: Mem0Client, **arguments: Any) -> _Page:
    try:
        return _parse_page(client.get_all(**arguments))
    except JiyiError:
        raise
    except Exception as error:
        key = getattr(client, "api_key", None) or "\0"
        message = " ".join(f"{type(error).__name__} {error}".replace(str(key), "***").split())[:300]
        cause = None if str(key) in f"{error} {error.__cause__}" else error
        raise ServerError(f"mem0's client failed ({message}): check it, and import again to go on") from cause
