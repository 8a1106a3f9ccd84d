"""The default store: one SQLite file, its words searched from memory."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import apsw

from jiyi.errors import BadQuery, BadScope, DuplicateId, NotFound
from jiyi.records import SEARCHABLE, Kind, Message, Query, Record, Scope, Session, Step, Task
from jiyi.storage.candidates import Candidates, Key
from jiyi.storage.matching import candidates
from jiyi.storage.rows import Row, encode, encode_terms, kind_of
from jiyi.storage.sql import load_queries
from jiyi.storage.sqlite_conditions import on_documents, on_kind
from jiyi.storage.sqlite_database import SqliteDatabase
from jiyi.storage.sqlite_find import find_records
from jiyi.storage.sqlite_users import hold_terms, read_allowed

__all__ = ["SqliteStore"]

_SQL = load_queries("sqlite")
_NOT_YET = datetime.max.replace(tzinfo=UTC)  # a step to come is the newest


class SqliteStore:
    """`jiyi.storage.store.Store` on a `SqliteDatabase`."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._db = database

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """See `Store.transaction`."""
        with self._db.write():
            yield

    def put(self, records: Sequence[Record]) -> list[Record]:
        """See `Store.put`."""
        prepared = [_prepare(record) for record in records]
        with self._db.write() as db:
            return [_put(db, record, row) for record, row in prepared]

    def find(self, query: Query) -> list[Record]:
        """See `Store.find`."""
        with self._db.read() as db:
            found = [record for kind in query.kinds for record in find_records(db, kind, query)]
        if len(query.kinds) > 1:
            found.sort(key=_age, reverse=query.newest_first)
        return found[: query.limit]

    def match(self, query: Query, near: Sequence[Key] = ()) -> Candidates:
        """See `Store.match`."""
        with self._db.read() as db:
            mine = hold_terms(self._db, db, query.scope.user_id)
            return candidates(mine, query, near, read_allowed(db, query))

    def delete(self, query: Query) -> Mapping[Kind, int]:
        """See `Store.delete`."""
        if not set(query.kinds) <= {*SEARCHABLE, "task"}:
            raise BadQuery(
                "delete messages, episodes, knowledge or tasks; sessions go with their last message"
            )
        counts: dict[Kind, int] = dict.fromkeys(query.kinds, 0)
        with self._db.write() as db:
            found = self.find(query)
            for record in found:
                kind = kind_of(record)
                _delete(db, kind, {"user_id": query.scope.user_id, "kind": kind, "id": record.id})
                counts[kind] += 1
            if any(counts[kind] for kind in counts if kind in SEARCHABLE):
                db.execute(_SQL["bump_generation"], {"user_id": query.scope.user_id})
            for scope in {m.scope for m in found if isinstance(m, Message)}:
                _mend_session(db, cast("Scope", scope))
        return counts

    def count(self, query: Query) -> Mapping[str, int]:
        """See `Store.count`."""
        counts: dict[str, int] = dict.fromkeys((*query.kinds, "vectors_pending"), 0)
        with self._db.read() as db:
            if set(query.kinds) & set(SEARCHABLE):
                where, values = on_documents(query)
                for kind, rows, pending in db.execute(_SQL["count_documents"].format(where=where), values):
                    counts[kind] = rows
                    counts["vectors_pending"] += pending
            for kind in set(query.kinds) - set(SEARCHABLE):
                where, values = on_kind(kind, query)
                counts[kind] = _one(db, _SQL[f"count_{kind}"].format(where=where), values)[0]
        return counts

    def close(self) -> None:
        """See `Store.close`."""
        self._db.close()


def _prepare(record: Record) -> tuple[Record, Row]:
    """Do what needs no lock: check the scope, make the columns, analyse the words."""
    if isinstance(record, Session):
        raise BadQuery("sessions are kept by the store; put their messages")
    if record.scope is None or (isinstance(record, Message) and record.scope.session_id is None):
        raise BadScope("a message needs a scope with user_id and session_id to be stored")
    row = encode(record)
    if not isinstance(record, Task | Step):
        row |= encode_terms(record)
        row["vector_state"] = "pending" if record.search_text.strip() else "none"
    return record, row


def _put(db: apsw.Connection, record: Record, row: Row) -> Record:
    match record:
        case Message():
            return _put_message(db, record, row)
        case Task():
            db.execute(_SQL["put_task"], row)
            return record
        case Step():
            return _put_step(db, record, row)
        case _:
            return _put_document(db, record, row)


def _put_message(db: apsw.Connection, message: Message, row: Row) -> Message:
    scope = cast("Scope", message.scope)
    known = find_records(
        db, "message", Query(scope=Scope(user_id=scope.user_id), kinds=("message",), ids=(row["id"],))
    )
    if known:
        stored = cast("Message", known[0])
        if stored.to_openai() != json.loads(row["body"]) or stored.scope != scope:
            raise DuplicateId(
                f"message id {message.id!r} is taken by a different message of {scope.user_id!r} "
                f"(session {stored.scope and stored.scope.session_id!r}); leave the id out to get a new one"
            )
        return stored
    row["seq"] = _one(db, _SQL["enter_session"], row)[0]
    row["kind"] = "message"
    _add_document(db, row)
    db.execute(_SQL["put_message"], row)
    return replace(message, id=row["id"], seq=row["seq"])


def _put_document(db: apsw.Connection, record: Record, row: Row) -> Record:
    kind = kind_of(record)
    row |= {"kind": kind, "seq": None}
    known = find_records(
        db, kind, Query(scope=Scope(user_id=row["user_id"]), kinds=(kind,), ids=(row["id"],))
    )
    if known and cast("Any", known[0]).search_text == cast("Any", record).search_text:
        row["doc"] = _one(db, _SQL["change_document"], row)[0]
        if (known[0].scope, _age(known[0])) != (record.scope, _age(record)):
            db.execute(_SQL["bump_generation"], row)  # rows in memory carry these
    else:
        # Other words are another document: a vector made of the old ones cannot land on it.
        if known:
            _delete(db, kind, row)
            db.execute(_SQL["bump_generation"], row)
        _add_document(db, row)
    db.execute(_SQL[f"put_{kind}"], row)
    return record


def _put_step(db: apsw.Connection, step: Step, row: Row) -> Step:
    if db.execute(_SQL["has_task"], row).fetchone() is None:
        raise NotFound(
            f"no task {step.task_id!r} of user {step.scope.user_id!r}; put the task before its steps"
        )
    stored = db.execute(_SQL["put_step"], row).fetchone()
    if stored is None:
        raise DuplicateId(f"step id {step.id!r} is taken by a step of another task; leave the id out")
    return replace(step, seq=stored[0])


def _add_document(db: apsw.Connection, row: Row) -> None:
    db.execute(_SQL["add_owner"], row)
    row["doc"] = _one(db, _SQL["add_document"], row)[0]
    db.execute(_SQL["add_terms"], row)


def _delete(db: apsw.Connection, kind: Kind, row: Row) -> None:
    """Remove one record with all that hangs on it."""
    if kind == "task":
        db.execute(_SQL["delete_task"], row)
        return
    _one(db, _SQL["delete_document"], row)  # terms and vectors go with it


def _mend_session(db: apsw.Connection, scope: Scope) -> None:
    """Bring a session's row in line with the messages it still has."""
    row = {"user_id": scope.user_id, "session_id": scope.session_id}
    db.execute(_SQL["recount_session"], row)
    db.execute(_SQL["drop_empty_session"], row)


def _one(db: apsw.Connection, sql: str, values: Mapping[str, Any]) -> tuple[Any, ...]:
    row = db.execute(sql, values).fetchone()
    assert row is not None
    return cast("tuple[Any, ...]", row)


def _age(record: Record) -> Any:
    match record:
        case Step():
            return record.started_at or _NOT_YET
        case Task() | Session():
            return record.started_at
        case _:
            return record.created_at
