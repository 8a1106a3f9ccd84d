"""Google ADK: a memory service for its runner, its memory tools and its command line."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import unquote

from pydantic import ValidationError

from jiyi.api import open as open_memory
from jiyi.async_manager import AsyncMemoryManager
from jiyi.clock import read_moment
from jiyi.errors import InputError, NotFound
from jiyi.importers.run import is_server
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

_SCHEME = "jiyi://"
_FROM_FULL_SESSION = "with_session"  # the field of messages that were saved with their whole session
_NO_SESSION = "adk"  # the conversation of events and memories that are given without a session

_Labels = Mapping[str, object] | None


@dataclass(eq=False, repr=False)
class JiyiMemoryService(BaseMemoryService):
    """A memory service of ADK. An app is an agent of the memory: apps do not see each other's memories.

    Events are messages of the session's conversation, saved once however often the session is added, and read
    for facts. Events without text, such as function calls, and partial events of a stream are left out.

    Raises `InputError`: neither or both of ``memory`` and ``uri``, or another kind of URI.
    """

    memory: MemoryManager | None = None  # where it is saved; it stays open
    _: KW_ONLY
    uri: str | None = None
    """Instead of ``memory``: opened here, closed by `close`; ``jiyi:///path/of/memory.db``,
    ``jiyi://memory.db`` in the current folder, or ``jiyi://postgresql://user@host/db``."""
    limit: int = 10  # memories of a search, at most
    agents_dir: str | None = None  # passed by the command line

    def __post_init__(self) -> None:
        if (self.memory is None) == (self.uri is None):
            raise InputError("give either an open memory or uri=")
        self._sync_memory = self.memory or open_memory(_parse_uri(str(self.uri)))
        self._memory = AsyncMemoryManager(self._sync_memory)
        self._deleted_ids: set[str] = set()

    async def add_session_to_memory(self, session: Session) -> None:
        """Save the new events of a session, all or none; what was deleted from the memory stays deleted.

        Raises as `add_events_to_memory`.
        """
        app, full = session.app_name, {_FROM_FULL_SESSION: True}
        messages = [_from_event(app, session.id, event, full) for event in _with_text(session.events)]
        await self._save_new(app, session.user_id, session.id, messages)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: _Labels = None,
    ) -> None:
        """Save some events, all or none; one that is already saved changes nothing.

        ``custom_metadata`` are labels of the messages, found by ``filters={"metadata": {...}}``.

        Raises `BadMessage`: an event has no JSON, or metadata that cannot be kept.
        """
        session, extra = session_id or _NO_SESSION, _metadata_of(custom_metadata)
        messages = [_from_event(app_name, session, event, extra) for event in _with_text(events)]
        await self._save_new(app_name, user_id, session, messages)

    async def add_memory(
        self, *, app_name: str, user_id: str, memories: Sequence[MemoryEntry], custom_metadata: _Labels = None
    ) -> None:
        """Save memories unchanged, all or none; one with the same id and content changes nothing.

        Raises:
            BadMessage, InputError: one is not JSON, has unusable metadata, or a timestamp without a zone.
            DuplicateId: an id is taken by another memory.
        """
        messages = []
        for entry in memories:
            extra = _metadata_of({**(custom_metadata or {}), **entry.custom_metadata})
            fields: dict[str, Any] = {"id": entry.id} if entry.id else {}
            fields["created_at"] = read_moment(entry.timestamp) if entry.timestamp else None
            messages.append(_from_content(entry.content, entry.author or "user", extra, **fields))
        await finish(self._memory.save_messages(_NO_SESSION, messages, user_id=user_id, agent_id=app_name))

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return what the user's memory in this app has for a query, best first; see `describe_hit`."""
        if not query.strip():
            return SearchMemoryResponse()
        hits = await self._memory.search(query, limit=self.limit, user_id=user_id, agent_id=app_name)
        return SearchMemoryResponse(memories=[_build_memory_entry(hit, hits) for hit in hits])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Forget a memory with all that was derived from it alone; a missing one changes nothing."""
        if memory_id:
            self._deleted_ids.add(memory_id)
            forget = partial(self._memory.forget, user_id=user_id, agent_id=app_name)
            with suppress(NotFound):
                await finish(forget(ids=[memory_id], reason="deleted"))

    async def delete_session_memory(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Forget a session and all derived from it; ADK's own deletion of sessions leaves these."""
        forget = partial(self._memory.forget, user_id=user_id, agent_id=app_name)
        await finish(forget(session_id=session_id, reason="session deleted"))

    async def close(self) -> None:
        """Close the memory if this opened it."""
        if self.memory is None:
            await self._memory.close()

    async def _save_new(self, app: str, user: str, session_id: str, messages: Sequence[Message]) -> None:
        stored = await asyncio.to_thread(read_conversation, Owner(self._sync_memory, user, session_id))
        known = {message.id for message in stored} | self._deleted_ids
        # Events before the newest that was saved with its session are not new: if they are missing, they
        # were forgotten. Events added one by one say nothing about those before them.
        full = {message.id for message in stored if _FROM_FULL_SESSION in message.extra}
        is_full = [_FROM_FULL_SESSION in message.extra and message.id in full for message in messages]
        newest = max((i for i, is_known in enumerate(is_full) if is_known), default=-1)
        unsaved = [message for message in messages[newest + 1 :] if message.id not in known]
        if unsaved:
            await finish(self._memory.save_messages(session_id, unsaved, user_id=user, agent_id=app))


def register() -> None:
    """Let ADK's command line and web server open memories by ``jiyi://``: call it in ``services.py``."""
    from google.adk.cli.service_registry import get_service_registry

    registry = get_service_registry()
    registry.register_memory_service("jiyi", lambda uri, **fields: JiyiMemoryService(uri=uri, **fields))


def _parse_uri(uri: str) -> str:
    location = uri.removeprefix(_SCHEME)
    if location == uri or not location:
        raise InputError(f"{uri!r} is no {_SCHEME} with the path or the URL of a memory")
    return location if is_server(location) else unquote(location)


def _with_text(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if _read_text(event.content) and not event.partial]


def _read_text(content: types.Content | None) -> str:
    parts = (content.parts if content is not None else None) or ()
    return "\n".join(part.text for part in parts if part.text and part.text.strip() and not part.thought)


def _metadata_of(labels: _Labels) -> dict[str, object]:
    return {"metadata": dict(labels)} if labels else {}


def _from_event(app: str, session_id: str, event: Event, extra: Mapping[str, object]) -> Message:
    # Copies of a session share the ids of events.
    message_id = hash_text(repr((app, session_id, event.id)))
    moment = datetime.fromtimestamp(event.timestamp, UTC)
    return _from_content(event.content, event.author, extra, id=message_id, created_at=moment)


def _from_content(content: types.Content, author: str, extra: Mapping[str, object], **fields: Any) -> Message:
    role = "user" if author == "user" or content.role == "user" else "assistant"
    raw = content.model_dump(mode="json", exclude_none=True)
    body = {"role": role, "content": _read_text(content), "author": author, **extra}
    return build_message(raw, body, **fields)


def _build_memory_entry(hit: Hit, hits: Hits) -> MemoryEntry:
    record, author = hit.record, None
    content = types.Content(role="user", parts=[types.Part(text=hit.wordings[0])])
    if isinstance(record, Message):
        author = record.extra.get("author", record.role)
        with suppress(ValidationError):  # saved by other means
            content = types.Content.model_validate(raw_of(record))
    metadata = describe_hit(hit, hits)
    id_, date = metadata.pop("id"), metadata.pop("created_at")
    return MemoryEntry(id=id_, content=content, author=author, timestamp=date, custom_metadata=metadata)
