"""What was taken out and can still be brought back: the protocol every backend follows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from jiyi.records import Kind, Query, Record, Scope
from jiyi.storage.candidates import Key

__all__ = ["Discarded", "Trash", "TrashPage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded:
    """A record in the trash."""

    record: Record
    kind: Kind
    reason: str  # why it was taken out
    discarded_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashPage:
    """A piece of a walk through the trash."""

    entries: tuple[Discarded, ...]
    next: int | None  # where the next piece begins; None behind the last


class Trash(Protocol):
    """Takes records out of a memory, keeps them apart, brings them back or drops them for good.

    What lies in the trash is found by no search and no listing. Its verbs take part in the
    transaction of the store that shares their database. All raise `StorageError` where the
    database cannot do what is asked.
    """

    def discard(self, scope: Scope, keys: Sequence[Key], *, reason: str, at: datetime) -> Mapping[Kind, int]:
        """Take records of a user out, all or none, with their text index and vectors; return counts by kind.

        Kinds are messages, episodes, knowledge, facts and tasks (with their steps). Keys that
        are not there are passed over.
        """
        ...

    def discarded(self, query: Query) -> list[Discarded]:
        """Return what lies in the trash, newest first.

        Of the query count scope, kinds, ids, limit, and ``since`` and ``until`` as bounds of
        the moment it was taken out.
        """
        ...

    def walk(self, query: Query, after: int = 0) -> TrashPage:
        """Return the next ``query.limit`` records in the trash, for going through all of them.

        The query counts as for `discarded`. What is put in or taken out between two pieces
        moves no other record out of sight.
        """
        ...

    def restore(self, scope: Scope, keys: Sequence[Key]) -> list[Record]:
        """Bring records back as they were, all or none; vectors follow as pending.

        A message returns to its place in its session, or to the end where other messages
        were said at that place meanwhile. A message that is there again with the same words
        stays as it is. Keys that are not in the trash are passed over.

        Where a summary speaks of a message's place but never took it in, that version goes and
        all that build on it, so that the message is folded in anew. System and pinned messages,
        which are in no summary, take none.

        Raises:
            DuplicateId: another record has the id by now.
        """
        ...

    def erase(
        self,
        scope: Scope | None,
        *,
        keys: Sequence[Key] | None = None,
        before: datetime | None = None,
        limit: int = 10_000,
    ) -> int:
        """Drop records from the trash for good, at most ``limit`` at once; return how many.

        ``keys`` and ``before`` (taken out before) narrow; a scope of None means every user,
        for whoever looks after the database.
        """
        ...

    def check_alone(self) -> None:
        """Make sure that `scrub` could do its work now; call it before what `scrub` is to complete.

        Nothing changes; what is written until then leaves nothing in temporary files. Raises
        as `scrub` does.
        """
        ...

    def scrub(self) -> None:
        """Overwrite whatever dropped records left behind on disk, as far as the database can.

        Of a file no byte of them is there afterwards. A server frees their room for others, who
        overwrite it in time; its log, replicas and backups keep what they hold.

        Raises:
            DatabaseLocked: another process is reading; call again when it is done.
            WrongState: called inside a transaction.
        """
        ...
