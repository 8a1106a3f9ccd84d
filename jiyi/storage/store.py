"""The store: records as rows of a database, searched by their words in memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar, cast

from jiyi.clock import to_micros
from jiyi.errors import BadQuery, InputError
from jiyi.records import MAX_LIMIT, SEARCHABLE, Kind, Message, Query, Record, Scope, Session
from jiyi.storage.damage import DamagedRecord
from jiyi.storage.database import Database, retried
from jiyi.storage.relational import write
from jiyi.storage.relational.conditions import document_conditions, kind_conditions
from jiyi.storage.relational.find import Cursor, Page, find_by_keys, find_records, scan_records
from jiyi.storage.relational.snapshot import Snapshot, ensure_snapshot, read_allowed_docs, take_snapshot
from jiyi.storage.rows import is_storable
from jiyi.storage.search.candidates import Candidates, Key, Rows
from jiyi.storage.search.matching import find_candidates
from jiyi.storage.search.postings import Words
from jiyi.storage.vectors import VectorIndex

__all__ = [
    "Amendment", "Cursor", "Page", "Store", "all_messages", "all_pages", "all_records", "all_sessions",
    "read_pages",
]  # fmt: skip

_SCANNABLE_KINDS: tuple[Kind, ...] = (*SEARCHABLE, "task", "session", "summary")

_T = TypeVar("_T")
_P = TypeVar("_P")  # a page, which has ``next``


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendment:
    """New values of a record's fields other than its text; None leaves a field as it is.

    Raises `InputError` if importance or confidence is not a number from 0 to 1.
    """

    id: str
    importance: float | None = None  # of messages and episodes
    confidence: float | None = None  # of knowledge and facts
    consolidated: bool | None = None  # of episodes
    pinned: bool | None = None
    expires_at: datetime | None = None  # of items

    def __post_init__(self) -> None:
        """Check the ranges of numbers."""
        for name in ("importance", "confidence"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and 0 <= value <= 1):
                raise InputError(f"{name}={value!r} of {self.id!r} is not a number from 0 to 1")


class Store:
    """Stores records and finds them by their fields and by their words.

    Guarantees: when `put` returns, its records are on disk and searchable by text; a row and its
    text index commit together; every method sees only rows of its query's scope; several threads
    and several processes may use the same database. If the connection to a server breaks, a method
    is retried as far as that is safe.

    All methods raise `StorageError` if the database fails, and leave nothing half-written.
    """

    def __init__(self, database: Database, vectors: VectorIndex | None = None) -> None:
        """``vectors`` are told of removals and closed with the store."""
        self._db = database
        self._vectors = vectors or VectorIndex(database)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run what this thread reads and writes inside the block as one transaction.

        It sees the newest state and no other writer interferes. An exception undoes all of it.
        Blocks may be nested; the outermost commits.
        """
        with self._db.write():
            yield
        self._vectors.records_removed()

    def together(self, verb: Callable[[], _T], *, repeatable: bool = False) -> _T:
        """Call a function, which changes nothing but the store, in a `transaction` and return its result.

        If the connection to a server broke, or writers interfered, it is called again in a new
        transaction; inside another `transaction` it is called once. Unless calling it twice has the
        same effect as once (``repeatable``), it is not called again after the transaction may have
        been committed.
        """

        def once() -> _T:
            with self._db.write():
                return verb()

        done = self._db.attempt(once, repeatable=repeatable)
        self._vectors.records_removed()
        return done

    @retried()
    def snapshot(self, user_id: str) -> Snapshot:
        """Return a user's memory as it is now, for the steps of one search.

        It saves `match` and the methods of a vector index on the same database round trips to a
        server.
        """
        with self._db.read(user_id) as db:
            return take_snapshot(self._db, db, user_id)

    @retried()
    def put(self, records: Sequence[Record]) -> list[Record]:
        """Write records, all or none, and return them as stored (``seq`` filled in).

        A message or summary that is stored already is left alone and returned as stored, so that a retry is
        safe. Other records with a known id are replaced; if the text is the same, they keep their vectors.
        Sessions are kept by the store itself. A summary must follow the newest version of its session and
        agent, the one its ``previous`` names, and not end before it; what is said later comes after its
        ``upto_seq``, even if all its messages are gone.

        Raises `DuplicateId` if the id of a message or summary is taken by a different one, or a summary does
        not follow the newest version; `BadScope` if a record lacks user or, for messages, session.
        """
        return write.put_all(self._db, [write.prepare(record) for record in records])

    @retried()
    def find(self, query: Query) -> list[Record]:
        """Return records by their fields, oldest first unless ``newest_first``, at most ``limit``.

        Messages of a session come in its order (``seq``), tasks with their steps, summaries of a
        session by version, those of the whole session first. ``query.sources`` finds summaries that
        cover any of these messages.
        """
        with self._db.read(query.scope.user_id) as db:
            found = find_records(db, query)
        if len(query.kinds) > 1:
            found.sort(key=write.sort_time, reverse=query.newest_first)
        return found[: query.limit]

    @retried()
    def find_by_keys(
        self, user_id: str, keys: Sequence[Key], snapshot: Snapshot | None = None
    ) -> dict[Key, Record]:
        """Return a user's records by their keys, without missing ones.

        With a snapshot, short messages are kept with the user's rows until a record of the user is
        removed or restored, or a message amended; those of a user with few records are read at once. On a
        server these are as they were when the snapshot was taken: a look for changes is a round trip.
        """
        with self._db.read(user_id) as db:
            return find_by_keys(db, user_id, keys, snapshot)

    @retried()
    def match(
        self, query: Query, near: Sequence[Key] | Rows = (), *, snapshot: Snapshot | None = None
    ) -> Candidates:
        """Return the records that the words of ``query.text`` find, and their neighbours in conversation.

        The answer holds

        * the best ``query.limit`` records of each kind by words (BM25; any word is enough) that all
          conditions of the query allow; texts that mostly ask count apart, with the same limit,
        * the records of ``near``, which another index found, by their keys or as rows of the snapshot,
          if the conditions allow them; unknown ones are left out,
        * for the best 50 by words and the first 50 of ``near``, the messages up to two places before and
          after in the same session. They are in the query's scope, and eligible if all conditions allow them.

        The statistics of BM25 are those of all the user's records now, or when ``snapshot`` was taken.
        """
        with self._db.read(query.scope.user_id) as db:
            snapshot = ensure_snapshot(self._db, db, query.scope.user_id, snapshot)
            allowed = read_allowed_docs(db, query)
        return find_candidates(snapshot.terms, query, near, allowed)

    @retried(repeatable=False, removes=True)
    def delete(self, query: Query) -> Mapping[Kind, int]:
        """Remove what `find` would return, with its text index and vectors; return counts by kind.

        Summaries stay when their messages are removed: they may be all that is meant to be kept of them.
        """
        if not set(query.kinds) <= {*SEARCHABLE, "task", "summary"}:
            advice = "sessions go with their last message"
            raise BadQuery(f"delete messages, episodes, knowledge, facts, tasks or summaries; {advice}")
        with self._db.write(query.scope.user_id) as db:
            return dict.fromkeys(query.kinds, 0) | write.remove(db, query.scope.user_id, self.find(query))

    @retried()
    def paths(self, query: Query, after: str = "") -> list[str]:
        """Return the sorted namespaces of a query's items that come after one, as `path_of` writes them."""
        with self._db.read(query.scope.user_id) as db:
            where, values = document_conditions(query, db.dialect, ("item",))
            rows = db.rows("item_paths", values | {"after_path": after, "limit": query.limit}, where=where)
        return [str(row[0]) for row in rows]

    def damaged(self, scope: Scope, ids: Sequence[str] | None = None) -> list[DamagedRecord]:
        """Return the damaged records found so far in a scope, only those with these ``ids`` if given."""
        return self._db.damage.in_scope(scope, ids)

    def notes(self, scope: Scope) -> tuple[str, ...]:
        """Return a line that says how many damaged records a scope has; nothing if it has none."""
        return self._db.damage.notes(scope)

    @retried(repeatable=False)
    def drop_damaged(self, scope: Scope, ids: Sequence[str] | None = None) -> list[DamagedRecord]:
        """Remove the `damaged` records permanently and return them."""
        lost = self.damaged(scope, ids)
        if lost:
            with self._db.write(scope.user_id) as db:
                write.drop_damaged(db, scope.user_id, lost)
        return lost

    @retried()
    def count(self, query: Query) -> Mapping[str, int]:
        """Return how many records of each kind match the query, and the ``vectors_pending`` of all."""
        counts: dict[str, int] = dict.fromkeys((*query.kinds, "vectors_pending"), 0)
        with self._db.read(query.scope.user_id) as db:
            if set(query.kinds) & set(SEARCHABLE):
                where, values = document_conditions(query, db.dialect)
                for kind, rows, pending in db.rows("count_documents", values, where=where):
                    counts[kind] = rows
                    counts["vectors_pending"] += pending
            for kind in set(query.kinds) - set(SEARCHABLE):
                where, values = kind_conditions(kind, query, db.dialect)
                counts[kind] = db.rows(f"count_{kind}", values, where=where)[0][0]
        return counts

    @retried()
    def scan(self, query: Query, after: Cursor | None = None, *, words: bool = False) -> Page[Record]:
        """Return the next ``query.limit`` records of one kind, oldest first; summaries in the order stored.

        ``words`` asks for the analysed words of searchable records, too. Records that exist during
        the whole scan are returned exactly once, whatever is added, changed or removed between two
        pages. Raises `BadQuery` for several kinds, or steps.
        """
        if len(query.kinds) != 1 or query.kinds[0] not in _SCANNABLE_KINDS:
            raise BadQuery(
                f"scan one of {', '.join(_SCANNABLE_KINDS)} at a time, not {', '.join(query.kinds)}"
            )
        with self._db.read(query.scope.user_id) as db:
            return scan_records(db, query.kinds[0], query, after, words=words)

    @retried()
    def targets(self, query: Query) -> Mapping[str, int]:
        """Return the number of the query's episodes by the entity key of their target, "" for none."""
        with self._db.read(query.scope.user_id) as db:
            where, values = document_conditions(query, db.dialect)
            rows = db.rows("count_targets", values, where=where)
        return {str(target): int(count) for target, count in rows}

    @retried()
    def amend(self, scope: Scope, kind: Kind, changes: Sequence[Amendment]) -> int:
        """Change fields of records in one transaction and return how many; unknown ids are ignored."""
        if kind not in SEARCHABLE:
            raise BadQuery(f"amend one of {', '.join(SEARCHABLE)}, not {kind}")
        storable = [change for change in changes if is_storable(change.id)]
        user_id = scope.user_id
        with self._db.write(user_id) as db:
            ids = db.dialect.array([change.id for change in storable])
            docs = dict(db.rows("docs_of_ids", {"user_id": user_id, "kind": kind, "ids": ids}))
            rows: list[dict[str, Any]] = []
            for change in storable:
                if change.id in docs:
                    own = {"user_id": user_id, "doc": docs[change.id]}
                    ends = change.expires_at and to_micros(change.expires_at)
                    rows.append(asdict(change) | own | {"expires_at": ends})
            # Rows whose pin stays are not written: that would cost more than everything else.
            db.run_many("amend_pin", [row for row in rows if row["pinned"] is not None])
            db.run_many(f"amend_{kind}", rows)
            if kind == "message" and rows:
                db.run("bump_pin_changes", {"user_id": user_id})
        return len(rows)

    @retried()
    def changes(self, scope: Scope) -> int:
        """Return a number that grows when a record of the user is removed or restored, or a message amended.

        It is cheap to read and tells whether cached records are out of date.
        """
        rows = self._db.fetch("count_changes", {"user_id": scope.user_id})
        return int(rows[0][0]) if rows else 0

    @retried(repeatable=False)
    def put_back(
        self, records: Sequence[Record], *, words: Mapping[str, Words] | None = None
    ) -> list[Record]:
        """Write records that were stored before, all or none, and return them as stored.

        Messages return to their places, or to the end of their session; see `Trash.restore`, also for the
        summaries that are dropped. A task comes with its steps; a summary need not follow the newest.
        ``words``, by id, are what `scan` of another store returned for messages, not to analyse them again.

        Raises `DuplicateId` if another record has the id, `BadScope` if a message lacks user or session.
        """
        known = words or {}
        prepared = [write.prepare(record, known.get(record.id)) for record in records]
        return write.put_all(self._db, prepared, back=True)

    def close(self) -> None:
        """Close the database. Closing twice is fine; using it afterwards raises `Closed`."""
        self._db.close()
        self._vectors.close()


def all_records(store: Store, query: Query) -> Iterator[Record]:
    """Yield the records of one kind in the order of `Store.scan`, reading ``query.limit`` at a time."""
    for page in all_pages(store, query):
        yield from page.records


def all_pages(store: Store, query: Query, *, words: bool = False) -> Iterator[Page[Record]]:
    """Yield the pages that `Store.scan` returns one after the other."""
    return read_pages(partial(store.scan, query, words=words))


def read_pages(read: Callable[..., _P]) -> Iterator[_P]:
    """Yield all pages; ``read`` gets as ``after`` the ``next`` of the page before, None for the first."""
    page: Any = read(after=None)
    yield page
    while page.next is not None:
        page = read(after=page.next)
        yield page


def all_sessions(store: Store, scope: Scope) -> dict[str, datetime]:
    """Return the ids of the sessions in a scope, each with the date of its first message."""
    sessions = all_records(store, Query(scope=scope, kinds=("session",), limit=MAX_LIMIT))
    return {session.id: session.started_at for session in cast("Iterator[Session]", sessions)}


def all_messages(store: Store, scope: Scope, limit: int, **query: Any) -> Iterator[Message]:
    """Yield the messages of a session that `Query` selects, in their order, reading ``limit`` at a time."""
    after = None
    while True:
        page = Query(scope=scope, kinds=("message",), after_seq=after, limit=limit, **query)
        messages = cast("list[Message]", store.find(page))
        yield from messages
        if len(messages) < limit:
            return
        after = messages[-1].seq
