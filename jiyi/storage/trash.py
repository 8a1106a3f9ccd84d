"""The trash: records that were removed and can be restored."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from jiyi.clock import to_micros
from jiyi.errors import BadQuery, DatabaseDamaged, StorageError
from jiyi.records import FORGETTABLE, Kind, Query, Record, Scope
from jiyi.storage.database import Connection, Database, Dialect, batched, grouped, retried
from jiyi.storage.relational.conditions import Where
from jiyi.storage.relational.find import Page, find_by_keys
from jiyi.storage.relational.write import prepare, put_records, remove
from jiyi.storage.rows import Row, decode_discarded, encode, encode_json, is_storable, kind_of
from jiyi.storage.search.candidates import Key
from jiyi.storage.vectors import VectorIndex

__all__ = ["Discarded", "Trash", "decode_entries", "key_of"]

_FAR_FUTURE = 2**62  # microseconds
_OVERWRITE_PENDING = "bytes_to_overwrite"  # a name in the table meta

_log = logging.getLogger("jiyi")


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded:
    """A record in the trash."""

    record: Record
    kind: Kind
    reason: str  # why it was removed
    discarded_at: datetime


def key_of(item: Record | Discarded) -> Key:
    """Return kind and id of a record or of an entry of the trash."""
    record = item.record if isinstance(item, Discarded) else item
    return kind_of(record), record.id


class Trash:
    """Moves records to the trash, restores them or drops them permanently.

    No search and no listing finds what is in the trash. Its methods take part in the
    transaction of the store on the same database. All raise `StorageError` if the database fails.
    """

    def __init__(self, database: Database, vectors: VectorIndex | None = None) -> None:
        """``vectors`` are told of removals and scrubbed too."""
        self._db = database
        self._vectors = vectors or VectorIndex(database)

    @retried(repeatable=False, removes=True)
    def discard(self, scope: Scope, keys: Sequence[Key], *, reason: str, at: datetime) -> Mapping[Kind, int]:
        """Move records of a user to the trash, all or none; return counts by kind. Unknown keys are ignored.

        Their text index and vectors are dropped. Kinds are those of `jiyi.records.FORGETTABLE`.
        """
        if other := {kind for kind, _ in keys} - set(FORGETTABLE):
            problem = f"{', '.join(sorted(other))} cannot be taken out"
            raise BadQuery(f"{problem}; there are {', '.join(FORGETTABLE)}")
        counts = Counter[Kind]()
        user_id = scope.user_id
        # Lone surrogates and zero bytes cannot be stored on every backend.
        storable = reason.encode(errors="replace").decode().replace("\0", "\ufffd")
        with self._db.write(user_id) as db:
            for kind, ids in _batches(keys):
                values = {"user_id": user_id, "kind": kind, "ids": db.dialect.array(ids)}
                docs: Mapping[str, int] = dict(db.rows("docs_of_ids", values))
                records = find_by_keys(db, user_id, [(kind, id_) for id_ in ids]).values()
                found = sorted(records, key=lambda record: (docs.get(record.id, 0), record.id))
                entries = [Discarded(record=r, kind=kind, reason=storable, discarded_at=at) for r in found]
                _write_entries(db, user_id, entries, docs)
                counts.update(remove(db, user_id, found))
        return dict(counts)

    @retried()
    def put(self, user_id: str, entries: Sequence[Discarded]) -> None:
        """Write a user's entries that were in a trash before; they replace those of the same records."""
        with self._db.write(user_id) as db:
            _write_entries(db, user_id, entries, {})

    @retried()
    def discarded(self, query: Query) -> list[Discarded]:
        """Return entries of the trash, newest first.

        Of the query scope, kinds, ids and limit apply, and ``since`` and ``until`` to the time of removal.
        """
        with self._db.read(query.scope.user_id) as db:
            where, values = _conditions(query, db.dialect).build()
            by = "t.discarded_at DESC, t.kind, t.id"
            rows = db.records("find_trash", values | {"limit": query.limit}, where=where, by=by)
            return [entry for entry, _ in decode_entries(db, rows)]

    @retried()
    def walk(self, query: Query, after: int | None = None) -> Page[Discarded]:
        """Return the next ``query.limit`` entries of the trash; the query as for `discarded`.

        No other entry is skipped when some are added or removed between two pages.
        """
        with self._db.read(query.scope.user_id) as db:
            conditions = _conditions(query, db.dialect)
            conditions.add("t.entry > :after", after=after or 0, limit=query.limit)
            where, values = conditions.build()
            rows = db.records("find_trash", values, where=where, by="t.entry")
            entries = tuple(entry for entry, _ in decode_entries(db, rows))
        return Page(records=entries, next=rows[-1]["entry"] if len(rows) == query.limit else None)

    @retried(repeatable=False)
    def restore(self, scope: Scope, keys: Sequence[Key]) -> list[Record]:
        """Restore records as they were, all or none, with vectors pending. Unknown keys are ignored.

        A message returns to its place in its session, or to the end if the place is taken; one that exists
        again with the same content stays. A summary that spans its place but does not cover it is dropped
        with all later versions, so that the message is folded in again (system and pinned messages are in no
        summary). Raises `DuplicateId` if another record has the id by now.
        """
        taken: dict[Key, tuple[Record, Row]] = {}
        with self._db.write(scope.user_id) as db:
            for kind, ids in _batches(keys):
                values = {"user_id": scope.user_id, "kind": kind, "ids": db.dialect.array(ids)}
                for entry, row in decode_entries(db, db.records("take_trash", values)):
                    taken[kind, row["id"]] = entry.record, prepare(entry.record)[1] | {"doc": row["doc"]}
            in_order = [taken[key] for key in dict.fromkeys(keys) if key in taken]
            # Messages that are put at the end of their session keep their order.
            in_order.sort(key=lambda item: getattr(item[0], "seq", None) or 0)
            restored = put_records(db, in_order, back=True)
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
        """Drop entries of the trash permanently, at most ``limit``; return how many.

        ``keys`` limits them to these records, ``before`` to those removed before.
        """
        with self._db.write(scope.user_id) as db:
            conditions = _conditions(Query(scope=scope, kinds=FORGETTABLE, until=before), db.dialect)
            if keys is not None:
                ids, among = _by_kind(keys), db.dialect.fragments["among"]
                parts = [f"t.kind = '{kind}' AND t.id {among.format(f':ids_{kind}')}" for kind in ids]
                of_kinds = {f"ids_{kind}": of_kind for kind, of_kind in ids.items()}
                conditions.add(f"({' OR '.join([db.dialect.fragments['no'], *parts])})", **of_kinds)
            where, values = conditions.build()
            if before is None:  # stored answers may hold the same words
                db.run("drop_answers", {"user_id": scope.user_id, "before": _FAR_FUTURE})
            return len(db.rows("erase_trash", values | {"limit": limit}, where=where))

    def check_alone(self) -> None:
        """Check that `scrub` can run now; to be called before the removals that `scrub` completes.

        Until then nothing that is written goes to temporary files. Raises as `scrub` does.
        """
        self._db.check_alone()
        self._vectors.check_alone()

    def scrub(self) -> bool:
        """Overwrite what dropped records left on disk, as far as possible; return whether nothing is left.

        A file has no byte of them left. A server marks their space as free, to be overwritten in time; its
        log, replicas and backups keep what they hold. Raises `DatabaseLocked` while another process reads,
        and `WrongState` inside a transaction.
        """
        gone = self._vectors.scrub()  # first, because the database knows what to remove there
        self._db.scrub()
        if not self._db.overwrites:
            return False
        if self.overwrite_pending:
            self._db.execute("drop_meta", {"name": _OVERWRITE_PENDING})
        return gone

    def mark_overwrite_pending(self) -> None:
        """Note, in the transaction that drops records, that `finish_overwrite` has work to do."""
        if self._db.overwrites:
            self._db.execute("set_meta", {"name": _OVERWRITE_PENDING, "value": "1"})

    @property
    def overwrite_pending(self) -> bool:
        """Whether bytes of an interrupted purge are still to be overwritten."""
        return self._db.overwrites and bool(self._db.fetch("get_meta", {"name": _OVERWRITE_PENDING}))

    def finish_overwrite(self) -> bool:
        """Overwrite what an interrupted purge left, or log why not; return whether nothing is left."""
        try:
            if self.overwrite_pending:
                self.scrub()
        except StorageError as error:
            _log.warning("old bytes of a purge are not overwritten yet: %s", error)
            return False
        return True


def _write_entries(
    db: Connection, user_id: str, entries: Sequence[Discarded], docs: Mapping[str, int]
) -> None:
    """Write entries, with the numbers of their records by id."""
    rows: list[Row] = []
    for entry in entries:
        removal = {"discarded_at": to_micros(entry.discarded_at), "reason": entry.reason}
        row = encode(entry.record) | removal | {"kind": entry.kind, "doc": docs.get(entry.record.id)}
        rows.append(row | {"body": encode_json(entry.record)})
    if rows:
        first = db.take_numbers(user_id, len(rows))
        db.run_many("put_trash", [row | {"entry": number} for number, row in enumerate(rows, first)])


def _by_kind(keys: Sequence[Key]) -> dict[Kind, list[str]]:
    """Return the ids that the trash may hold, by kind."""
    found = grouped(key for key in dict.fromkeys(keys) if is_storable(key[1]))
    return {kind: found[kind] for kind in FORGETTABLE if kind in found}


def _batches(keys: Sequence[Key]) -> Iterator[tuple[Kind, Sequence[str]]]:
    return ((kind, batch) for kind, ids in _by_kind(keys).items() for batch in batched(ids))


def decode_entries(db: Connection, rows: Iterable[Row]) -> Iterator[tuple[Discarded, Row]]:
    """Yield the entries of rows, each with its row; damaged ones are noted and left out."""
    for row in rows:
        try:
            record, at = decode_discarded(row)
        except DatabaseDamaged as error:
            db.damage.add(row["kind"], {**row, "doc": None}, error)
        else:
            yield Discarded(record=record, kind=row["kind"], reason=row["reason"], discarded_at=at), row


def _conditions(query: Query, dialect: Dialect) -> Where:
    where = Where("trash", query, dialect)
    where.add_from_query("kinds", "agent_id", "session_id", "ids", "since", "until")
    return where
