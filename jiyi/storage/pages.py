"""Going through all records of a kind, in pieces, by the protocols alone."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar, cast

from jiyi.clock import to_micros
from jiyi.records import Message, Query, Record, Scope, Session, Task
from jiyi.storage.store import Page, Store
from jiyi.storage.trash import TrashPage

__all__ = ["all_messages", "all_pages", "all_records", "all_sessions", "walk"]

_P = TypeVar("_P", Page, TrashPage)
_MOST = 10_000  # what one question may return


def all_records(store: Store, query: Query) -> Iterator[Record]:
    """Give the records of one kind that a query describes, oldest first, in pieces of ``query.limit``.

    The kind may be one that can be searched, "task" or "summary"; summaries come as they were
    stored. Memory holds one piece at a time.
    """
    if query.kinds == ("task",):
        yield from _tasks(store, query)
        return
    for page in all_pages(store, query):
        yield from page.records


def all_pages(store: Store, query: Query, *, words: bool = False) -> Iterator[Page]:
    """Give the same in the pieces in which it is read; ``words`` as for `Store.scan`."""
    return walk(lambda after: store.scan(query, after, words=words))


def walk(read: Callable[[Any], _P]) -> Iterator[_P]:
    """Give all pieces, each read from where the one before says that the next begins; the first from None."""
    after = None
    while True:
        page = read(after)
        yield page
        after = page.next
        if after is None:
            return


def all_sessions(store: Store, scope: Scope) -> dict[str, datetime]:
    """Return the ids of the sessions in a scope, each with the date of its first message."""
    query = Query(scope=scope, kinds=("session",), limit=_MOST)
    found = cast("list[Session]", store.find(query))
    if len(found) < _MOST:
        return {session.id: session.started_at for session in found}
    started: dict[str, datetime] = {}
    messages = all_records(store, replace(query, kinds=("message",)))
    for message in cast("Iterator[Message]", messages):
        assert message.scope is not None
        assert message.created_at is not None
        started.setdefault(message.scope.session_id or "", message.created_at)
    return started


def all_messages(store: Store, scope: Scope, limit: int) -> Iterator[Message]:
    """Give the messages of a session in their order, in pieces of ``limit``."""
    after = None
    while True:
        query = Query(scope=scope, kinds=("message",), after_seq=after, limit=limit)
        found = cast("list[Message]", store.find(query))
        yield from found
        if len(found) < limit:
            return
        after = found[-1].seq


def _tasks(store: Store, query: Query) -> Iterator[Task]:
    """Give tasks ordered by their start, then by id."""
    query = replace(query, newest_first=False)
    while True:
        found = cast("list[Task]", store.find(query))
        yield from found
        if len(found) < query.limit:
            return
        query = replace(query, after=(to_micros(found[-1].started_at), found[-1].id))
