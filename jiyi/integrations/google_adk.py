"""Google ADK: a memory service for its runner, its memory tools and its command line.

``pip install "jiyi[google-adk]"``. `JiyiMemoryService` takes sessions in and finds them again; after
`register` the ``adk`` commands know ``--memory_service_uri=jiyi://...``.
"""

import asyncio
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import unquote

from pydantic import ValidationError

from jiyi.api import open as open_memory
from jiyi.async_manager import AsyncMemoryManager
from jiyi.errors import InputError, NotFound
from jiyi.importers.recognise import is_server
from jiyi.integrations.common import build_message, finish, raw_of, require_framework
from jiyi.integrations.recalling import Owner, describe_hit, hash_text, read_conversation
from jiyi.manager import MemoryManager
from jiyi.records import Hit, Hits, Message

with require_framework("Google ADK", "google-adk"):
    from google.adk.events import Event
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions import Session
    from google.genai import types

__all__ = ["JiyiMemoryService", "register"]

_SCHEME = "jiyi://"
_WHOLE = "with_session"  # a field of messages that came with their whole session
_NO_SESSION = "adk"  # the conversation of events and memories that are given without a session


@dataclass(eq=False, repr=False)
class JiyiMemoryService(BaseMemoryService):
    """A memory service of ADK on a memory. An app is an agent of it: apps do not see each other's memories.

    - Events are messages of the session's conversation, saved once however often the session is added,
      and read for facts without a model. Their content comes back equal.
    - Events without words, such as function calls, and events that are parts of a stream are left out.

    Raises:
        InputError: neither or both of ``memory`` and ``uri``, or another kind of URI.
    """

    memory: MemoryManager | None = None  # where it is kept; it stays open
    _: KW_ONLY
    uri: str | None = None
    """In place of ``memory``, what is opened, and closed by `close`: ``jiyi:///path/of/memory.db``,
    ``jiyi://memory.db`` in the current folder, or ``jiyi://postgresql://user@host/db``."""
    limit: int = 10  # memories of a search, at most
    agents_dir: str | None = None  # the command line gives it

    def __post_init__(self) -> None:
        if (self.memory is None) == (self.uri is None):
            raise InputError("give either an open memory or uri=")
        self._sync = self.memory or open_memory(_place_of(str(self.uri)))
        self._memory = AsyncMemoryManager(self._sync)
        self._deleted: set[str] = set()

    async def add_session_to_memory(self, session: Session) -> None:
        """Save what is new of a session, all or none; what was deleted from the memory stays deleted.

        Raises:
            BadMessage: an event has no JSON.
        """
        given = [_message(session.app_name, session.id, e, {}, full=True) for e in _said(session.events)]
        stored = await self._stored(session.id, session.user_id)
        # What stands before the newest event that was added so is no longer new: if it is not there, it
        # was forgotten. Events added one by one say nothing about those before them.
        newest = max((i for i, message in enumerate(given) if stored.get(message.id)), default=-1)
        await self._save(session.id, given[newest + 1 :], stored, session.user_id, session.app_name)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Save some events, all or none; one that is there already changes nothing.

        Args:
            app_name, user_id: whose.
            events: those to add.
            session_id: their session.
            custom_metadata: labels of the messages, found by ``filters={"metadata": {...}}``.

        Raises:
            BadMessage: an event has no JSON, or metadata that cannot be kept.
        """
        session = session_id or _NO_SESSION
        given = [_message(app_name, session, event, custom_metadata or {}) for event in _said(events)]
        await self._save(session, given, await self._stored(session, user_id), user_id, app_name)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Save memories as they are, all or none; one of the same id and content changes nothing.

        Raises:
            BadMessage, InputError: one has no JSON, unusable metadata, or a timestamp without a zone.
            DuplicateId: an id is taken by another memory.
        """
        saved = []
        for entry in memories:
            labels = {**(custom_metadata or {}), **entry.custom_metadata}
            fields = {"id": entry.id} if entry.id else {}
            more = {"metadata": labels} if labels else {}
            message = _kept(entry.content, entry.author or "user", more, **fields)
            dated = {"created_at": entry.timestamp} if entry.timestamp else {}
            saved.append({**message.to_dict(), "id": message.id, **dated})
        await finish(self._memory.save_messages(_NO_SESSION, saved, user_id=user_id, agent_id=app_name))

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return what the user's memory in this app has for a query, best first.

        ``custom_metadata`` has ``kind``, ``relevance``, ``why``, and ``nothing_relevant``, the probability
        that the memory holds no answer.
        """
        if not query.strip():
            return SearchMemoryResponse()
        found = await self._memory.search(query, limit=self.limit, user_id=user_id, agent_id=app_name)
        return SearchMemoryResponse(memories=[_entry(hit, found) for hit in found])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Forget a memory with all that was derived from it alone; one that is not there changes nothing."""
        if memory_id:
            self._deleted.add(memory_id)
            forget = partial(self._memory.forget, user_id=user_id, agent_id=app_name)
            with suppress(NotFound):
                await finish(forget(ids=[memory_id], reason="deleted"))

    async def delete_session_memory(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Forget all that came of a session, which ADK's own deletion of sessions leaves."""
        forget = partial(self._memory.forget, user_id=user_id, agent_id=app_name)
        await finish(forget(session_id=session_id, reason="session deleted"))

    async def close(self) -> None:
        """Close the memory where this opened it."""
        if self.memory is None:
            await self._memory.close()

    async def _stored(self, session_id: str, user_id: str) -> dict[str, bool]:
        """Return the ids of a conversation, each with whether it came with its whole session."""
        stored = await asyncio.to_thread(read_conversation, Owner(self._sync, user_id, session_id))
        return {message.id: bool(message.extra.get(_WHOLE)) for message in stored}

    async def _save(
        self, session_id: str, given: Sequence[Message], stored: Container[str], user_id: str, app: str
    ) -> None:
        new = [message for message in given if message.id not in stored and message.id not in self._deleted]
        if new:
            await finish(self._memory.save_messages(session_id, new, user_id=user_id, agent_id=app))


def register() -> None:
    """Let ADK's command line and web server open memories by ``jiyi://``: call it in ``services.py``."""
    from google.adk.cli.service_registry import get_service_registry

    get_service_registry().register_memory_service(
        "jiyi", lambda uri, **fields: JiyiMemoryService(uri=uri, **fields)
    )


def _place_of(uri: str) -> str:
    place = uri.removeprefix(_SCHEME)
    if place == uri or not place:
        raise InputError(f"{uri!r} is no {_SCHEME} with the path or the URL of a memory")
    return place if is_server(place) else unquote(place)


def _said(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if _words(event.content) and not event.partial]


def _words(content: types.Content | None) -> str:
    """Return what is said, without thoughts."""
    parts = (content.parts if content is not None else None) or ()
    return "\n".join(part.text for part in parts if part.text and part.text.strip() and not part.thought)


def _message(
    app: str, session_id: str, event: Event, labels: Mapping[str, object], *, full: bool = False
) -> Message:
    # Copies of a session have the same ids of events.
    name = hash_text(repr((app, session_id, event.id)))
    moment = datetime.fromtimestamp(event.timestamp, UTC)
    more: dict[str, object] = {"metadata": dict(labels)} if labels else {}
    more |= {_WHOLE: True} if full else {}
    return _kept(event.content, event.author, more, id=name, created_at=moment)


def _kept(content: types.Content, author: str, more: Mapping[str, object], **fields: Any) -> Message:
    role = "user" if author == "user" or content.role == "user" else "assistant"
    raw = content.model_dump(mode="json", exclude_none=True)
    return build_message(raw, {"role": role, "content": _words(content), "author": author, **more}, **fields)


def _entry(hit: Hit, found: Hits) -> MemoryEntry:
    record, author = hit.record, None
    content = types.Content(role="user", parts=[types.Part(text=hit.wordings[0])])
    if isinstance(record, Message):
        author = record.extra.get("author", record.role)
        with suppress(ValidationError):  # saved by other means
            content = types.Content.model_validate(raw_of(record))
    about = describe_hit(hit, found)
    return MemoryEntry(
        id=about.pop("id"),
        content=content,
        author=author,
        timestamp=about.pop("created_at"),
        custom_metadata=about,
    )
