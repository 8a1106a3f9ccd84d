"""Iterators over all records of a kind, read page by page through the public methods of the store."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, TypeVar, cast

from jiyi.records import Message, Query, Record, Scope, Session
from jiyi.storage.store import Page, Store

__all__ = ["all_messages", "all_pages", "all_records", "all_sessions", "read_pages"]

_P = TypeVar("_P")  # a page, which has ``next``
_MAX_FOUND = 10_000  # records that one query may return


def all_records(store: Store, query: Query) -> Iterator[Record]:
    """Yield the records of one kind in the order of `Store.scan`, reading ``query.limit`` at a time."""
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
    sessions = all_records(store, Query(scope=scope, kinds=("session",), limit=_MAX_FOUND))
    return {session.id: session.started_at for session in cast("Iterator[Session]", sessions)}


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
