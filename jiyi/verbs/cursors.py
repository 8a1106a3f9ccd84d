"""Cursors: the sort key after which the next page of a list begins, as a string.

A sort key is no offset: records added or removed elsewhere do not move it. A cursor also
contains a digest of its list.
"""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from jiyi.clock import to_micros
from jiyi.errors import BadQuery
from jiyi.records import MAX_LIMIT, Listing, Message, Query, Record, stable_id
from jiyi.storage import Store, sort_time
from jiyi.storage.rows import is_storable

SortKey = tuple[Any, ...]
"""What a record is sorted by: whole numbers (microseconds since 1970, or a ``seq``), then its id."""

_T = TypeVar("_T")

_MAX_CURSOR_LENGTH = 8_192  # characters of a cursor
_MAX_NUMBER = 2**62

BEFORE_NEWEST = (_MAX_NUMBER, "")
"""The sort key before the first record of a list by age, newest first."""


def list_page(store: Store, query: Query, after: str | None) -> Listing[Any]:
    """Return the page after a cursor, at most ``query.limit`` records; raises as `read_cursor`.

    Messages of a session are sorted by their place in it, everything else by age.
    """
    list_name = repr(replace(query, limit=1, there_at=None))
    place = read_cursor(after, 1, list_name)
    start: dict[str, Any] = {"after": place or BEFORE_NEWEST}
    if query.kinds == ("message",):
        start = {"before_seq": place[0] if place else None}
    found = store.find(replace(query, limit=min(query.limit + 1, MAX_LIMIT), **start))
    more = len(found) > query.limit or len(found) == MAX_LIMIT
    return make_listing(found[: query.limit], more, sort_key, list_name)


def make_listing(found: Sequence[_T], more: bool, key: Callable[[_T], SortKey], name: str) -> Listing[_T]:
    """Return the records as a page, with the cursor of the last one if there are more."""
    if not more:
        return Listing(found)
    written = json.dumps([stable_id(name)[:8], *key(found[-1])], separators=(",", ":"))
    return Listing(found, base64.urlsafe_b64encode(written.encode()).decode().rstrip("="))


def read_cursor(cursor: str | None, numbers: int, list_name: str) -> SortKey | None:
    """Return the sort key in a cursor, ``numbers`` integers and an id; `BadQuery` if it is another list's."""
    if cursor is None:
        return None
    try:
        padded = cursor[:_MAX_CURSOR_LENGTH] + "=" * (-len(cursor) % 4)
        digest, *found, id_ = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (AttributeError, TypeError, ValueError, RecursionError):
        raise BadQuery("after= is no cursor; give it the `next` of what the same verb returned") from None
    valid = len(found) == numbers and all(type(n) is int and abs(n) < _MAX_NUMBER for n in found)
    if digest != stable_id(list_name)[:8] or not valid or not is_storable(id_):
        advice = "give it the `next` of the same verb, with the same user and the same other arguments"
        raise BadQuery(f"after= is the cursor of another list: {advice}")
    return (*found, id_)


def sort_key(record: Record) -> SortKey:
    """Return what a record is sorted by: its place in its session, or its age."""
    number = record.seq if isinstance(record, Message) else to_micros(sort_time(record))
    return number, record.id
