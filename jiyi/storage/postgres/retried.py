"""The store's verbs on a server, done again where a connection broke or writers met."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from jiyi.records import Kind, Message, Query, Record, Scope
from jiyi.storage.candidates import Candidates, Key
from jiyi.storage.postgres.database import PostgresDatabase
from jiyi.storage.relational import SqlStore, SqlTrash, SqlUpkeep
from jiyi.storage.relational.users import Snapshot
from jiyi.storage.trash import Discarded, TrashPage
from jiyi.storage.upkeep import Amendment, Cursor, Page, Words

__all__ = ["PostgresStore", "PostgresTrash", "PostgresUpkeep"]

_T = TypeVar("_T")


class PostgresStore(SqlStore):
    """`jiyi.storage.store.Store` on a `PostgresDatabase`."""

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__(database)
        self._attempt = database.attempt

    def together(self, verb: Callable[[], _T], *, repeatable: bool = False) -> _T:
        """See `Store.together`."""
        together = super().together
        return self._attempt(lambda: together(verb), repeatable=repeatable)

    def _look(self, user_id: str) -> Snapshot | None:
        look = super()._look
        return self._attempt(lambda: look(user_id))

    def put(self, records: Sequence[Record]) -> list[Record]:
        """See `Store.put`: with the same ids it is the same done twice."""
        put = super().put
        return self._attempt(lambda: put(records))

    def find(self, query: Query) -> list[Record]:
        """See `Store.find`."""
        find = super().find
        return self._attempt(lambda: find(query))

    def match(self, query: Query, near: Sequence[Key] = ()) -> Candidates:
        """See `Store.match`."""
        match = super().match
        return self._attempt(lambda: match(query, near))

    def delete(self, query: Query) -> Mapping[Kind, int]:
        """See `Store.delete`."""
        delete = super().delete
        return self._attempt(lambda: delete(query), repeatable=False)

    def count(self, query: Query) -> Mapping[str, int]:
        """See `Store.count`."""
        count = super().count
        return self._attempt(lambda: count(query))


class PostgresUpkeep(SqlUpkeep):
    """`jiyi.storage.upkeep.Upkeep` on a `PostgresDatabase`."""

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__(database)
        self._attempt = database.attempt

    def scan(self, query: Query, after: Cursor | None = None, *, words: bool = False) -> Page:
        """See `Upkeep.scan`."""
        scan = super().scan
        return self._attempt(lambda: scan(query, after, words=words))

    def targets(self, query: Query, at_least: int = 1) -> Mapping[str, int]:
        """See `Upkeep.targets`."""
        targets = super().targets
        return self._attempt(lambda: targets(query, at_least))

    def amend(self, scope: Scope, kind: Kind, changes: Sequence[Amendment]) -> int:
        """See `Upkeep.amend`."""
        amend = super().amend
        return self._attempt(lambda: amend(scope, kind, changes))

    def changes(self, scope: Scope) -> int:
        """See `Upkeep.changes`."""
        changes = super().changes
        return self._attempt(lambda: changes(scope))

    def put_back(
        self, messages: Sequence[Message], *, words: Mapping[str, Words] | None = None
    ) -> list[Message]:
        """See `Upkeep.put_back`."""
        put_back = super().put_back
        return self._attempt(lambda: put_back(messages, words=words))


class PostgresTrash(SqlTrash):
    """`jiyi.storage.trash.Trash` on a `PostgresDatabase`."""

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__(database)
        self._attempt = database.attempt

    def discard(self, scope: Scope, keys: Sequence[Key], *, reason: str, at: datetime) -> Mapping[Kind, int]:
        """See `Trash.discard`."""
        discard = super().discard
        return self._attempt(lambda: discard(scope, keys, reason=reason, at=at), repeatable=False)

    def discarded(self, query: Query) -> list[Discarded]:
        """See `Trash.discarded`."""
        discarded = super().discarded
        return self._attempt(lambda: discarded(query))

    def walk(self, query: Query, after: int = 0) -> TrashPage:
        """See `Trash.walk`."""
        walk = super().walk
        return self._attempt(lambda: walk(query, after))

    def restore(self, scope: Scope, keys: Sequence[Key]) -> list[Record]:
        """See `Trash.restore`."""
        restore = super().restore
        return self._attempt(lambda: restore(scope, keys), repeatable=False)

    def erase(
        self,
        scope: Scope | None,
        *,
        keys: Sequence[Key] | None = None,
        before: datetime | None = None,
        limit: int = 10_000,
    ) -> int:
        """See `Trash.erase`."""
        erase = super().erase
        return self._attempt(lambda: erase(scope, keys=keys, before=before, limit=limit), repeatable=False)
