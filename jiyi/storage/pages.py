"""Iterators over all records of a kind, read page by page through the public methods of the store."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar, cast

from jiyi.clock import to_micros
from jiyi.records import Message, Query, Record, Scope, Session, Task
from jiyi.storage.store import Page, Store

__all__ = ["all_messages", "all_pages", "all_records", "all_sessions", "read_pages"]

_P = TypeVar("_P")  # a page, which has ``next``
_MAX_FOUND = 10_000  # records that one query may return


def all_records(store: Store, query: Query) -> Iterator[Record]:
    """Yield the records of one kind that match a query, oldest first, reading ``query.limit`` at a time.

    The kind is a searchable one, "task" or "summary"; summaries come in the order they were stored.
    """
    if query.kinds == ("task",):
        yield from _tasks(store, query)
        return
    for page in all_pages(store, query):
        yield from page.records


def all_pages(store: Store, query: Query, *, words: bool = False) -> Iterator[Page]:
    """Yield the pages that `Store.scan` returns one after the other."""
    return read_pages(lambda after: store.scan(query, after, words=words))


def read_pages(read: Callable[[Any], _P]) -> Iterator[_P]:
    """Yield all pages; ``read`` gets the ``next`` of the page before, None for the first."""
    after = None
    while True:
        page: Any = read(after)
        yield page
        after = page.next
        if after is None:
            return


def all_sessions(store: Store, scope: Scope) -> dict[str, datetime]:
    """Return the ids of the sessions in a scope, each with the date of its first message."""
    query = Query(scope=scope, kinds=("session",), limit=_MAX_FOUND)
    sessions = cast("list[Session]", store.find(query))
    if len(sessions) < _MAX_FOUND:
        return {session.id: session.started_at for session in sessions}
    started: dict[str, datetime] = {}
    messages = all_records(store, replace(query, kinds=("message",)))
    for message in cast("Iterator[Message]", messages):
        assert message.scope is not None
        assert message.created_at is not None
        started.setdefault(message.scope.session_id or "", message.created_at)
    return started


def all_messages(store: Store, scope: Scope, limit: int) -> Iterator[Message]:
    """Yield the messages of a session in their order, reading ``limit`` at a time."""
    after = None
    while True:
        query = Query(scope=scope, kinds=("message",), after_seq=after, limit=limit)
        messages = cast("list[Message]", store.find(query))
        yield from messages
        if len(messages) < limit:
            return
        after = messages[-1].seq


def _tasks(store: Store, query: Query) -> Iterator[Task]:
    """Yield tasks ordered by start, then by id."""
    query = replace(query, newest_first=False)
    while True:
        tasks = cast("list[Task]", store.find(query))
        yield from tasks
        if len(tasks) < query.limit:
            return
        query = replace(query, after=(to_micros(tasks[-1].started_at), tasks[-1].id))
