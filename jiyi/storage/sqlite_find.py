"""Rows to records: reading one kind of record from a SQLite connection."""

from typing import cast

import apsw

from jiyi.records import Kind, Query, Record, Scope, Step
from jiyi.storage.rows import Row, decode
from jiyi.storage.sql import load_queries
from jiyi.storage.sqlite_conditions import on_kind

__all__ = ["find_records"]

_SQL = load_queries("sqlite")


def find_records(db: apsw.Connection, kind: Kind, query: Query) -> list[Record]:
    """Return the records of one kind that a query describes, in the query's order."""
    where, values = on_kind(kind, query)
    order = "DESC" if query.newest_first else "ASC"
    in_session = kind == "message" and query.scope.session_id is not None
    by = "d.seq" if in_session else f"d.created_at {order}, d.doc"
    if query.ids is not None:
        by = f"+{by}"  # the plus keeps SQLite from walking a whole index in order to save a sort
    cursor = db.execute(
        _SQL[f"find_{kind}"].format(where=where, order=order, by=by), values | {"limit": query.limit}
    )
    rows: list[Row] = []
    names: list[str] = []
    for values_of_row in cursor:
        names = names or [column[0] for column in cursor.get_description()]  # known with the first row
        rows.append(dict(zip(names, values_of_row, strict=True)))
    return [decode(kind, row, _steps_of(db, kind, row)) for row in rows]


def _steps_of(db: apsw.Connection, kind: Kind, row: Row) -> tuple[Step, ...]:
    if kind != "task":
        return ()
    query = Query(scope=Scope(user_id=row["user_id"]), kinds=("step",), task_id=row["id"], limit=10_000)
    return tuple(cast("list[Step]", find_records(db, "step", query)))
