"""Diversity: what says the same in the same words does not stand twice among the first."""

from collections.abc import Sequence

from jiyi.records import Message, Searchable

__all__ = ["repeats_last"]


def repeats_last(records: Sequence[Searchable]) -> list[int]:
    """Return the places of records in a new order: word-for-word repeats behind all others.

    Only a text that is the same but for case and white space is a repeat, said by the same
    one: what merely resembles another may hold the answer that the other lacks, so nothing
    else is moved and nothing is dropped. Otherwise the order stays.
    """
    seen: set[tuple[str, str | None]] = set()
    first: list[int] = []
    again: list[int] = []
    for place, record in enumerate(records):
        who = (record.name or record.role) if isinstance(record, Message) else None
        key = " ".join(record.search_text.casefold().split()), who
        (again if key in seen else first).append(place)
        seen.add(key)
    return first + again
