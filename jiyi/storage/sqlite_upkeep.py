"""`jiyi.storage.upkeep.Upkeep` on a `SqliteDatabase`."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from jiyi.errors import BadQuery
from jiyi.records import SEARCHABLE, Kind, Message, Query, Scope
from jiyi.storage.rows import is_storable
from jiyi.storage.sql import load_queries
from jiyi.storage.sqlite_conditions import on_documents
from jiyi.storage.sqlite_database import SqliteDatabase
from jiyi.storage.sqlite_find import scan_records
from jiyi.storage.sqlite_write import put_back
from jiyi.storage.upkeep import Amendment, Cursor, Page

__all__ = ["SqliteUpkeep"]

_SQL = load_queries("sqlite")
_SCANNED: tuple[Kind, ...] = (*SEARCHABLE, "summary")


class SqliteUpkeep:
    """`jiyi.storage.upkeep.Upkeep` on the same `SqliteDatabase` as the store."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._db = database

    def scan(self, query: Query, after: Cursor | None = None) -> Page:
        """See `Upkeep.scan`."""
        if len(query.kinds) != 1 or query.kinds[0] not in _SCANNED:
            raise BadQuery(f"scan one of {', '.join(_SCANNED)} at a time, not {', '.join(query.kinds)}")
        with self._db.read() as db:
            records, last = scan_records(db, query.kinds[0], query, after)
        return Page(records=tuple(records), next=last if len(records) == query.limit else None)

    def targets(self, query: Query, at_least: int = 1) -> Mapping[str, int]:
        """See `Upkeep.targets`."""
        where, values = on_documents(query)
        with self._db.read() as db:
            rows = db.execute(_SQL["count_targets"].format(where=where), values | {"at_least": at_least})
            return {str(target): int(count) for target, count in rows}

    def amend(self, scope: Scope, kind: Kind, changes: Sequence[Amendment]) -> int:
        """See `Upkeep.amend`."""
        if kind not in SEARCHABLE:
            raise BadQuery(f"amend one of {', '.join(SEARCHABLE)}, not {kind}")
        storable = [change for change in changes if is_storable(change.id)]
        with self._db.write() as db:
            ids = json.dumps([change.id for change in storable], ensure_ascii=False)
            values = {"user_id": scope.user_id, "kind": kind, "ids": ids}
            docs = dict(cast("Iterable[tuple[str, int]]", db.execute(_SQL["docs_of"], values)))
            rows = [_row(change, docs[change.id]) for change in storable if change.id in docs]
            # A row whose pin stays is not written: that would cost more than all the rest.
            pins = [row for row in rows if row["pinned"] is not None]
            db.executemany(_SQL["amend_pin"], pins)
            db.executemany(_SQL[f"amend_{kind}"], rows)
            if kind == "message" and pins:
                db.execute(_SQL["bump_pin_changes"], {"user_id": scope.user_id})
        return len(rows)

    def changes(self, scope: Scope) -> int:
        """See `Upkeep.changes`."""
        with self._db.read() as db:
            row = db.execute(_SQL["count_changes"], {"user_id": scope.user_id}).fetchone()
        return 0 if row is None else int(row[0])

    def put_back(self, messages: Sequence[Message]) -> list[Message]:
        """See `Upkeep.put_back`."""
        with self._db.write() as db:
            return [cast("Message", put_back(db, message, None)) for message in messages]


def _row(change: Amendment, doc: int) -> dict[str, Any]:
    return {
        "doc": doc,
        "importance": change.importance,
        "confidence": change.confidence,
        "consolidated": _number(change.consolidated),
        "pinned": _number(change.pinned),
    }


def _number(flag: bool | None) -> int | None:
    return None if flag is None else int(flag)
