"""The store: records as rows of a database, searched by their words from memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from jiyi.errors import BadQuery
from jiyi.records import SEARCHABLE, Kind, Message, Query, Record, Scope
from jiyi.storage.candidates import Candidates, Key, Rows
from jiyi.storage.damage import Damaged
from jiyi.storage.database import Database, retried
from jiyi.storage.matching import candidates
from jiyi.storage.relational.conditions import on_documents, on_kind
from jiyi.storage.relational.find import find_named, find_records
from jiyi.storage.relational.users import Snapshot, look, read_allowed, seen_or_look
from jiyi.storage.relational.write import age_of, drop_damaged, prepare, put_all, remove
from jiyi.storage.rows import kind_of
from jiyi.storage.vectors import VectorIndex

__all__ = ["Store"]

_T = TypeVar("_T")


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
    def named(self, user_id: str, keys: Sequence[Key]) -> dict[Key, Record]:
        """Return a user's records by their keys, without those that are not there."""
        with self._db.read(user_id) as db:
            return find_named(db, user_id, keys)

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
        those of all the user's records at this moment, or at that of ``seen``, a `snapshot`.
        """
        with self._db.read(query.scope.user_id) as db:
            seen = seen_or_look(self._db, db, query.scope.user_id, seen)
            allowed = read_allowed(db, query)
        return candidates(seen.terms, query, near, allowed)

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

    def damaged(self, scope: Scope, ids: Sequence[str] | None = None) -> list[Damaged]:
        """Return the damaged records that reading met in a scope so far; ``ids`` narrows."""
        return self._db.damage.of(scope, ids)

    def notes(self, scope: Scope) -> tuple[str, ...]:
        """Return what a reader of a scope should know of damaged records: nothing, or one line."""
        return self._db.damage.notes(scope)

    @retried(repeatable=False)
    def drop_damaged(self, scope: Scope, ids: Sequence[str] | None = None) -> list[Damaged]:
        """Remove for good what `damaged` returns, which nobody can bring back; return it."""
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

    def close(self) -> None:
        """Release the database. Closing twice is fine; using it afterwards raises `Closed`."""
        self._db.close()
        self._vectors.close()
