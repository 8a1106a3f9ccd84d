"""Cursors: the place in a list after which its next page begins, as a string.

A place is a record's sort key in the list, not an offset: records added or removed
elsewhere do not move it. A cursor also names its list, by a digest.
"""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from jiyi.clock import to_micros
from jiyi.errors import BadQuery
from jiyi.records import Listing, Message, Query, Record, stable_id
from jiyi.storage import Store, age_of
from jiyi.storage.rows import is_storable

__all__ = ["LATEST", "MOST", "Place", "listing", "page", "place_of"]

Place = tuple[Any, ...]
"""What a record is sorted by: whole numbers (microseconds since 1970, or a ``seq``), then its id."""

_T = TypeVar("_T")

_LONGEST = 8_192  # characters of a cursor
_LARGEST = 2**62

MOST = 10_000
"""What one question may return."""

LATEST = (_LARGEST, "")
"""The place in a list by age, the newest first, before which there is none."""


def page(store: Store, query: Query, after: str | None) -> Listing[Any]:
    """Return the page of a stored list that follows a cursor, at most ``query.limit`` records.

    Messages of a session are sorted by their place in it, everything else by age.

    Raises:
        BadQuery: the cursor is invalid, or of another list.
    """
    list_ = repr(replace(query, limit=1, there_at=None))
    place = place_of(after, 1, list_)
    asked = replace(query, limit=min(query.limit + 1, MOST))
    if query.kinds != ("message",):
        asked = replace(asked, after=place or LATEST)
    elif place is not None:
        asked = replace(asked, before_seq=place[0])
    found = store.find(asked)
    more = len(found) > query.limit or len(found) == MOST
    return listing(found[: query.limit], more, _place, list_)


def listing(found: Sequence[_T], more: bool, place: Callable[[_T], Place], list_: str) -> Listing[_T]:
    """Return records in the order of their list, with the cursor of the last if there are more."""
    if not more:
        return Listing(found)
    written = json.dumps([stable_id(list_)[:8], *place(found[-1])], separators=(",", ":"))
    return Listing(found, base64.urlsafe_b64encode(written.encode()).decode().rstrip("="))


def place_of(cursor: str | None, numbers: int, list_: str) -> Place | None:
    """Return the place that a cursor of a list names: so many numbers, then an id.

    Raises:
        BadQuery: it is not a cursor, or of another list.
    """
    if cursor is None:
        return None
    try:
        padded = cursor[:_LONGEST] + "=" * (-len(cursor) % 4)
        digest, *found, id_ = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (AttributeError, TypeError, ValueError, RecursionError):
        raise BadQuery("after= is no cursor; give it the `next` of what the same verb returned") from None
    whole = len(found) == numbers and all(type(one) is int and abs(one) < _LARGEST for one in found)
    if digest != stable_id(list_)[:8] or not whole or not is_storable(id_):
        raise BadQuery(
            "after= is the cursor of another list: give it the `next` of the same verb, "
            "with the same user and the same other arguments"
        )
    return (*found, id_)


def _place(record: Record) -> Place:
    number = record.seq if isinstance(record, Message) else to_micros(age_of(record))
    return number, record.id
