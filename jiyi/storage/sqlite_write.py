"""Records into rows of a SQLite file, and out of it: what every writing verb does inside its transaction."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import apsw

from jiyi.errors import BadQuery, BadScope, DuplicateId, NotFound
from jiyi.records import Kind, Message, Query, Record, Scope, Searchable, Session, Step, Summary, Task
from jiyi.storage.rows import Row, encode, encode_terms, kind_of
from jiyi.storage.sql import load_queries
from jiyi.storage.sqlite_find import find_records

__all__ = [
    "age_of",
    "delete_record",
    "delete_records",
    "mend_session",
    "one_row",
    "prepare",
    "put_back",
    "put_prepared",
]

_SQL = load_queries("sqlite")
_NOT_YET = datetime.max.replace(tzinfo=UTC)  # a step to come is the newest


def prepare(record: Record) -> tuple[Record, Row]:
    """Do what needs no lock: check the scope, make the columns, analyse the words."""
    if isinstance(record, Session):
        raise BadQuery("sessions are kept by the store; put their messages")
    if record.scope is None or (isinstance(record, Message) and record.scope.session_id is None):
        raise BadScope("a message needs a scope with user_id and session_id to be stored")
    row = encode(record)
    if isinstance(record, Message):
        row |= _index_row(record)
    return record, row


def _index_row(record: Searchable) -> Row:
    """Return the columns by which search finds a record."""
    return encode_terms(record) | {"vector_state": "pending" if record.search_text.strip() else "none"}


def put_prepared(db: apsw.Connection, record: Record, row: Row) -> Record:
    """Write one record with its columns from `prepare`; see `Store.put`."""
    match record:
        case Message():
            return _put_message(db, record, row)
        case Task():
            db.execute(_SQL["put_task"], row)
            return record
        case Step():
            return _put_step(db, record, row)
        case Summary():
            return _put_summary(db, record, row)
        case _:
            return _put_document(db, record, row)


def _put_message(db: apsw.Connection, message: Message, row: Row) -> Message:
    scope = cast("Scope", message.scope)
    known = find_records(
        db, "message", Query(scope=Scope(user_id=scope.user_id), kinds=("message",), ids=(row["id"],))
    )
    if known:
        stored = cast("Message", known[0])
        if not _is_same(stored, message, row):
            raise DuplicateId(
                f"message id {message.id!r} is taken by a different message of {scope.user_id!r} "
                f"(session {stored.scope and stored.scope.session_id!r}); leave the id out to get a new one"
            )
        return stored
    row["seq"] = one_row(db, _SQL["enter_session"], row)[0]
    row["kind"] = "message"
    _add_document(db, row)
    db.execute(_SQL["put_message"], row)
    return replace(message, id=row["id"], seq=row["seq"])


def _is_same(stored: Message, message: Message, row: Row) -> bool:
    return stored.scope == message.scope and stored.to_openai() == json.loads(row["body"])


def put_back(db: apsw.Connection, record: Record, doc: int | None) -> Record:
    """Write a record that was stored before, under its old number if that is known.

    A message returns to the place it says, or goes to the end of its session where that is taken.
    One that is there again with the same words stays as it is.

    Raises:
        DuplicateId: another record has its id by now.
    """
    kind, bare = kind_of(record), replace(record, steps=()) if isinstance(record, Task) else record
    _, row = prepare(bare)
    known = find_records(
        db, kind, Query(scope=Scope(user_id=row["user_id"]), kinds=(kind,), ids=(record.id,))
    )
    if known:
        if isinstance(record, Message) and _is_same(cast("Message", known[0]), record, row):
            return known[0]
        raise DuplicateId(f"{kind} id {record.id!r} was given anew meanwhile; take that {kind} out first")
    if isinstance(record, Message):
        return _put_message_back(db, record, row, doc)
    put_prepared(db, bare, row | {"doc": doc})
    for step in record.steps if isinstance(record, Task) else ():
        put_prepared(db, *prepare(step))
    return record


def _put_message_back(db: apsw.Connection, message: Message, row: Row, doc: int | None) -> Message:
    place = row | {"seq": message.seq, "doc": doc, "kind": "message"}
    if message.seq is None or db.execute(_SQL["place_taken"], place).fetchone():
        return cast("Message", put_prepared(db, message, row))
    db.execute(_SQL["return_to_session"], place)
    _add_document(db, place)
    db.execute(_SQL["put_message"], place)
    if message.role != "system" and not message.pinned:  # those are in no summary
        db.execute(_SQL["drop_summaries_without"], place)
    return message


def _put_document(db: apsw.Connection, record: Record, row: Row) -> Record:
    kind = kind_of(record)
    row |= {"kind": kind, "seq": None}
    known = find_records(
        db, kind, Query(scope=Scope(user_id=row["user_id"]), kinds=(kind,), ids=(row["id"],))
    )
    if known and cast("Any", known[0]).search_text == cast("Any", record).search_text:
        row["doc"] = one_row(db, _SQL["change_document"], row)[0]
        if (known[0].scope, age_of(known[0])) != (record.scope, age_of(record)):
            db.execute(_SQL["bump_generation"], row)  # rows in memory carry these
    else:
        # Other words are another document: a vector made of the old ones cannot land on it.
        if known:
            delete_record(db, kind, row)
            db.execute(_SQL["bump_generation"], row)
        row |= _index_row(cast("Searchable", record))
        _add_document(db, row)
    db.execute(_SQL[f"put_{kind}"], row)
    _put_sources(db, row)
    return record


def _put_sources(db: apsw.Connection, row: Row) -> None:
    if "sources" in row:
        db.execute(_SQL["drop_sources"], row)
        db.executemany(_SQL["add_source"], ({**row, "source": source} for source in row["sources"]))


def _put_step(db: apsw.Connection, step: Step, row: Row) -> Step:
    if db.execute(_SQL["has_task"], row).fetchone() is None:
        raise NotFound(
            f"no task {step.task_id!r} of user {step.scope.user_id!r}; put the task before its steps"
        )
    stored = db.execute(_SQL["put_step"], row).fetchone()
    if stored is None:
        raise DuplicateId(f"step id {step.id!r} is taken by a step of another task; leave the id out")
    return replace(step, seq=stored[0])


def _put_summary(db: apsw.Connection, summary: Summary, row: Row) -> Summary:
    known = find_records(
        db, "summary", Query(scope=Scope(user_id=row["user_id"]), kinds=("summary",), ids=(summary.id,))
    )
    if known:
        if known[0] != summary:
            raise DuplicateId(f"summary id {summary.id!r} is taken by another summary; leave the id out")
        return summary
    head = db.execute(_SQL["get_summary_head"], row).fetchone()
    newest, version, upto_seq = cast("tuple[str | None, int, int]", head or (None, 0, 0))
    if (summary.previous, summary.version) != (newest, version + 1) or summary.upto_seq < upto_seq:
        raise DuplicateId(
            f"version {summary.version} of the summary of session {row['session_id']!r} does not go on from "
            f"version {version}, the newest there is; read that and fold into it"
        )
    db.execute(_SQL["add_owner"], row)
    row["entry"] = one_row(db, _SQL["add_summary"], row)[0]
    db.execute(_SQL["add_covered"], row)
    db.execute(_SQL["go_on_behind_summary"], row)
    return summary


def _add_document(db: apsw.Connection, row: Row) -> None:
    db.execute(_SQL["add_owner"], row)
    row.setdefault("doc", None)  # None: a new number
    row["doc"] = one_row(db, _SQL["add_document"], row)[0]
    db.execute(_SQL["add_terms"], row)


def delete_record(db: apsw.Connection, kind: Kind, row: Row) -> None:
    """Remove one record with all that hangs on it."""
    if kind in ("task", "summary"):
        db.execute(_SQL[f"delete_{kind}"], row)
        return
    one_row(db, _SQL["delete_document"], row)  # terms and vectors go with it


def delete_records(db: apsw.Connection, kind: Kind, user_id: str, ids: Sequence[str]) -> None:
    """Remove records of one kind with all that hangs on them."""
    values = {"user_id": user_id, "kind": kind, "ids": json.dumps(ids, ensure_ascii=False)}
    db.execute(_SQL["delete_tasks" if kind == "task" else "delete_documents"], values)


def mend_session(db: apsw.Connection, scope: Scope) -> None:
    """Bring a session's row in line with the messages it still has."""
    row = {"user_id": scope.user_id, "session_id": scope.session_id}
    db.execute(_SQL["recount_session"], row)
    db.execute(_SQL["drop_empty_session"], row)


def one_row(db: apsw.Connection, sql: str, values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the row of a statement that always has one."""
    row = db.execute(sql, values).fetchone()
    assert row is not None
    return cast("tuple[Any, ...]", row)


def age_of(record: Record) -> Any:
    """Return the moment that lists are sorted by."""
    match record:
        case Step():
            return record.started_at or _NOT_YET
        case Task() | Session():
            return record.started_at
        case _:
            return record.created_at
