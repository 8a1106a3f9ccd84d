"""Rows to records: reading one kind of record from a SQLite connection."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import apsw

from jiyi.records import Kind, Query, Record, Scope, Step
from jiyi.storage.rows import Row, decode
from jiyi.storage.sql import load_queries
from jiyi.storage.sqlite_conditions import on_documents, on_kind
from jiyi.storage.upkeep import Cursor

__all__ = ["find_records", "read_documents", "scan_records"]

_SQL = load_queries("sqlite")


def find_records(db: apsw.Connection, kind: Kind, query: Query) -> list[Record]:
    """Return the records of one kind that a query describes, in the query's order."""
    where, values = on_kind(kind, query)
    order = "DESC" if query.newest_first else "ASC"
    in_session = kind == "message" and query.scope.session_id is not None
    by = "d.seq" if in_session else f"d.created_at {order}, d.doc"
    if query.ids is not None:
        by = f"+{by}"  # the plus keeps SQLite from walking a whole index in order to save a sort
    statement = _SQL[f"find_{kind}"].format(where=where, order=order, by=by)
    rows = _rows(db, statement, values | {"limit": query.limit})
    return [decode(kind, row, _steps_of(db, kind, row)) for row in rows]


def scan_records(
    db: apsw.Connection, kind: Kind, query: Query, after: Cursor | None
) -> tuple[list[Record], Cursor | None]:
    """Return the records of one kind behind a place in time, oldest first, and the place of the last."""
    where, values = on_documents(replace(query, kinds=(kind,)))
    if after is not None:
        where += " AND (d.created_at, d.doc) > (:after_time, :after_doc)"
        values |= {"after_time": after[0], "after_doc": after[1]}
    statement = _SQL[f"find_{kind}"].format(where=where, order="ASC", by="d.created_at, d.doc")
    rows = _rows(db, statement, values | {"limit": query.limit})
    last = (rows[-1]["created_at"], rows[-1]["doc"]) if rows else None
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
