"""Reading records from a database."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Generic, TypeVar, cast

from jiyi.clock import to_micros
from jiyi.errors import DatabaseDamaged
from jiyi.records import SEARCHABLE, Kind, Query, Record, Session, Step, Task
from jiyi.storage.database import Answer, Call, Connection, Dialect, grouped
from jiyi.storage.relational.conditions import kind_conditions
from jiyi.storage.relational.snapshot import Snapshot
from jiyi.storage.rows import Row, decode, is_storable
from jiyi.storage.search.candidates import Key
from jiyi.storage.search.postings import Words
from jiyi.storage.search.user_terms import HeldMessages

_Entry_co = TypeVar("_Entry_co", covariant=True)
Cursor = tuple[int, Any]
"""A place in a scan: microseconds since 1970 and a record's number, or the id of a task or session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[_Entry_co]):
    """A page of records, or of entries of the trash."""

    records: tuple[_Entry_co, ...]  # oldest first
    numbers: tuple[int, ...] = ()  # the backend's number of each; with the user, the key of its vectors
    next: Cursor | int | None  # where the next page begins; None after the last
    words: Mapping[str, Words] = field(default_factory=dict)  # by id, if they were asked for


_NO_LIMIT = 2**31 - 1
_BEGINNING = (-(2**62), "")
_AFTER = {"entry": "s.entry > :after_number", "doc": "(d.created_at, d.doc) > (:after_time, :after_number)"}


def find_records(db: Connection, query: Query) -> list[Record]:
    """Return the records that match a query: one kind after the other, each in the query's order."""
    answers = db.fetch_all([_find_call(kind, query, db.dialect) for kind in query.kinds])
    found: list[Record] = []
    for kind, answer in zip(query.kinds, answers, strict=True):
        found += _fill_page(db, kind, query, answer)
    return found


def find_by_keys(
    db: Connection, user_id: str, keys: Iterable[Key], snapshot: Snapshot | None = None
) -> dict[Key, Record]:
    """Return a user's records by their keys, without missing ones; see `Store.find_by_keys`."""
    messages = snapshot.terms.messages if snapshot and not db.in_transaction else HeldMessages(rows={})
    if messages.rows is None and snapshot:
        _hold_messages(db, user_id, messages, snapshot.terms.size)
    rows = messages.rows or {}
    held = {key: row for key in keys if key[0] == "message" and (row := rows.get(key[1]))}
    ids = grouped(dict.fromkeys(key for key in keys if key not in held))
    calls = [_ids_call(kind, user_id, kind_ids, db.dialect) for kind, kind_ids in ids.items()]
    checks_changes = bool(held) and not db.dialect.remote
    if checks_changes:
        calls.append(Call("count_changes", {"user_id": user_id}))
    answers = db.fetch_all(calls) if calls else []
    if checks_changes and snapshot and answers.pop().rows != [(snapshot.changes,)]:
        return find_by_keys(db, user_id, keys)  # something was removed or amended meanwhile
    read = dict(zip(ids, answers, strict=True))
    if "message" in read:
        messages.add(read["message"].names, read["message"].rows)
    found = [("message", Answer(messages.columns, list(held.values()))), *read.items()]
    return {(kind, r.id): r for kind, answer in found for r in _decode_answer(db, kind, answer)}


def _hold_messages(db: Connection, user_id: str, messages: HeldMessages, size: int) -> None:
    """Read the short messages of a user with few records at once: later searches need not ask for them."""
    messages.rows = {}
    if size <= messages.MAX_MESSAGES:
        short = "length(body) <= :chars"
        call = _where_call("message", user_id, db.dialect, short, chars=messages.MAX_CHARS)
        answer = db.fetch_all([call])[0]
        messages.add(answer.names, answer.rows)


def _fill_page(db: Connection, kind: Kind, query: Query, answer: Answer) -> list[Record]:
    """Return the records of an answer; in a full page other records replace damaged ones."""
    while True:
        found = _decode_answer(db, kind, answer)
        if len(found) == len(answer.rows) or len(answer.rows) < query.limit:
            return found
        ids = {record.id for record in found}
        lost = [row.get("id") for row in answer.records() if row.get("id") not in ids]
        named = tuple(str(id_) for id_ in lost if is_storable(id_) and id_ not in query.without)
        if not named:
            return found
        query = replace(query, kinds=(kind,), without=(*query.without, *named))
        answer = db.fetch_all([_find_call(kind, query, db.dialect)])[0]


def _decode_answer(db: Connection, kind: Kind, answer: Answer) -> list[Record]:
    """Return the records of an answer; damaged ones are noted and left out.

    Short messages and facts are cached by their rows, because records are frozen.
    """
    if kind not in ("message", "fact") or not answer.rows:
        return [record for record, _ in decode_rows(db, kind, answer.records())]
    names, found = tuple(answer.names), list[Record]()
    body = names.index("body")
    for row in answer.rows:
        short = isinstance(row[body], str) and len(row[body]) <= HeldMessages.MAX_CHARS
        try:
            found.append((_decode_cached if short else _decode_cached.__wrapped__)(kind, names, row))
        except DatabaseDamaged as error:
            db.damage.add(kind, dict(zip(names, row, strict=True)), error)
    return found


@lru_cache(maxsize=4_096)
def _decode_cached(kind: Kind, names: tuple[str, ...], row: tuple[Any, ...]) -> Record:
    return decode(kind, dict(zip(names, row, strict=True)))


def decode_rows(db: Connection, kind: Kind, rows: Iterable[Row]) -> Iterator[tuple[Record, Row]]:
    """Yield the records of rows, each with its row; damaged ones are noted and left out."""
    for row in rows:
        try:
            yield decode(kind, row, _steps_of(db, row) if kind == "task" else ()), row
        except DatabaseDamaged as error:
            db.damage.add(kind, row, error)


def _find_call(kind: Kind, query: Query, dialect: Dialect) -> Call:
    where, values = kind_conditions(kind, query, dialect)
    order = "DESC" if query.newest_first else "ASC"
    by = _order_by(kind, query, order, dialect.fragments["no_index"])
    return Call(f"find_{kind}", values | {"limit": query.limit}, {"where": where, "order": order, "by": by})


def _ids_call(kind: Kind, user_id: str, ids: Sequence[str], dialect: Dialect) -> Call:
    of = "document" if kind in SEARCHABLE else kind
    return _where_call(kind, user_id, dialect, dialect.fragments[f"{of}_ids"], ids=dialect.array(ids))


def _where_call(kind: Kind, user_id: str, dialect: Dialect, condition: str, **values: Any) -> Call:
    """Return the call that finds a user's records; sorting by column 2, the user, costs nothing."""
    of, kinds = ("document", [f"d.kind = '{kind}'"]) if kind in SEARCHABLE else (kind, [])
    where = " AND ".join([dialect.fragments[f"{of}_user"].format(no_index=""), *kinds, condition])
    values |= {"user_id": user_id, "limit": _NO_LIMIT}
    return Call(f"find_{kind}", values, {"where": where, "order": "ASC", "by": "2"})


def _order_by(kind: Kind, query: Query, order: str, no_index: str) -> str:
    """Return the columns to sort by; the statement adds the direction of the last one."""
    in_session = query.scope.session_id is not None
    if kind == "summary":  # those of a whole session have no agent and come first
        return "s.agent_id, s.version" if in_session else f"s.created_at {order}, s.entry"
    if kind == "session":  # with a cursor, new messages must not move sessions across pages
        return "s.last_active_at" if query.after is None else "s.started_at"
    if kind == "item":  # the newest value first, whenever it was first put
        return f"i.updated_at {order}, d.id"
    last = "d.doc" if query.after is None else "d.id"
    by = "d.seq" if kind == "message" and in_session else f"d.created_at {order}, {last}"
    # SQLite must not scan a whole index to save a sort.
    few = query.ids is not None or query.stretches is not None or query.pinned
    return f"{no_index}{by}" if few else by


def scan_records(
    db: Connection, kind: Kind, query: Query, after: Cursor | None, *, words: bool
) -> Page[Record]:
    """Return what `Store.scan` does; no summary comes before the one it builds on."""
    if kind in ("task", "session"):
        query = replace(query, after=after or _BEGINNING, newest_first=False)
        records = cast("list[Task | Session]", find_records(db, query))
        full = len(records) == query.limit
        following = (to_micros(records[-1].started_at), records[-1].id) if full else None
        return Page(records=tuple(records), next=following)
    where, values = kind_conditions(kind, query, db.dialect)
    number = "entry" if kind == "summary" else "doc"
    if after is not None:
        where += f" AND {_AFTER[number]}"
        values |= {"after_time": after[0], "after_number": after[1]}
    by = "s.entry" if kind == "summary" else "d.created_at, d.doc"
    rows = db.records(f"find_{kind}", values | {"limit": query.limit}, where=where, order="ASC", by=by)
    last = (rows[-1]["created_at"], rows[-1][number]) if len(rows) == query.limit else None
    found = list(decode_rows(db, kind, rows))
    numbers = tuple(row[number] for _, row in found)
    analysed = []
    if words and kind in SEARCHABLE:
        analysed = db.rows("read_words", {"user_id": query.scope.user_id, "docs": db.dialect.array(numbers)})
    of_ids = {id_: (length, traits, bytes(entry)) for id_, length, traits, entry in analysed}
    return Page(records=tuple(record for record, _ in found), numbers=numbers, next=last, words=of_ids)


def _steps_of(db: Connection, row: Row) -> tuple[Step, ...]:
    condition = db.dialect.fragments["step_task_id"]
    call = _where_call("step", row["user_id"], db.dialect, condition, task_id=row["id"])
    steps = decode_rows(db, "step", db.fetch_all([call])[0].records())
    return tuple(cast("Step", step) for step, _ in steps)
