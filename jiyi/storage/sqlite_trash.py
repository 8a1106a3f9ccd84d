"""`jiyi.storage.trash.Trash` on a `SqliteDatabase`."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, cast

import apsw

from jiyi.clock import to_micros, utc_from_micros
from jiyi.errors import BadQuery, DatabaseLocked, WrongState
from jiyi.records import SEARCHABLE, Kind, Message, Query, Record, Scope
from jiyi.storage.candidates import Key
from jiyi.storage.rows import Row, decode_whole, is_storable
from jiyi.storage.sql import load_queries
from jiyi.storage.sqlite_conditions import on_kind
from jiyi.storage.sqlite_database import SqliteDatabase
from jiyi.storage.sqlite_write import delete_records, mend_session, put_back
from jiyi.storage.trash import Discarded, TrashPage

__all__ = ["SqliteTrash"]

_SQL = load_queries("sqlite")
_KINDS: tuple[Kind, ...] = (*SEARCHABLE, "task")
_PIECE = 1_000  # records read at once
_STEP = ("task_id", "seq", "id", "status", "body")


class SqliteTrash:
    """`jiyi.storage.trash.Trash` on the same `SqliteDatabase` as the store."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._db = database

    def discard(self, scope: Scope, keys: Sequence[Key], *, reason: str, at: datetime) -> Mapping[Kind, int]:
        """See `Trash.discard`."""
        odd = {kind for kind, _ in keys} - set(_KINDS)
        if odd:
            raise BadQuery(f"{', '.join(sorted(odd))} cannot be taken out; there are {', '.join(_KINDS)}")
        counts: dict[Kind, int] = {}
        storable = reason.encode(errors="replace").decode()  # half a surrogate pair is not
        taken = {"discarded_at": to_micros(at), "reason": storable}
        with self._db.write() as db:
            for kind, rows in _find(db, scope, keys):
                out = [
                    _bare(row) | taken | {"kind": kind, "body": json.dumps(row, ensure_ascii=False)}
                    for row in rows
                ]
                db.executemany(_SQL["put_trash"], out)
                delete_records(db, kind, scope.user_id, [row["id"] for row in rows])
                counts[kind] = counts.get(kind, 0) + len(rows)
                if kind == "message":
                    for session_id in {row["session_id"] for row in rows}:
                        mend_session(db, Scope(user_id=scope.user_id, session_id=session_id))
            if any(kind in SEARCHABLE for kind in counts):
                db.execute(_SQL["bump_generation"], {"user_id": scope.user_id})
        return counts

    def discarded(self, query: Query) -> list[Discarded]:
        """See `Trash.discarded`."""
        where, values = _on_query(query)
        with self._db.read() as db:
            rows = db.execute(_SQL["find_trash"].format(where=where), values | {"limit": query.limit})
            return [_discarded(*row) for row in cast("Iterable[tuple[Kind, int, str, str]]", rows)]

    def walk(self, query: Query, after: int = 0) -> TrashPage:
        """See `Trash.walk`."""
        where, values = _on_query(query)
        values |= {"limit": query.limit, "after": after}
        with self._db.read() as db:
            rows = db.execute(_SQL["walk_trash"].format(where=where), values).fetchall()
        found = cast("list[tuple[int, Kind, int, str, str]]", rows)
        return TrashPage(
            entries=tuple(_discarded(kind, moment, reason, body) for _, kind, moment, reason, body in found),
            next=found[-1][0] if len(found) == query.limit else None,
        )

    def restore(self, scope: Scope, keys: Sequence[Key]) -> list[Record]:
        """See `Trash.restore`."""
        taken: list[tuple[Record, int | None]] = []
        with self._db.write() as db:
            for kind, id_ in keys:
                if not is_storable(id_):
                    continue
                values = {"user_id": scope.user_id, "kind": kind, "id": id_}
                for body, doc in db.execute(_SQL["take_trash"], values).fetchall():
                    taken.append((decode_whole(kind, cast("str", body)), cast("int | None", doc)))
            taken.sort(key=_place)
            restored = [put_back(db, record, doc) for record, doc in taken]
            if restored:
                db.execute(_SQL["bump_generation"], {"user_id": scope.user_id})
        return restored

    def erase(
        self,
        scope: Scope | None,
        *,
        keys: Sequence[Key] | None = None,
        before: datetime | None = None,
        limit: int = 10_000,
    ) -> int:
        """See `Trash.erase`."""
        parts, values = ["true"], dict[str, Any](limit=limit)
        if scope is not None:
            where, values = _conditions(scope, _KINDS, None)
            parts, values = [where], values | {"limit": limit}
        if before is not None:
            parts.append("t.discarded_at < :before")
            values["before"] = to_micros(before)
        if keys is not None:
            parts.append("(t.kind, t.id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:keys))")
            values["keys"] = json.dumps(keys)
        with self._db.write() as db:
            rows = db.execute(_SQL["erase_trash"].format(where=" AND ".join(parts)), values)
            return len(rows.fetchall())

    def check_alone(self) -> None:
        """See `Trash.check_alone`."""
        with self._alone() as db:
            if not _fold_log(db):
                raise DatabaseLocked(
                    f"{self._db.path} is being read or written by another process; "
                    "nothing was changed, purge again when it is done"
                )
            # What would undo a statement must not be written to a temporary file from now on.
            db.execute("PRAGMA temp_store=MEMORY")

    def scrub(self) -> None:
        """See `Trash.scrub`."""
        with self._alone() as db:
            # A new copy of what is there takes the place of the file, through the log; then the log goes.
            # It is made in a temporary file first, which may be as large.
            db.execute("PRAGMA temp_store=DEFAULT; VACUUM")
            if not _fold_log(db):
                raise DatabaseLocked(
                    f"{self._db.path} is being read by another process, old bytes may remain; "
                    "purge again when it is done"
                )

    @contextmanager
    def _alone(self) -> Iterator[apsw.Connection]:
        with self._db.outside() as db:
            if db is None:
                raise WrongState("overwriting needs the file alone; call it after the transaction")
            yield db


def _fold_log(db: apsw.Connection) -> bool:
    """Move the log into the file and empty it; False where somebody still reads it."""
    row = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return row is not None and not row[0]


def _find(db: apsw.Connection, scope: Scope, keys: Sequence[Key]) -> Iterable[tuple[Kind, list[Row]]]:
    """Give the rows of keys in pieces, each with what `decode_whole` needs; tasks with their steps."""
    user = Scope(user_id=scope.user_id)
    for kind in _KINDS:
        ids = tuple(dict.fromkeys(id_ for other, id_ in keys if other == kind))
        for start in range(0, len(ids), _PIECE):
            piece = ids[start : start + _PIECE]
            rows = _read(db, kind, Query(scope=user, kinds=(kind,), ids=piece, limit=_PIECE))
            if kind == "task":
                _add_steps(db, scope, rows)
            if rows:
                yield kind, rows


def _read(db: apsw.Connection, kind: Kind, query: Query) -> list[Row]:
    where, values = on_kind(kind, query)
    statement = _SQL[f"find_{kind}"].format(where=where, order="ASC", by="+d.doc")
    return _rows(db, statement, values | {"limit": query.limit})


def _add_steps(db: apsw.Connection, scope: Scope, tasks: Sequence[Row]) -> None:
    """Put under ``steps`` of each task the rows of its steps."""
    where = "t.user_id = :user_id AND t.id IN (SELECT value FROM json_each(:ids))"
    ids = json.dumps([task["id"] for task in tasks], ensure_ascii=False)
    statement = _SQL["find_step"].format(where=where, order="ASC")
    steps: dict[str, list[Row]] = {task["id"]: [] for task in tasks}
    for row in _rows(db, statement, {"user_id": scope.user_id, "ids": ids, "limit": -1}):
        steps[row["task_id"]].append({name: row[name] for name in _STEP})
    for task in tasks:
        task["steps"] = steps[task["id"]]


def _rows(db: apsw.Connection, statement: str, values: Mapping[str, Any]) -> list[Row]:
    names: list[str] = []
    rows: list[Row] = []
    cursor = db.execute(statement, values)
    for row in cursor:
        names = names or [column[0] for column in cursor.get_description()]  # known with the first row
        rows.append(dict(zip(names, row, strict=True)))
    return rows


def _bare(row: Row) -> Row:
    """Return what the trash keeps beside the body."""
    return {name: row[name] for name in ("user_id", "id", "agent_id", "session_id")}


def _place(taken: tuple[Record, int | None]) -> int:
    """Return what restored messages are sorted by: those that go to the end keep their order."""
    record = taken[0]
    return (record.seq or 0) if isinstance(record, Message) else 0


def _discarded(kind: Kind, moment: int, reason: str, body: str) -> Discarded:
    return Discarded(
        record=decode_whole(kind, body), kind=kind, reason=reason, discarded_at=utc_from_micros(moment)
    )


def _on_query(query: Query) -> tuple[str, dict[str, Any]]:
    where, values = _conditions(query.scope, query.kinds, query.ids)
    for name, sign in (("since", ">="), ("until", "<")):
        moment = getattr(query, name)
        if moment is not None:
            where += f" AND t.discarded_at {sign} :{name}"
            values[name] = to_micros(moment)
    return where, values


def _conditions(scope: Scope, kinds: Sequence[Kind], ids: Sequence[str] | None) -> tuple[str, dict[str, Any]]:
    parts = ["t.user_id = :user_id"]
    values: dict[str, Any] = {"user_id": scope.user_id, "kinds": json.dumps(list(kinds))}
    parts.append("t.kind IN (SELECT value FROM json_each(:kinds))")
    for name in ("agent_id", "session_id"):
        value = getattr(scope, name)
        if value is not None:
            parts.append(f"t.{name} = :{name}")
            values[name] = value
    if ids is not None:
        parts.append("t.id IN (SELECT value FROM json_each(:ids))")
        values["ids"] = json.dumps(list(ids))
    return " AND ".join(parts), values
