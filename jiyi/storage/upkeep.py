"""Going through a memory of any size in bounded pieces, and changing single fields fast."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from jiyi.clock import to_micros
from jiyi.errors import BadQuery, InputError
from jiyi.records import SEARCHABLE, Kind, Message, Query, Record, Scope
from jiyi.storage.database import Database, retried
from jiyi.storage.relational.conditions import on_documents
from jiyi.storage.relational.find import Cursor, scan_records
from jiyi.storage.relational.write import put_all_back
from jiyi.storage.rows import is_storable
from jiyi.storage.words import Words

__all__ = ["Amendment", "Cursor", "Page", "Upkeep", "Words"]

_SCANNED: tuple[Kind, ...] = (*SEARCHABLE, "summary")


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


class Upkeep:
    """Scans and amends the records of a `Store` on the same database.

    Its verbs take part in the transaction of that store. All raise `StorageError` where the
    database cannot do what is asked.
    """

    def __init__(self, database: Database) -> None:
        self._db = database

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
    def targets(self, query: Query, at_least: int = 1) -> Mapping[str, int]:
        """Return how many of the query's episodes there are of each target, by `jiyi.text.entity_key`.

        Left out are targets of fewer than ``at_least``; "" counts those without a target.
        """
        with self._db.read(query.scope.user_id) as db:
            where, values = on_documents(query, db.dialect)
            rows = db.rows("count_targets", values | {"at_least": at_least}, where=where)
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
            if kind == "message" and pins:
                db.run("bump_pin_changes", {"user_id": user_id})
        return len(rows)

    @retried()
    def changes(self, scope: Scope) -> int:
        """Return a number that grows whenever a record of the user is taken out, brought back or pinned.

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
