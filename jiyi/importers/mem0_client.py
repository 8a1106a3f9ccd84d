"""Memories of mem0: its exported pages, its API, or one of its clients in Python."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from inspect import iscoroutinefunction, signature
from itertools import combinations, count
from typing import Any, Protocol, runtime_checkable
from urllib.parse import parse_qsl, urlsplit

from jiyi.breaker import Breaker
from jiyi.endpoint import Endpoint, Faults, patiently
from jiyi.errors import ImportFailed, InputError, JiyiError, ServerError, ServerUnreachable, SettingsError
from jiyi.importers.entries import Entry, LeftOut, Maker, items, mapping
from jiyi.importers.files import Files, values
from jiyi.posting import post
from jiyi.storage.transfer.lines import NOT_JSON, Rejected

__all__ = ["Mem0Client", "is_mem0", "note", "read_mem0", "read_mem0_client"]

_OWN = ("id", "memory", "data", "hash", "metadata", "created_at", "updated_at", "expiration_date", "score")


def read_mem0(files: Files, make: Maker) -> Iterator[Entry]:
    """Read memories as notes about the user; of a file of several users those of the one asked for.

    Raises:
        ImportFailed: it holds memories of several users, and none of the one they are imported for.
    """
    named = (mapping(memory).get("user_id") for _, memory in _memories(files))
    users = {name for name in named if isinstance(name, str)}
    mine = users & {make.scope.user_id.rpartition("//")[2]}  # a server puts the tenant before it
    if len(users) > 1 and not mine:
        raise ImportFailed(
            f"{files.root} holds memories of {len(users)} users of mem0; import it as one of them, "
            f"such as {min(users)[:40]}"
        )
    for where, memory in _memories(files):
        if isinstance(memory, Rejected):
            yield memory
        elif len(users) > 1 and mapping(memory).get("user_id") not in (None, *mine):
            yield LeftOut("memories of other users")
        else:
            yield note(where, mapping(memory), make)


def _memories(files: Files) -> Iterator[tuple[str, Any]]:
    for name in files.named("*.json"):
        for where, value in values(files, name):
            page = mapping(value).get("results") or mapping(value).get("memories")
            if isinstance(page, list):
                yield from ((f"{where} [{number}]", memory) for number, memory in enumerate(items(page)))
            elif mapping(value).get("results") != []:
                yield where, value


def note(where: str, memory: Mapping[str, Any], make: Maker) -> Entry:
    """Return a memory of mem0 as a note about the user."""
    words, who = memory.get("memory") or memory.get("data"), memory.get("actor_id") or memory.get("role")
    who = who if isinstance(who, str) and who else "user"
    labels = {**mapping(memory.get("metadata"))}
    labels |= {k: v for k, v in memory.items() if k not in (*_OWN, *labels) and v not in (None, "", [], {})}
    return make.fact(
        where,
        (who, "note", words),
        id=memory.get("id") or make.hashed(memory.get("user_id"), words),
        origin=memory.get("user_id") or memory.get("agent_id") or "mem0",
        date=memory.get("created_at"),
        ends=memory.get("expiration_date"),
        speaker=who,
        labels=labels,
    )


_SCHEMES = {"mem0://": "https://", "mem0+https://": "https://", "mem0+http://": "http://"}
_OWNERS = ("user_id", "agent_id", "app_id", "run_id")
_PAGE = 100  # memories asked for at once
_FIRST = 1_000  # asked for first where there are no pages
_MOST_BYTES = 64 << 20  # of one page
_FAULTS = Faults(
    unreachable=ServerUnreachable,
    refused=ServerError,
    advice={
        401: "set MEM0_API_KEY to a key of mem0",
        403: "set MEM0_API_KEY to a key that may read these memories",
        404: "this is not the API that mem0's MemoryClient speaks; check the address, or give its Memory "
        "object to memory.import_",
    },
    other_advice="check the address and MEM0_API_KEY",
    misfit="did not answer as mem0 does",
    misfit_advice="check the address",
)

_Page = tuple[list[Any], bool]
"""Memories, and whether more may follow."""
_Pages = Callable[[Mapping[str, Any], int], _Page]
"""Asks for a page of what filters select; pages count from 1."""


@runtime_checkable
class Mem0Client(Protocol):
    """What is read from a client: mem0's ``MemoryClient``, or its ``Memory`` that needs no service."""

    @property
    def get_all(self) -> Callable[..., Any]:
        """The method that lists memories."""


def is_mem0(place: object) -> bool:
    """Say whether a place is the address of mem0's API, or a client of mem0."""
    if isinstance(place, str):
        return place.startswith(tuple(_SCHEMES))
    return callable(getattr(place, "get_all", None)) and not isinstance(place, type)


def read_mem0_client(place: str | Mem0Client, make: Maker) -> Iterator[Entry]:
    """Read a user's memories as notes, also those that were kept for an agent, an app or a run as well.

    Args:
        place: ``mem0://HOST/PATH`` (HTTPS) or ``mem0+http://HOST:PORT/PATH``, asked with the key in
            MEM0_API_KEY; ``?user_id=`` and the like name somebody else than the scope's user. Or a client.
        make: makes the records, of its scope's user.

    Raises:
        SettingsError: the address or the key cannot be one.
        InputError: the client is one for asyncio.
        ServerUnreachable: mem0 cannot be reached; importing again goes on from there.
        ServerError: it refused, or answered in another form.
    """
    whose: dict[str, Any] = {
        "user_id": make.scope.user_id.rpartition("//")[2]
    }  # a server puts a tenant there
    if isinstance(place, str):
        endpoint, named = _endpoint(place)
        whose = named or whose
        pages = _each_scope(partial(_page_of_api, endpoint, Breaker()), whose)
    else:
        pages = _of_client(place, whose)
    return _entries(pages, whose, make)


def _entries(memories: Iterator[Any], whose: Mapping[str, Any], make: Maker) -> Iterator[Entry]:
    seen = set[str]()
    for memory in memories:
        held = mapping(memory)
        if (name := _name(memory)) in seen:
            continue
        seen.add(name)
        where = f"mem0 [{len(seen) - 1}]"
        if not held:
            yield Rejected(where=where, reason="no memory of mem0")
        elif "user_id" in whose and held.get("user_id") not in (None, whose["user_id"]):
            yield LeftOut("memories of other users")
        else:
            yield note(where, held, make)


def _name(memory: Any) -> str:
    id_ = mapping(memory).get("id")
    return id_ if isinstance(id_, str) else json.dumps(memory, sort_keys=True, default=str)


def _each_scope(ask: _Pages, whose: Mapping[str, Any]) -> Iterator[Any]:
    """Give all memories, some of them several times.

    mem0 takes an owner that a filter leaves out for one that a memory must not have, and "*" for any: so
    it is asked once for each combination, unless the first answers show that this API does not do so.
    """
    others = [name for name in _OWNERS if name not in whose]
    for size in range(len(others) + 1):
        for more in combinations(others, size):
            filters = {
                "AND": [{name: value} for name, value in {**whose, **dict.fromkeys(more, "*")}.items()]
            }
            for memory in _all(partial(ask, filters)):
                yield memory
                if not more and any(mapping(memory).get(name) for name in others):
                    others = []
        if not others:
            return


def _all(ask: Callable[[int], _Page]) -> Iterator[Any]:
    """Give what all pages hold, until there is none or one holds nothing new."""
    seen = set[str]()
    for number in count(1):
        found, more = ask(number)
        new = {_name(memory) for memory in found} - seen
        yield from found
        seen |= new
        if not (new and more):
            return


def _endpoint(address: str) -> tuple[Endpoint, dict[str, str]]:
    """Return where the API is, and whose memories the address names."""
    scheme = next(scheme for scheme in _SCHEMES if address.startswith(scheme))
    url, _, query = address.partition("?")
    parts = urlsplit(url)
    named = dict(parse_qsl(query, keep_blank_values=True))
    if "@" in parts.netloc or "#" in address or not all(name in _OWNERS and named[name] for name in named):
        raise SettingsError(
            "an address of mem0 is mem0://HOST or mem0+http://HOST:PORT/PATH, with nothing after it but "
            "?user_id=, agent_id=, app_id= or run_id=; the key goes into MEM0_API_KEY"
        )
    base = _SCHEMES[scheme] + url.removeprefix(scheme).rstrip("/")
    return Endpoint(base_url=base, api_key=os.environ.get("MEM0_API_KEY", "")), named


def _page_of_api(endpoint: Endpoint, breaker: Breaker, filters: Mapping[str, Any], number: int) -> _Page:
    url = f"{endpoint.url}/v3/memories/?page={number}&page_size={_PAGE}"
    payload = {"filters": filters, "show_expired": True}

    def ask(left: float, attempt: int) -> _Page:
        body = post(
            endpoint, url, payload, _FAULTS, left=left, number=attempt, scheme="Token", most=_MOST_BYTES
        )
        try:
            return _page(json.loads(body))
        except NOT_JSON as error:
            raise _FAULTS.unusable(endpoint, error, body) from None

    return patiently(ask, breaker, retries=endpoint.retries)


def _page(answer: Any) -> _Page:
    """Return what an answer holds; ValueError where it is no list of memories."""
    found = mapping(answer).get("results") if isinstance(answer, dict) else answer
    if not isinstance(found, list):
        raise ValueError("it has no list under 'results'")
    return found, not isinstance(answer, dict) or answer.get("next", True) is not None


def _of_client(client: Mem0Client, whose: Mapping[str, Any]) -> Iterator[Any]:
    known = signature(client.get_all).parameters
    if iscoroutinefunction(client.get_all):
        raise InputError("mem0's clients for asyncio are not read: give its MemoryClient or Memory")
    most = next((name for name in ("top_k", "limit") if name in known), None)
    if most is None:
        paged = {"page_size": _PAGE, "show_expired": True}
        return _each_scope(lambda filters, page: _asked(client, filters=filters, page=page, **paged), whose)
    given: dict[str, Any] = {"filters": dict(whose)} if most == "top_k" else dict(whose)
    given |= {"show_expired": True} if "show_expired" in known else {}
    return _growing(lambda size: _asked(client, **given, **{most: size})[0])


def _growing(ask: Callable[[int], list[Any]]) -> Iterator[Any]:
    """Give what a list without pages holds: more is asked for until there are fewer than asked for."""
    size, before = _FIRST, 0
    while len(found := ask(size)) >= size and len(found) > before:
        size, before = size * 10, len(found)
    yield from found


def _asked(client: Mem0Client, **given: Any) -> _Page:
    try:
        return _page(client.get_all(**given))
    except JiyiError:
        raise
    except Exception as error:
        key = getattr(client, "api_key", None) or "\0"
        said = " ".join(f"{type(error).__name__} {error}".replace(str(key), "***").split())[:300]
        raise ServerError(f"mem0's client failed ({said}): check it, and import again to go on") from (
            None if str(key) in f"{error} {error.__cause__}" else error
        )
