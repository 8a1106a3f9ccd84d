"""Rows to records: reading one kind of record from a database."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

from jiyi.errors import DatabaseDamaged
from jiyi.records import SEARCHABLE, Kind, Message, Query, Record, Scope, Step
from jiyi.storage.candidates import Key
from jiyi.storage.database import Answer, Call, Connection, Dialect, grouped
from jiyi.storage.relational.conditions import on_kind
from jiyi.storage.relational.users import Snapshot
from jiyi.storage.rows import Row, decode, is_storable

__all__ = ["Cursor", "find_named", "find_records", "scan_records", "whole"]

Cursor = tuple[int, int]
"""A place in a scan: microseconds since 1970 and the backend's own number of a record."""

_ALL = 2**31 - 1  # more rows than there are
_KEPT = 1_000  # characters of a record's body up to which it is kept
_MOST_KEPT = 4_000  # messages of a user
_BEHIND = {"entry": "s.entry > :after_number", "doc": "(d.created_at, d.doc) > (:after_time, :after_number)"}


def find_records(db: Connection, query: Query) -> list[Record]:
    """Return the records a query describes: one kind after the other, each in the query's order."""
    answers = db.all_of([_call(kind, query, db.dialect) for kind in query.kinds])
    found: list[Record] = []
    for kind, answer in zip(query.kinds, answers, strict=True):
        found += _filled(db, kind, query, answer)
    return found


def find_named(
    db: Connection, user_id: str, keys: Iterable[Key], seen: Snapshot | None = None
) -> dict[Key, Record]:
    """Return a user's records by their keys, without those that are not there; see `Store.named`."""
    known = seen.terms.messages if seen else {}
    there = {key: had for key in keys if (had := known.get(key))}
    ids = grouped(dict.fromkeys(key for key in keys if key not in there))
    calls = [_by_ids(kind, user_id, some, db.dialect) for kind, some in ids.items()]
    if there:
        calls.append(Call("count_changes", {"user_id": user_id}))
    answers = db.all_of(calls) if calls else []
    if seen and there and answers.pop().rows != [(seen.changes,)]:
        return find_named(db, user_id, keys)  # something was taken out or amended since
    found = zip(ids, answers, strict=True)
    read = {(kind, one.id): one for kind, answer in found for one in _records(db, kind, answer)}
    if len(known) > _MOST_KEPT:
        known.clear()
    for key, record in read.items():
        if isinstance(record, Message) and isinstance(record.content, str) and len(record.content) <= _KEPT:
            known[key] = record
    return there | read


def _filled(db: Connection, kind: Kind, query: Query, answer: Answer) -> list[Record]:
    """Return the records of an answer; of a full page others come in place of the damaged ones."""
    while True:
        found = _records(db, kind, answer)
        if len(found) == len(answer.rows) or len(answer.rows) < query.limit:
            return found
        ids = {record.id for record in found}
        lost = [row.get("id") for row in answer.records() if row.get("id") not in ids]
        named = tuple(str(id_) for id_ in lost if is_storable(id_) and id_ not in query.without)
        if not named:
            return found
        query = replace(query, kinds=(kind,), without=(*query.without, *named))
        answer = db.all_of([_call(kind, query, db.dialect)])[0]


def _records(db: Connection, kind: Kind, answer: Answer) -> list[Record]:
    """Return the records of an answer; a damaged one is noted and left out.

    Of a short message or fact it is the one made of the same row before: records are frozen.
    """
    if kind not in ("message", "fact") or not answer.rows:
        return [record for record, _ in whole(db, kind, answer.records())]
    names, found = tuple(answer.names), list[Record]()
    body = names.index("body")
    for row in answer.rows:
        short = isinstance(row[body], str) and len(row[body]) <= _KEPT
        try:
            found.append((_decoded if short else _decoded.__wrapped__)(kind, names, row))
        except DatabaseDamaged as error:
            db.damage.add(kind, dict(zip(names, row, strict=True)), error)
    return found


@lru_cache(maxsize=4_096)
def _decoded(kind: Kind, names: tuple[str, ...], row: tuple[Any, ...]) -> Record:
    return decode(kind, dict(zip(names, row, strict=True)))


def whole(db: Connection, kind: Kind, rows: Iterable[Row]) -> Iterator[tuple[Record, Row]]:
    """Give the records of rows, each with its row; those that are damaged are noted and left out."""
    for row in rows:
        try:
            yield decode(kind, row, _steps_of(db, row) if kind == "task" else ()), row
        except DatabaseDamaged as error:
            db.damage.add(kind, row, error)


def _call(kind: Kind, query: Query, dialect: Dialect) -> Call:
    where, values = on_kind(kind, query, dialect)
    order = "DESC" if query.newest_first else "ASC"
    by = _by(kind, query, order, dialect.words["aside"])
    return Call(f"find_{kind}", values | {"limit": query.limit}, {"where": where, "order": order, "by": by})


def _by_ids(kind: Kind, user_id: str, ids: Sequence[str], dialect: Dialect) -> Call:
    """Return what finds all records of these ids; by the second column, the user, nothing is sorted."""
    of, kinds = ("document", [f"d.kind = '{kind}'"]) if kind in SEARCHABLE else (kind, [])
    where = " AND ".join([dialect.words[f"{of}_user"].format(aside=""), *kinds, dialect.words[f"{of}_ids"]])
    values = {"user_id": user_id, "ids": dialect.listed(ids), "limit": _ALL}
    return Call(f"find_{kind}", values, {"where": where, "order": "ASC", "by": "2"})


def _by(kind: Kind, query: Query, order: str, aside: str) -> str:
    """Return what records are sorted by; the order of the last column follows it."""
    in_session = query.scope.session_id is not None
    if kind == "summary":  # those of a whole session have no agent and come first
        return "s.agent_id, s.version" if in_session else f"s.created_at {order}, s.entry"
    if kind == "session":  # what is said meanwhile must not move one out of sight
        return "s.last_active_at" if query.after is None else "s.started_at"
    if kind == "item":  # the newest value first, whenever it was first put
        return f"i.updated_at {order}, d.id"
    last = "d.doc" if query.after is None else "d.id"
    by = "d.seq" if kind == "message" and in_session else f"d.created_at {order}, {last}"
    # A whole index must not be walked in order to save a sort.
    few = query.ids is not None or query.stretches is not None or query.pinned
    return f"{aside}{by}" if few else by


def scan_records(
    db: Connection, kind: Kind, query: Query, after: Cursor | None
) -> tuple[list[Record], list[int], Cursor | None]:
    """Return records of one kind after a place in time, oldest first, their numbers, and the last place.

    The last place is None where nothing follows. Of summaries none comes before the one it builds on.
    """
    where, values = on_kind(kind, query, db.dialect)
    number = "entry" if kind == "summary" else "doc"
    if after is not None:
        where += f" AND {_BEHIND[number]}"
        values |= {"after_time": after[0], "after_number": after[1]}
    by = "s.entry" if kind == "summary" else "d.created_at, d.doc"
    rows = db.records(f"find_{kind}", values | {"limit": query.limit}, where=where, order="ASC", by=by)
    last = (rows[-1]["created_at"], rows[-1][number]) if len(rows) == query.limit else None
    found = list(whole(db, kind, rows))
    return [record for record, _ in found], [row[number] for _, row in found], last


def _steps_of(db: Connection, row: Row) -> tuple[Step, ...]:
    query = Query(scope=Scope(user_id=row["user_id"]), kinds=("step",), task_id=row["id"])
    where, values = on_kind("step", query, db.dialect)
    rows = db.records("find_step", values | {"limit": _ALL}, where=where, order="ASC")
    return tuple(cast("Step", step) for step, _ in whole(db, "step", rows))
