"""The default store: one SQLite file, its words searched from memory."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import cast

from jiyi.errors import BadQuery
from jiyi.records import SEARCHABLE, Kind, Message, Query, Record, Scope
from jiyi.storage.candidates import Candidates, Key
from jiyi.storage.matching import candidates
from jiyi.storage.rows import kind_of
from jiyi.storage.sql import load_queries
from jiyi.storage.sqlite_conditions import on_documents, on_kind
from jiyi.storage.sqlite_database import SqliteDatabase
from jiyi.storage.sqlite_find import find_records
from jiyi.storage.sqlite_users import hold_terms, read_allowed
from jiyi.storage.sqlite_write import age_of, delete_record, mend_session, one_row, prepare, put_prepared

__all__ = ["SqliteStore"]

_SQL = load_queries("sqlite")


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
        prepared = [prepare(record) for record in records]
        with self._db.write() as db:
            return [put_prepared(db, record, row) for record, row in prepared]

    def find(self, query: Query) -> list[Record]:
        """See `Store.find`."""
        with self._db.read() as db:
            found = [record for kind in query.kinds for record in find_records(db, kind, query)]
        if len(query.kinds) > 1:
            found.sort(key=age_of, reverse=query.newest_first)
        return found[: query.limit]

    def match(self, query: Query, near: Sequence[Key] = ()) -> Candidates:
        """See `Store.match`."""
        with self._db.read() as db:
            mine = hold_terms(self._db, db, query.scope.user_id)
            return candidates(mine, query, near, read_allowed(db, query))

    def delete(self, query: Query) -> Mapping[Kind, int]:
        """See `Store.delete`."""
        if not set(query.kinds) <= {*SEARCHABLE, "task", "summary"}:
            raise BadQuery(
                "delete messages, episodes, knowledge, facts, tasks or summaries; "
                "sessions go with their last message"
            )
        counts: dict[Kind, int] = dict.fromkeys(query.kinds, 0)
        with self._db.write() as db:
            found = self.find(query)
            for record in found:
                kind = kind_of(record)
                delete_record(db, kind, {"user_id": query.scope.user_id, "kind": kind, "id": record.id})
                counts[kind] += 1
            if any(counts[kind] for kind in counts if kind in SEARCHABLE):
                db.execute(_SQL["bump_generation"], {"user_id": query.scope.user_id})
            for scope in {m.scope for m in found if isinstance(m, Message)}:
                mend_session(db, cast("Scope", scope))
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
                counts[kind] = one_row(db, _SQL[f"count_{kind}"].format(where=where), values)[0]
        return counts

    def close(self) -> None:
        """See `Store.close`."""
        self._db.close()
