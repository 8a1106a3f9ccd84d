"""`jiyi.storage.upkeep.Upkeep` on a `Database`."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from jiyi.errors import BadQuery
from jiyi.records import SEARCHABLE, Kind, Message, Query, Scope
from jiyi.storage.database import Database
from jiyi.storage.relational.conditions import on_documents
from jiyi.storage.relational.find import scan_records
from jiyi.storage.relational.write import put_all_back
from jiyi.storage.rows import is_storable
from jiyi.storage.upkeep import Amendment, Cursor, Page, Words

__all__ = ["SqlUpkeep"]

_SCANNED: tuple[Kind, ...] = (*SEARCHABLE, "summary")


class SqlUpkeep:
    """`jiyi.storage.upkeep.Upkeep` on the same `Database` as the store."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def scan(self, query: Query, after: Cursor | None = None, *, words: bool = False) -> Page:
        """See `Upkeep.scan`."""
        if len(query.kinds) != 1 or query.kinds[0] not in _SCANNED:
            raise BadQuery(f"scan one of {', '.join(_SCANNED)} at a time, not {', '.join(query.kinds)}")
        with self._db.read(query.scope.user_id) as db:
            records, numbers, last = scan_records(db, query.kinds[0], query, after)
            docs = {"user_id": query.scope.user_id, "docs": db.dialect.listed(numbers)}
            rows = db.rows("words_of", docs) if words and query.kinds[0] in SEARCHABLE else []
        return Page(
            records=tuple(records),
            numbers=tuple(numbers),
            next=last if len(records) == query.limit else None,
            words={id_: (length, traits, bytes(entry)) for id_, length, traits, entry in rows},
        )

    def targets(self, query: Query, at_least: int = 1) -> Mapping[str, int]:
        """See `Upkeep.targets`."""
        with self._db.read(query.scope.user_id) as db:
            where, values = on_documents(query, db.dialect)
            rows = db.rows("count_targets", values | {"at_least": at_least}, where=where)
        return {str(target): int(count) for target, count in rows}

    def amend(self, scope: Scope, kind: Kind, changes: Sequence[Amendment]) -> int:
        """See `Upkeep.amend`."""
        if kind not in SEARCHABLE:
            raise BadQuery(f"amend one of {', '.join(SEARCHABLE)}, not {kind}")
        storable = [change for change in changes if is_storable(change.id)]
        user_id = scope.user_id
        with self._db.write(user_id) as db:
            ids = db.dialect.listed([change.id for change in storable])
            docs = dict(db.rows("docs_of", {"user_id": user_id, "kind": kind, "ids": ids}))
            rows = [
                _row(change, docs[change.id]) | {"user_id": user_id}
                for change in storable
                if change.id in docs
            ]
            # A row whose pin stays is not written: that would cost more than all the rest.
            pins = [row for row in rows if row["pinned"] is not None]
            db.many("amend_pin", pins)
            db.many(f"amend_{kind}", rows)
            if kind == "message" and pins:
                db.run("bump_pin_changes", {"user_id": user_id})
        return len(rows)

    def changes(self, scope: Scope) -> int:
        """See `Upkeep.changes`."""
        with self._db.read(scope.user_id) as db:
            row = db.first("count_changes", {"user_id": scope.user_id})
        return 0 if row is None else int(row[0])

    def put_back(
        self, messages: Sequence[Message], *, words: Mapping[str, Words] | None = None
    ) -> list[Message]:
        """See `Upkeep.put_back`."""
        return cast("list[Message]", put_all_back(self._db, messages, words or {}))


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
