"""The store: records as rows of a database, searched by their words from memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar, cast

from jiyi.clock import to_micros
from jiyi.errors import BadQuery, InputError
from jiyi.records import SEARCHABLE, Kind, Message, Query, Record, Scope
from jiyi.storage.candidates import Candidates, Key, Rows
from jiyi.storage.damage import DamagedRecord
from jiyi.storage.database import Database, retried
from jiyi.storage.matching import find_candidates
from jiyi.storage.relational.conditions import on_documents, on_kind
from jiyi.storage.relational.find import Cursor, find_named, find_records, scan_records
from jiyi.storage.relational.users import Snapshot, look, read_allowed, seen_or_look
from jiyi.storage.relational.write import age_of, drop_damaged, prepare, put_all, put_all_back, remove
from jiyi.storage.rows import is_storable, kind_of
from jiyi.storage.vectors import VectorIndex
from jiyi.storage.words import Words

__all__ = ["Amendment", "Cursor", "Page", "Store"]

_SCANNED: tuple[Kind, ...] = (*SEARCHABLE, "summary")

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A piece of a scan."""

    records: tuple[Record, ...]  # oldest first
    numbers: tuple[int, ...]  # the backend's own number of each; with the user, the key of its vectors
    next: Cursor | None  # where the next piece begins; None after the last
    words: Mapping[str, Words] = field(default_factory=dict)  # by id, where they were asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendment:
    """New values of a record's fields other than its words; None leaves a field as it is.

    Raises:
        InputError: importance or confidence is not a number from 0 to 1.
    """

    id: str
    importance: float | None = None  # of messages and episodes
    confidence: float | None = None  # of knowledge and facts
    consolidated: bool | None = None  # of episodes
    pinned: bool | None = None
    expires_at: datetime | None = None  # of items

    def __post_init__(self) -> None:
        """Refuse what no record may hold."""
        for name in ("importance", "confidence"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and 0 <= value <= 1):
                raise InputError(f"{name}={value!r} of {self.id!r} is not a number from 0 to 1")


class Store:
    """Keeps records and finds them by their fields and by their words.

    Guarantees: what `put` returned for is on disk and searchable by text; a row and its
    text index commit together; every verb sees only rows of its query's scope; safe to
    call from several threads, and several processes may hold the same database. Where the
    connection to a server breaks, a verb is done again as far as that is safe.

    All verbs raise `StorageError` where the database cannot do what is asked; nothing
    half-written remains then.
    """

    def __init__(self, database: Database, vectors: VectorIndex | None = None) -> None:
        """``vectors`` are told of removals and closed with the store, where they are kept elsewhere."""
        self._db = database
        self._vectors = vectors or VectorIndex(database)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make what this thread reads and writes inside the block one atomic change.

        Readers inside see the newest state and no other writer comes between. An
        exception undoes all of it. Blocks may be nested; the outermost commits.
        """
        with self._db.write():
            yield
        self._vectors.records_removed()

    def together(self, verb: Callable[[], _T], *, repeatable: bool = False) -> _T:
        """Do several things in a `transaction` and return what the last gave.

        Where the connection to a server broke, or writers met, all of it is done again in a new
        one; inside another `transaction` it is done once.

        Args:
            verb: what to do; it changes nothing but the store.
            repeatable: doing it twice is the same as doing it once. Else it is not done again
                where it is not known whether it was.
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

        Given to `match` and to the verbs of a vector index on the same database, it spares them
        asking again who the user is and what is new, which costs round trips to a server.
        """
        with self._db.read(user_id) as db:
            return look(self._db, db, user_id)

    @retried()
    def put(self, records: Sequence[Record]) -> list[Record]:
        """Write records, all or none, and return them as stored (``seq`` filled in).

        A message whose id is taken by an equal message is left alone and returned as
        stored, so that a retry is safe; so is a summary. Tasks, steps, episodes, knowledge,
        facts and items of a known id are replaced; where the words stay the same, so do the vectors.
        Sessions are kept by the store itself and cannot be put.

        A summary goes in on top of the newest version there is of its session and agent only,
        the one its ``previous`` names, and covers no less. What is said later in the session
        comes after its ``upto_seq``, also where all its messages are gone.

        Raises:
            DuplicateId: a message's or summary's id is taken by a different one, or a summary
                does not go on from the newest version.
            BadScope: a record lacks the scope it needs (messages need a session).
        """
        return put_all(self._db, [prepare(record) for record in records])

    @retried()
    def find(self, query: Query) -> list[Record]:
        """Return records by their fields, oldest first unless ``newest_first``, at most ``limit``.

        Messages come in the order of their session (``seq``); tasks come with their steps.
        Summaries of a session come by version, those of the whole session before those of its
        agents. ``query.sources`` finds those that cover any of these messages.
        """
        with self._db.read(query.scope.user_id) as db:
            found = find_records(db, query)
        if len(query.kinds) > 1:
            found.sort(key=age_of, reverse=query.newest_first)
        return found[: query.limit]

    @retried()
    def named(self, user_id: str, keys: Sequence[Key], seen: Snapshot | None = None) -> dict[Key, Record]:
        """Return a user's records by their keys, without those that are not there.

        Short messages that were read with ``seen``, a `snapshot` of theirs, and with earlier ones are not
        read again until one is taken out, brought back or amended.
        """
        with self._db.read(user_id) as db:
            return find_named(db, user_id, keys, seen)

    @retried()
    def match(
        self, query: Query, near: Sequence[Key] | Rows = (), *, seen: Snapshot | None = None
    ) -> Candidates:
        """Return what the words of ``query.text`` find, and its neighbours in conversation.

        The answer holds

        * the best ``query.limit`` records of each kind by words (BM25; any word is enough)
          that all conditions of the query allow,
        * the records of ``near``, which another index found, by their keys or as rows of ``seen``,
          as far as the conditions allow them; unknown ones are left out,
        * of the best 100 by words and the first 100 of ``near``, the messages of the same
          session that were said up to two places before and after. They lie in the query's
          scope; where another of its conditions does not allow them, they are not eligible.

        A text without a searchable word finds nothing by words. The statistics of BM25 are
        those of all the user's records now, or when ``seen``, a `snapshot`, was taken.
        """
        with self._db.read(query.scope.user_id) as db:
            seen = seen_or_look(self._db, db, query.scope.user_id, seen)
            allowed = read_allowed(db, query)
        return find_candidates(seen.terms, query, near, allowed)

    @retried(repeatable=False, removes=True)
    def delete(self, query: Query) -> Mapping[Kind, int]:
        """Remove what `find` would return, with its text index and vectors; return counts by kind.

        A summary does not go with its messages: it may be all that is meant to stay of them.
        """
        if not set(query.kinds) <= {*SEARCHABLE, "task", "summary"}:
            raise BadQuery(
                "delete messages, episodes, knowledge, facts, tasks or summaries; "
                "sessions go with their last message"
            )
        with self._db.write(query.scope.user_id) as db:
            found = self.find(query)
            sessions = [m.scope.session_id for m in found if isinstance(m, Message) and m.scope]
            keys = [(kind_of(record), record.id) for record in found]
            return dict.fromkeys(query.kinds, 0) | remove(db, query.scope.user_id, keys, sessions)

    @retried()
    def paths(self, query: Query, after: str = "") -> list[str]:
        """Return the namespaces of a query's items that follow on one, as `path_of` writes them, in order."""
        with self._db.read(query.scope.user_id) as db:
            where, values = on_documents(query, db.dialect, ("item",))
            rows = db.rows("item_paths", values | {"after_path": after, "limit": query.limit}, where=where)
        return [str(row[0]) for row in rows]

    def damaged(self, scope: Scope, ids: Sequence[str] | None = None) -> list[DamagedRecord]:
        """Return the damaged records that reading met in a scope so far; ``ids`` narrows."""
        return self._db.damage.in_scope(scope, ids)

    def notes(self, scope: Scope) -> tuple[str, ...]:
        """Return what a reader of a scope should know of damaged records: nothing, or one line."""
        return self._db.damage.notes(scope)

    @retried(repeatable=False)
    def drop_damaged(self, scope: Scope, ids: Sequence[str] | None = None) -> list[DamagedRecord]:
        """Remove what `damaged` returns, for good, and return it."""
        lost = self.damaged(scope, ids)
        if lost:
            with self._db.write(scope.user_id) as db:
                drop_damaged(db, scope.user_id, lost)
        return lost

    @retried()
    def count(self, query: Query) -> Mapping[str, int]:
        """Return how many records of each kind lie in the scope, and ``vectors_pending``."""
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

    @retried()
    def scan(self, query: Query, after: Cursor | None = None, *, words: bool = False) -> Page:
        """Return the next ``query.limit`` records of one kind, oldest first; summaries as they were stored.

        ``words`` asks for the analysed words of searchable records, too.

        What is added, changed or taken out between two pieces moves no other record out of
        sight: each one that is there throughout is seen exactly once.

        Raises:
            BadQuery: the query names several kinds, or one that is neither searchable nor "summary".
        """
        if len(query.kinds) != 1 or query.kinds[0] not in _SCANNED:
            raise BadQuery(f"scan one of {', '.join(_SCANNED)} at a time, not {', '.join(query.kinds)}")
        with self._db.read(query.scope.user_id) as db:
            records, numbers, last = scan_records(db, query.kinds[0], query, after)
            docs = {"user_id": query.scope.user_id, "docs": db.dialect.listed(numbers)}
            rows = db.rows("words_of", docs) if words and query.kinds[0] in SEARCHABLE else []
        return Page(
            records=tuple(records),
            numbers=tuple(numbers),
            next=last,
            words={id_: (length, traits, bytes(entry)) for id_, length, traits, entry in rows},
        )

    @retried()
    def targets(self, query: Query) -> Mapping[str, int]:
        """Return how many of the query's episodes there are of each target, by `jiyi.text.entity_key`.

        "" counts those without a target.
        """
        with self._db.read(query.scope.user_id) as db:
            where, values = on_documents(query, db.dialect)
            rows = db.rows("count_targets", values, where=where)
        return {str(target): int(count) for target, count in rows}

    @retried()
    def amend(self, scope: Scope, kind: Kind, changes: Sequence[Amendment]) -> int:
        """Change fields of records in one transaction, their words and vectors untouched; return how many.

        Ids that are not there are passed over.
        """
        if kind not in SEARCHABLE:
            raise BadQuery(f"amend one of {', '.join(SEARCHABLE)}, not {kind}")
        storable = [change for change in changes if is_storable(change.id)]
        user_id = scope.user_id
        with self._db.write(user_id) as db:
            ids = db.dialect.listed([change.id for change in storable])
            docs = dict(db.rows("docs_of", {"user_id": user_id, "kind": kind, "ids": ids}))
            rows: list[dict[str, Any]] = [
                {
                    "user_id": user_id,
                    "doc": docs[change.id],
                    "importance": change.importance,
                    "confidence": change.confidence,
                    "consolidated": None if change.consolidated is None else int(change.consolidated),
                    "pinned": None if change.pinned is None else int(change.pinned),
                    "expires_at": change.expires_at and to_micros(change.expires_at),
                }
                for change in storable
                if change.id in docs
            ]
            # A row whose pin stays is not written: that would cost more than all the rest.
            pins = [row for row in rows if row["pinned"] is not None]
            db.many("amend_pin", pins)
            db.many(f"amend_{kind}", rows)
            if kind == "message" and rows:
                db.run("bump_pin_changes", {"user_id": user_id})
        return len(rows)

    @retried()
    def changes(self, scope: Scope) -> int:
        """Return a number that grows when a record of the user is taken out or back, or a message amended.

        Cheap: for noticing that what is held in memory is out of date.
        """
        rows = self._db.ask("count_changes", {"user_id": scope.user_id})
        return int(rows[0][0]) if rows else 0

    @retried()
    def put_back(
        self, messages: Sequence[Message], *, words: Mapping[str, Words] | None = None
    ) -> list[Message]:
        """Write messages that were stored before at the places they say, all or none; return them as stored.

        A message whose place in its session is taken, or that says none, goes to the end of it.
        One that is there already with the same words stays as it is. Summaries that do not know
        a message go as `Trash.restore` says. ``words``, by id, are what `scan` gave of the same
        messages elsewhere: those are not analysed again.

        Raises:
            DuplicateId: another message has the id.
            BadScope: a message lacks user or session.
        """
        return cast("list[Message]", put_all_back(self._db, messages, words or {}))

    def close(self) -> None:
        """Release the database. Closing twice is fine; using it afterwards raises `Closed`."""
        self._db.close()
        self._vectors.close()
