"""Rows to records: reading one kind of record from a SQLite connection."""

from collections.abc import Mapping
from typing import Any, cast

import apsw

from jiyi.records import Kind, Query, Record, Scope, Step
from jiyi.storage.rows import Row, decode
from jiyi.storage.sql import load_queries
from jiyi.storage.sqlite_conditions import on_kind
from jiyi.storage.upkeep import Cursor

__all__ = ["find_records", "read_documents", "scan_records"]

_SQL = load_queries("sqlite")
_BEHIND = {"entry": "s.entry > :after_number", "doc": "(d.created_at, d.doc) > (:after_time, :after_number)"}


def find_records(db: apsw.Connection, kind: Kind, query: Query) -> list[Record]:
    """Return the records of one kind that a query describes, in the query's order."""
    where, values = on_kind(kind, query)
    order = "DESC" if query.newest_first else "ASC"
    statement = _SQL[f"find_{kind}"].format(where=where, order=order, by=_by(kind, query, order))
    rows = _rows(db, statement, values | {"limit": query.limit})
    return [decode(kind, row, _steps_of(db, kind, row)) for row in rows]


def _by(kind: Kind, query: Query, order: str) -> str:
    """Return what records are sorted by; the order of the last column follows it."""
    in_session = query.scope.session_id is not None
    if kind == "summary":  # those of a whole session have no agent and come first
        return "s.agent_id, s.version" if in_session else f"s.created_at {order}, s.entry"
    by = "d.seq" if kind == "message" and in_session else f"d.created_at {order}, d.doc"
    # The plus keeps SQLite from walking a whole index in order to save a sort.
    return by if query.ids is None else f"+{by}"


def scan_records(
    db: apsw.Connection, kind: Kind, query: Query, after: Cursor | None
) -> tuple[list[Record], Cursor | None]:
    """Return the records of one kind behind a place in time, oldest first, and the place of the last.

    Summaries come as they were stored: a version never before the one it builds on.
    """
    where, values = on_kind(kind, query)
    number = "entry" if kind == "summary" else "doc"
    if after is not None:
        where += f" AND {_BEHIND[number]}"
        values |= {"after_time": after[0], "after_number": after[1]}
    by = "s.entry" if kind == "summary" else "d.created_at, d.doc"
    statement = _SQL[f"find_{kind}"].format(where=where, order="ASC", by=by)
    rows = _rows(db, statement, values | {"limit": query.limit})
    last = (rows[-1]["created_at"], rows[-1][number]) if rows else None
    return [decode(kind, row) for row in rows], last


def read_documents(db: apsw.Connection, kind: Kind, after: int, limit: int) -> list[tuple[int, Record]]:
    """Return searchable records of one kind of all users with their numbers, in the order of these.

    For whoever works through a whole file: the only statement here that names no user.
    """
    statement = _SQL[f"find_{kind}"].format(where="d.doc > :after", order="ASC", by="d.doc")
    rows = _rows(db, statement, {"after": after, "limit": limit})
    return [(row["doc"], decode(kind, row)) for row in rows]


def _rows(db: apsw.Connection, statement: str, values: Mapping[str, Any]) -> list[Row]:
    cursor = db.execute(statement, values)
    rows: list[Row] = []
    names: list[str] = []
    for values_of_row in cursor:
        names = names or [column[0] for column in cursor.get_description()]  # known with the first row
        rows.append(dict(zip(names, values_of_row, strict=True)))
    return rows


def _steps_of(db: apsw.Connection, kind: Kind, row: Row) -> tuple[Step, ...]:
    if kind != "task":
        return ()
    query = Query(scope=Scope(user_id=row["user_id"]), kinds=("step",), task_id=row["id"], limit=10_000)
    return tuple(cast("list[Step]", find_records(db, "step", query)))
