"""Every row of a damaged file that can still be read, whatever its neighbours are like."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import apsw

from jiyi.errors import DatabaseDamaged
from jiyi.storage.rows import Row
from jiyi.storage.sqlite.connection import SqliteConnection

__all__ = ["readable_rows"]

_PIECE = 1_000  # rows read at once
_GUESSED = 100_000  # the newest number where the file does not tell it

_Ask = Callable[[int, int], list[Row]]


def readable_rows(db: SqliteConnection, part: str) -> Iterator[list[Row] | None]:
    """Give the rows of one kind of records, or of the trash, of all users; None for what cannot be read.

    Tables are gone through by the numbers of their rows, and where a stretch cannot be read, by
    its halves: indexes are not asked.
    """
    if part == "task":
        yield from _tasks(db)
        return
    number = {"summary": "s.entry", "trash": "t.entry"}.get(part, "d.doc")

    def ask(first: int, last: int) -> list[Row]:
        values: dict[str, Any] = {"first": first, "last": last, "limit": _PIECE}
        where = f"{number} BETWEEN :first AND :last"
        try:
            return db.records(f"find_{part}", values, where=where, order="ASC", by=number)
        except apsw.Error as error:
            raise DatabaseDamaged(str(error)) from error

    table = {"s.entry": "summaries", "t.entry": "trash"}.get(number, "documents")
    newest = _first(db, f"SELECT max({number[2:]}) FROM {table}")
    numbered = _first(db, "SELECT seq FROM sqlite_sequence WHERE name = 'documents'")
    # A damaged page gives any number.
    last = newest if newest is not None and newest <= 2 * (numbered or _GUESSED) else numbered or _GUESSED
    yield from _stretch(ask, number[2:], 1, last)


def _stretch(ask: _Ask, name: str, first: int, last: int) -> Iterator[list[Row] | None]:
    while first <= last:
        try:
            rows = ask(first, last)
        except DatabaseDamaged:
            if first == last:
                yield None
                return
            middle = (first + last) // 2
            yield from _stretch(ask, name, first, middle)
            first = middle + 1
            continue
        yield rows
        first = rows[-1][name] + 1 if len(rows) == _PIECE else last + 1


def _first(db: SqliteConnection, sql: str) -> int | None:
    try:
        row = db.raw.execute(sql).fetchone()
    except apsw.Error:
        return None
    return row[0] if row and type(row[0]) is int else None


def _tasks(db: SqliteConnection) -> Iterator[list[Row] | None]:
    """Give tasks by their names, which are read from both ends of their table up to a damaged page."""
    names: dict[tuple[str, str], None] = {}
    broken = False
    for order in ("ASC", "DESC"):
        try:
            by = f"user_id {order}, id {order}"
            for pair in db.raw.execute(
                f"SELECT CAST(user_id AS BLOB), CAST(id AS BLOB) FROM tasks ORDER BY {by}"
            ):
                user_id, id_ = map(partial(bytes.decode, errors="replace"), pair)
                names[user_id, id_] = None
        except apsw.Error:
            broken = True
    if broken:
        yield None
    for user_id, id_ in names:
        values = {"user_id": user_id, "id": id_, "limit": 1}
        try:
            yield db.records("find_task", values, where="t.user_id = :user_id AND t.id = :id", order="ASC")
        except (apsw.Error, DatabaseDamaged):
            yield None
