"""What was taken out and can still be brought back."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from jiyi.clock import to_micros, utc_from_micros
from jiyi.errors import BadQuery, DatabaseDamaged, StorageError
from jiyi.records import FORGETTABLE, Kind, Query, Record, Scope
from jiyi.storage.candidates import Key
from jiyi.storage.database import Connection, Database, Dialect, grouped, retried
from jiyi.storage.relational.conditions import Where, on_kind
from jiyi.storage.relational.find import whole
from jiyi.storage.relational.write import put_back, remove
from jiyi.storage.rows import (
    DECODE_ERRORS,
    Row,
    is_storable,
    kind_of,
    record_from_json,
    record_to_json,
    row_checksum,
)
from jiyi.storage.vectors import VectorIndex

__all__ = ["Discarded", "Trash", "TrashPage", "key_of", "whole_entries"]

_PIECE = 1_000  # records read at once
_KEPT = ("user_id", "id", "doc", "agent_id", "session_id")  # beside the body; a task has no number
_EVER = 2**62  # microseconds: later than all
_OWED = "bytes_to_overwrite"  # among the figures of the whole database

_log = logging.getLogger("jiyi")


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded:
    """A record in the trash."""

    record: Record
    kind: Kind
    reason: str  # why it was taken out
    discarded_at: datetime


def key_of(item: Record | Discarded) -> Key:
    """Return kind and id of a record, or of one in the trash."""
    record = item.record if isinstance(item, Discarded) else item
    return kind_of(record), record.id


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashPage:
    """A piece of a walk through the trash."""

    entries: tuple[Discarded, ...]
    next: int | None  # where the next piece begins; None after the last


class Trash:
    """Takes records out of a memory, keeps them apart, brings them back or drops them for good.

    What lies in the trash is found by no search and no listing. Its verbs take part in the
    transaction of the store that shares their database. All raise `StorageError` where the
    database cannot do what is asked.
    """

    def __init__(self, database: Database, vectors: VectorIndex | None = None) -> None:
        """``vectors`` are told of removals, and scrubbed too, where they are kept elsewhere."""
        self._db = database
        self._vectors = vectors or VectorIndex(database)

    @retried(repeatable=False, removes=True)
    def discard(self, scope: Scope, keys: Sequence[Key], *, reason: str, at: datetime) -> Mapping[Kind, int]:
        """Take records of a user out, all or none, with their text index and vectors; return counts by kind.

        Kinds are messages, episodes, knowledge, facts, items and tasks (with their steps). Keys that
        are not there are passed over.
        """
        odd = {kind for kind, _ in keys} - set(FORGETTABLE)
        if odd:
            raise BadQuery(
                f"{', '.join(sorted(odd))} cannot be taken out; there are {', '.join(FORGETTABLE)}"
            )
        counts = Counter[Kind]()
        user_id = scope.user_id
        # Neither half a surrogate pair nor a zero byte can be stored everywhere.
        storable = reason.encode(errors="replace").decode().replace("\0", "\ufffd")
        taken = {"discarded_at": to_micros(at), "reason": storable}
        with self._db.write(user_id) as db:
            for kind, found in _find(db, scope, keys):
                rows = [row for _, row in found]
                first = db.take_numbers(user_id, len(rows))
                out = [
                    {name: row.get(name) for name in _KEPT}
                    | taken
                    | {"entry": first + place, "kind": kind, "body": record_to_json(record)}
                    for place, (record, row) in enumerate(found)
                ]
                db.many("put_trash", out)
                sessions = [row["session_id"] for row in rows] if kind == "message" else []
                counts.update(remove(db, user_id, [(kind, row["id"]) for row in rows], sessions))
        return dict(counts)

    @retried()
    def discarded(self, query: Query) -> list[Discarded]:
        """Return what lies in the trash, newest first.

        Of the query count scope, kinds, ids, limit, and ``since`` and ``until`` as bounds of
        the moment it was taken out.
        """
        with self._db.read(query.scope.user_id) as db:
            where, values = _on_query(query, db.dialect).done()
            by = "t.discarded_at DESC, t.kind, t.id"
            rows = db.records("find_trash", values | {"limit": query.limit}, where=where, by=by)
            return [entry for entry, _ in whole_entries(db, rows)]

    @retried()
    def walk(self, query: Query, after: int = 0) -> TrashPage:
        """Return the next ``query.limit`` records in the trash, for going through all of them.

        The query counts as for `discarded`. What is put in or taken out between two pieces
        moves no other record out of sight.
        """
        with self._db.read(query.scope.user_id) as db:
            found = _on_query(query, db.dialect)
            found.add("t.entry > :after", after=after, limit=query.limit)
            where, values = found.done()
            rows = db.records("find_trash", values, where=where, by="t.entry")
            entries = tuple(entry for entry, _ in whole_entries(db, rows))
        return TrashPage(entries=entries, next=rows[-1]["entry"] if len(rows) == query.limit else None)

    @retried(repeatable=False)
    def restore(self, scope: Scope, keys: Sequence[Key]) -> list[Record]:
        """Bring records back as they were, all or none; vectors follow as pending.

        A message returns to its place in its session, or to the end where other messages
        were said at that place meanwhile. A message that is there again with the same words
        stays as it is. Keys that are not in the trash are passed over.

        Where a summary speaks of a message's place but never took it in, that version goes and
        all that build on it, so that the message is folded in again. System and pinned messages,
        which are in no summary, take none.

        Raises:
            DuplicateId: another record has the id by now.
        """
        with self._db.write(scope.user_id) as db:
            # Those that go to the end of their session keep their order.
            taken = sorted(_take(db, scope, keys), key=lambda one: getattr(one[0], "seq", None) or 0)
            restored = put_back(db, taken)
            if restored:
                db.run("bump_generation", {"user_id": scope.user_id})
        return restored

    @retried(repeatable=False)
    def erase(
        self,
        scope: Scope,
        *,
        keys: Sequence[Key] | None = None,
        before: datetime | None = None,
        limit: int = 10_000,
    ) -> int:
        """Drop records from the trash for good, at most ``limit`` at once; return how many.

        ``keys`` and ``before`` (taken out before) narrow.
        """
        with self._db.write(scope.user_id) as db:
            found = _on_query(Query(scope=scope, kinds=FORGETTABLE, until=before), db.dialect)
            if keys is not None:
                ids, among = _by_kind(keys), db.dialect.words["among"]
                parts = [f"t.kind = '{kind}' AND t.id {among.format(f':ids_{kind}')}" for kind in ids]
                of_kinds = {f"ids_{kind}": of_kind for kind, of_kind in ids.items()}
                found.add(f"({' OR '.join([db.dialect.words['no'], *parts])})", **of_kinds)
            where, values = found.done()
            if before is None:  # what was answered may hold the same words
                db.run("drop_answers", {"user_id": scope.user_id, "before": _EVER})
            return len(db.rows("erase_trash", values | {"limit": limit}, where=where))

    def check_alone(self) -> None:
        """Make sure that `scrub` could do its work now; call it before what `scrub` is to complete.

        Nothing changes; what is written until then leaves nothing in temporary files. Raises
        as `scrub` does.
        """
        self._db.check_alone()
        self._vectors.check_alone()

    def scrub(self) -> bool:
        """Overwrite whatever dropped records left behind on disk, as far as the database can.

        Returns:
            Whether no byte of them is there any more: True of a file. A server frees their room for
            others, who overwrite it in time; its log, replicas and backups keep what they hold.

        Raises:
            DatabaseLocked: another process is reading; call again when it is done.
            WrongState: called inside a transaction.
        """
        gone = self._vectors.scrub()  # first, for the database knows what is to go there
        self._db.scrub()
        if not self._db.overwrites:
            return False
        if self.owed:
            self._db.tell("drop_meta", {"name": _OWED})
        return gone

    def owe(self) -> None:
        """Mark, in the transaction that drops records, that their bytes are still to be overwritten.

        Whoever opens the database after a purge that was cut short sees it and finishes the work.
        """
        if self._db.overwrites:
            self._db.tell("set_meta", {"name": _OWED, "value": "1"})

    @property
    def owed(self) -> bool:
        """Whether bytes of a purge that was cut short are still to be overwritten."""
        return self._db.overwrites and bool(self._db.ask("get_meta", {"name": _OWED}))

    def finish(self) -> bool:
        """Overwrite what a purge that was cut short left; return whether none is left.

        Where it cannot be done now, such as while another process reads, the log says so.
        """
        try:
            if self.owed:
                self.scrub()
        except StorageError as error:
            _log.warning("old bytes of a purge are not overwritten yet: %s", error)
            return False
        return True


def _take(db: Connection, scope: Scope, keys: Sequence[Key]) -> list[tuple[Record, int | None]]:
    """Take records out of the trash, in the order of the keys, each with the number it had."""
    taken: dict[Key, tuple[Record, int | None]] = {}
    for kind, ids in _pieces(keys):
        values = {"user_id": scope.user_id, "kind": kind, "ids": db.dialect.listed(ids)}
        entries = whole_entries(db, db.records("take_trash", values))
        taken |= {(kind, row["id"]): (entry.record, row["doc"]) for entry, row in entries}
    return [taken[key] for key in dict.fromkeys(keys) if key in taken]


def _find(
    db: Connection, scope: Scope, keys: Sequence[Key]
) -> Iterator[tuple[Kind, list[tuple[Record, Row]]]]:
    """Give the records of keys in pieces, tasks with their steps, each with its row."""
    user, by = Scope(user_id=scope.user_id), f"{db.dialect.words['aside']}d.doc"
    for kind, ids in _pieces(keys):
        query = Query(scope=user, kinds=(kind,), ids=tuple(ids), limit=_PIECE)
        where, values = on_kind(kind, query, db.dialect)
        rows = db.records(f"find_{kind}", values | {"limit": _PIECE}, where=where, order="ASC", by=by)
        found = list(whole(db, kind, rows))
        if found:
            yield kind, found


def _by_kind(keys: Sequence[Key]) -> dict[Kind, list[str]]:
    """Return the ids of what can be in the trash."""
    found = grouped(key for key in dict.fromkeys(keys) if is_storable(key[1]))
    return {kind: found[kind] for kind in FORGETTABLE if kind in found}


def _pieces(keys: Sequence[Key]) -> Iterator[tuple[Kind, list[str]]]:
    for kind, ids in _by_kind(keys).items():
        yield from ((kind, ids[start : start + _PIECE]) for start in range(0, len(ids), _PIECE))


def whole_entries(db: Connection, rows: Iterable[Row]) -> Iterator[tuple[Discarded, Row]]:
    """Give the entries of rows, each with its row; those that are damaged are noted and left out."""
    for row in rows:
        try:
            if "crc" in row and row["crc"] != row_checksum("trash", row):
                raise DatabaseDamaged("its checksum is another")
            record, at = record_from_json(row["kind"], row["body"]), utc_from_micros(row["discarded_at"])
        except (DatabaseDamaged, *DECODE_ERRORS) as error:
            db.damage.add(row["kind"], {**row, "doc": None}, error)
        else:
            yield Discarded(record=record, kind=row["kind"], reason=row["reason"], discarded_at=at), row


def _on_query(query: Query, dialect: Dialect) -> Where:
    where = Where("trash", query, dialect)
    where.ask("kinds", "agent_id", "session_id", "ids", "since", "until")
    return where
