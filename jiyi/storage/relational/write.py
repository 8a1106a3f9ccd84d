"""Writing and removing records inside a transaction."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, cast

from jiyi.errors import BadQuery, BadScope, DuplicateId, NotFound
from jiyi.records import SEARCHABLE, Kind, Message, Record, Scope, Session, Step, Summary, Task
from jiyi.storage.damage import DamagedRecord
from jiyi.storage.database import Connection, Database, grouped
from jiyi.storage.relational.find import find_by_keys
from jiyi.storage.rows import Row, encode, kind_of
from jiyi.storage.search.postings import Words, encode_terms

__all__ = ["drop_damaged", "prepare", "put_all", "put_records", "remove", "sort_time"]

_Prepared = tuple[Record, Row]
"""A record and its columns."""

_FUTURE = datetime.max.replace(tzinfo=UTC)
_TIMES = {"step": "started_at", "task": "started_at", "session": "started_at", "item": "updated_at"}


def prepare(record: Record, words: Words | None = None) -> _Prepared:
    """Check the scope, encode the columns and analyse the text unless ``words`` has it; needs no lock."""
    if isinstance(record, Session):
        raise BadQuery("sessions are kept by the store; put their messages")
    if record.scope is None or (isinstance(record, Message) and record.scope.session_id is None):
        raise BadScope("a message needs a scope with user_id and session_id to be stored")
    row = encode(record)
    if isinstance(record, Message):
        row |= {"kind": "message", **encode_terms(record, words)}
    return record, row


def put_all(database: Database, prepared: Sequence[_Prepared], *, back: bool = False) -> list[Record]:
    """Write records of any users, all or none; see `put_records`."""
    places = grouped((row["user_id"], place) for place, (_, row) in enumerate(prepared))
    if len(places) == 1:
        with database.write(next(iter(places))) as db:
            return put_records(db, prepared, back=back)
    written: dict[int, Record] = {}
    with database.write():
        for user_id in sorted(places):  # in the same order everywhere, to avoid deadlocks
            with database.write(user_id) as db:
                records = put_records(db, [prepared[place] for place in places[user_id]], back=back)
            written |= dict(zip(places[user_id], records, strict=True))
    return [written[place] for place in range(len(prepared))]


def put_records(db: Connection, prepared: Sequence[_Prepared], *, back: bool = False) -> list[Record]:
    """Write a user's records as `Store.put` does, or ``back`` as `Store.put_back`, under the same number."""
    stored: list[Record] = []
    for kind, items in groupby(prepared, lambda item: kind_of(item[0])):
        run = list(items)
        if kind == "message":
            stored += _put_messages(db, run, back=back)
            continue
        known: dict[str, Record] = {}
        if back or kind in SEARCHABLE:
            known = _find_known(db, kind, run[0][1]["user_id"], [row["id"] for _, row in run])
        if back and known:
            raise _id_reused(kind, next(iter(known)))
        if kind not in SEARCHABLE:
            stored += [_put_other(db, record, row, back=back) for record, row in run]
            continue
        for record, row in run:
            _put_document(db, kind, record, row, known.get(row["id"]))
            known[row["id"]] = record
            stored.append(record)
    return stored


def _put_other(db: Connection, record: Record, row: Row, *, back: bool) -> Record:
    if isinstance(record, Step):
        return _put_step(db, record, row)
    if isinstance(record, Summary):
        return (_add_summary if back else _put_summary)(db, record, row)
    db.run("add_owner", {"user_id": row["user_id"]})  # a user may have nothing but a task
    db.run("put_task", row)
    if back:
        put_records(db, [prepare(step) for step in cast("Task", record).steps])
    return record


def _put_messages(db: Connection, prepared: Sequence[_Prepared], *, back: bool) -> list[Record]:
    """Write a user's unknown messages at the end of their sessions, or ``back`` at their places."""
    known = _find_known(db, "message", prepared[0][1]["user_id"], [row["id"] for _, row in prepared])
    new: dict[str, Row] = {}
    for record, row in prepared:
        message = cast("Message", record)
        if row["id"] not in known:
            known[row["id"]], new[row["id"]] = message, row
            row["seq"] = message.seq
            continue
        stored = cast("Message", known[row["id"]])
        if stored.scope == message.scope and stored.to_dict() == json.loads(row["body"]):
            continue
        if back:
            raise _id_reused("message", message.id)
        scope = cast("Scope", stored.scope)
        other = f"a different message of {scope.user_id!r} (session {scope.session_id!r})"
        raise DuplicateId(f"message id {message.id!r} is taken by {other}; leave the id out to get a new one")
    for rows in grouped((row["session_id"], row) for row in new.values()).values():
        (_return_to_session if back else _append_to_session)(db, rows)
    _add_documents(db, "message", list(new.values()))
    for id_, row in new.items():
        known[id_] = replace(cast("Message", known[id_]), id=id_, seq=row["seq"])
    return [known[row["id"]] for _, row in prepared]


def _find_known(db: Connection, kind: Kind, user_id: str, ids: Sequence[str]) -> dict[str, Record]:
    found = find_by_keys(db, user_id, [(kind, id_) for id_ in ids])
    lost = [record for record in db.damage.in_scope(Scope(user_id=user_id), ids) if record.kind == kind]
    drop_damaged(db, user_id, lost)  # they are about to be written again
    return {id_: record for (_, id_), record in found.items()}


def drop_damaged(db: Connection, user_id: str, lost: Sequence[DamagedRecord]) -> None:
    """Remove the rows of damaged records by number, because their ids may be damaged, too."""
    if not lost:
        return
    without_number = [(record.kind, record.id) for record in lost if record.kind in ("task", "summary")]
    _delete_rows(db, user_id, grouped(without_number))
    docs = [record.number for record in lost if record.number is not None and record.kind in SEARCHABLE]
    db.run("delete_docs", {"user_id": user_id, "docs": db.dialect.array(docs)})
    _update_sessions(db, user_id, (record.session_id for record in lost if record.kind == "message"))
    db.run("bump_generation", {"user_id": user_id})
    db.damage.forget(lost)


def _append_to_session(db: Connection, rows: Sequence[Row]) -> None:
    """Assign new messages of one session the places at its end."""
    values = _session_extent(rows)
    first = db.first("extend_session", values)
    if first is None:
        # A session whose messages were all removed may still have a summary: it continues after that.
        first = (db.number("seq_after_summaries", values),)
        db.run("begin_session", values | {"next_seq": first[0] + len(rows)})
    for seq, row in enumerate(rows, first[0]):
        row["seq"] = seq


def _session_extent(rows: Sequence[Row]) -> Row:
    times = [row["created_at"] for row in rows]
    return rows[0] | {"first_at": min(times), "last_at": max(times), "count": len(rows)}


def _add_documents(db: Connection, kind: Kind, rows: Sequence[Row]) -> None:
    """Insert documents of one user, with new numbers unless they have one."""
    new = [row for row in rows if row.get("doc") is None]
    if new:
        first = db.take_numbers(new[0]["user_id"], len(new))
        for place, row in enumerate(new):
            row["doc"] = first + place
    if rows:
        db.add_documents(kind, rows)


def _return_to_session(db: Connection, rows: Sequence[Row]) -> None:
    """Assign messages of one session their own places, or places at its end if those are taken."""
    values = _session_extent(rows)
    wanted = db.dialect.array([row["seq"] for row in rows if row["seq"] is not None])
    taken = {seq for (seq,) in db.rows("taken_places", values | {"places": wanted})}
    summarised = db.number("seq_after_summaries", values)
    session = db.first("next_place", values)
    next_seq = session[0] if session else summarised
    for row in rows:
        if row["seq"] is None or row["seq"] in taken:
            row["seq"] = next_seq
        taken.add(row["seq"])
        next_seq = max(next_seq, row["seq"] + 1)
    db.run("return_to_session" if session else "begin_session", values | {"next_seq": next_seq})
    for row in rows:
        if row["seq"] < summarised and row["role"] != "system" and not row["pinned"]:
            db.run("drop_summaries_without", row)


def _id_reused(kind: Kind, id_: str) -> DuplicateId:
    return DuplicateId(f"{kind} id {id_!r} was given again meanwhile; take that {kind} out first")


def _put_document(db: Connection, kind: Kind, record: Record, row: Row, known: Record | None) -> None:
    row |= {"kind": kind, "role": None, "seq": None}
    old, new = cast("Any", known), cast("Any", record)
    if known and old.search_text == new.search_text:
        row["doc"] = db.number("change_document", row)
        if (old.scope, old.created_at) != (new.scope, new.created_at):
            db.run("bump_generation", row)  # cached rows hold these columns
        db.run(f"put_{kind}", row)
        if "sources" in row:
            db.run("drop_sources", row)
    else:
        # Another text is a new document, so that no vector of the old text can be stored for it.
        if known:
            remove(db, row["user_id"], [known])
        row |= encode_terms(new)
        _add_documents(db, kind, [row])
    db.run_many("add_source", [row | {"source": source} for source in row.get("sources", ())])


def _put_step(db: Connection, step: Step, row: Row) -> Step:
    if db.first("has_task", row) is None:
        advice = "put the task before its steps"
        raise NotFound(f"no task {step.task_id!r} of user {step.scope.user_id!r}; {advice}")
    stored = db.first("put_step", row | {"seq": db.number("next_step", row)})
    if stored is None:
        raise DuplicateId(f"step id {step.id!r} is taken by a step of another task; leave the id out")
    return replace(step, seq=stored[0])


def _put_summary(db: Connection, summary: Summary, row: Row) -> Summary:
    known = _find_known(db, "summary", row["user_id"], [summary.id]).get(summary.id)
    if known:
        if known != summary:
            raise DuplicateId(f"summary id {summary.id!r} is taken by another summary; leave the id out")
        return summary
    newest, version, upto_seq = db.first("get_summary_head", row) or (None, 0, 0)
    if (summary.previous, summary.version) != (newest, version + 1) or summary.upto_seq < upto_seq:
        raise DuplicateId(
            f"version {summary.version} of the summary of session {row['session_id']!r} does not go on "
            f"from version {version}, the newest there is; read that and fold into it"
        )
    return _add_summary(db, summary, row)


def _add_summary(db: Connection, summary: Summary, row: Row) -> Summary:
    entry = db.number("add_summary", row | {"entry": db.take_numbers(row["user_id"], 1)})
    covered = {"user_id": row["user_id"], "entry": entry}
    db.run_many("add_covered", [covered | {"message": id_} for id_ in summary.covers])
    db.run("move_session_past", row)
    return summary


def remove(db: Connection, user_id: str, records: Collection[Record]) -> dict[Kind, int]:
    """Remove a user's records with all dependent rows; return their counts by kind."""
    ids = grouped((kind_of(record), record.id) for record in records)
    _delete_rows(db, user_id, ids)
    _update_sessions(db, user_id, [m.scope.session_id for m in records if isinstance(m, Message) and m.scope])
    if any(kind in SEARCHABLE for kind in ids):
        db.run("bump_generation", {"user_id": user_id})
    return {kind: len(of_kind) for kind, of_kind in ids.items()}


def _delete_rows(db: Connection, user_id: str, ids: Mapping[Kind, Sequence[str]]) -> None:
    for kind, of_kind in ids.items():
        values = {"user_id": user_id, "kind": kind, "ids": db.dialect.array(of_kind)}
        db.run({"task": "delete_tasks", "summary": "delete_summaries"}.get(kind, "delete_documents"), values)


def _update_sessions(db: Connection, user_id: str, ids: Iterable[str | None]) -> None:
    """Update the rows of sessions to the messages they still have."""
    for session_id in dict.fromkeys(ids):
        row = {"user_id": user_id, "session_id": session_id}
        messages, started_at, last_active_at = db.first("session_extent", row) or (0, 0, 0)
        more = {"messages": messages, "started_at": started_at, "last_active_at": last_active_at}
        db.run("set_session" if messages else "drop_session", row | more)


def sort_time(record: Record) -> Any:
    """Return the time that lists are sorted by; steps that have not started are the newest."""
    return getattr(record, _TIMES.get(kind_of(record), "created_at")) or _FUTURE
