"""The store on tables: rows and words in one database, the words searched from memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar, cast

from jiyi.errors import BadQuery
from jiyi.records import SEARCHABLE, Kind, Message, Query, Record, Scope
from jiyi.storage.candidates import Candidates, Key
from jiyi.storage.database import Database
from jiyi.storage.matching import candidates
from jiyi.storage.relational.conditions import on_documents, on_kind
from jiyi.storage.relational.find import find_records
from jiyi.storage.relational.users import Snapshot, hold_terms, keep_seen, look, read_allowed
from jiyi.storage.relational.write import age_of, delete_record, mend_session, prepare, put_all
from jiyi.storage.rows import kind_of

__all__ = ["SqlStore"]

_T = TypeVar("_T")


class SqlStore:
    """`jiyi.storage.store.Store` on a `Database`."""

    def __init__(self, database: Database) -> None:
        self._db = database

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """See `Store.transaction`."""
        with self._db.write():
            yield

    def together(self, verb: Callable[[], _T], *, repeatable: bool = False) -> _T:  # noqa: ARG002
        """See `Store.together`."""
        with self.transaction():
            return verb()

    @contextmanager
    def snapshot(self, user_id: str) -> Iterator[None]:
        """See `Store.snapshot`."""
        with keep_seen(self._look(user_id)):
            yield

    def _look(self, user_id: str) -> Snapshot | None:
        with self._db.read(user_id) as db:
            return None if db.in_transaction else look(self._db, db, user_id)

    def put(self, records: Sequence[Record]) -> list[Record]:
        """See `Store.put`."""
        return put_all(self._db, [prepare(record) for record in records])

    def find(self, query: Query) -> list[Record]:
        """See `Store.find`."""
        with self._db.read(query.scope.user_id) as db:
            found = find_records(db, query)
        if len(query.kinds) > 1:
            found.sort(key=age_of, reverse=query.newest_first)
        return found[: query.limit]

    def match(self, query: Query, near: Sequence[Key] = ()) -> Candidates:
        """See `Store.match`."""
        with self._db.read(query.scope.user_id) as db:
            mine = hold_terms(self._db, db, query.scope.user_id)
            allowed = read_allowed(db, query)
        return candidates(mine, query, near, allowed)

    def delete(self, query: Query) -> Mapping[Kind, int]:
        """See `Store.delete`."""
        if not set(query.kinds) <= {*SEARCHABLE, "task", "summary"}:
            raise BadQuery(
                "delete messages, episodes, knowledge, facts, tasks or summaries; "
                "sessions go with their last message"
            )
        counts: dict[Kind, int] = dict.fromkeys(query.kinds, 0)
        user_id = query.scope.user_id
        with self._db.write(user_id) as db:
            found = self.find(query)
            for record in found:
                kind = kind_of(record)
                delete_record(db, kind, {"user_id": user_id, "kind": kind, "id": record.id})
                counts[kind] += 1
            if any(counts[kind] for kind in counts if kind in SEARCHABLE):
                db.run("bump_generation", {"user_id": user_id})
            for scope in {m.scope for m in found if isinstance(m, Message)}:
                mend_session(db, cast("Scope", scope))
        return counts

    def count(self, query: Query) -> Mapping[str, int]:
        """See `Store.count`."""
        counts: dict[str, int] = dict.fromkeys((*query.kinds, "vectors_pending"), 0)
        with self._db.read(query.scope.user_id) as db:
            if set(query.kinds) & set(SEARCHABLE):
                where, values = on_documents(query, db.dialect)
                for kind, rows, pending in db.rows("count_documents", values, where=where):
                    counts[kind] = rows
                    counts["vectors_pending"] += pending
            for kind in set(query.kinds) - set(SEARCHABLE):
                where, values = on_kind(kind, query, db.dialect)
                counts[kind] = db.rows(f"count_{kind}", values, where=where)[0][0]
        return counts

    def close(self) -> None:
        """See `Store.close`."""
        self._db.close()
