"""Forgetting on request: forget, purge, restore and pin."""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import cast

from jiyi.errors import BadQuery, NotFound
from jiyi.long_term.finding import find_by_ids
from jiyi.long_term.forgetting import plan as plans
from jiyi.long_term.forgetting.plan import ForgetReceipt, Learn, Plan, RestoreReceipt, Rewrite
from jiyi.long_term.forgetting.provenance import Forgettable, RecordReader
from jiyi.long_term.forgetting.restore import Restorer
from jiyi.long_term.forgetting.select import find_by_query, find_in_trash, scan_scope
from jiyi.records import FORGETTABLE, SEARCHABLE, Kind, Query, Scope
from jiyi.storage import Amendment, DamagedRecord, Discarded, Key, Store, Trash, batched, key_of

__all__ = ["Forgetting"]

_BATCH = 1_000  # records removed at once
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class _Request:
    scope: Scope
    ids: Sequence[str] | None
    query: Query | None  # within the scope
    reason: str
    at: datetime
    dry_run: bool
    alone: bool = False

    def __post_init__(self) -> None:
        if self.ids is not None and self.query is not None:
            raise BadQuery("give ids or a query, not both")
        if isinstance(self.ids, str) or (self.ids is not None and not self.ids):
            raise BadQuery("ids is a list of at least one id")

    @property
    def is_everything(self) -> bool:
        return self.ids is None and self.query is None and self.scope == Scope(user_id=self.scope.user_id)


@dataclass(frozen=True, slots=True)
class Forgetting:
    """Forgets the requested records, pinned or not, with everything derived from them.

    With a message go the facts derived from it alone and its tool call or results; with an episode
    its task, and with a task its episode; with episodes the knowledge derived from them alone. Facts
    and knowledge with other sources stay, without wording found only in the forgotten records: facts
    as far as the other messages state them, else those messages are read again; knowledge is rewritten
    from the other episodes, else it goes and these wait for the next consolidation. What a forgotten fact
    had superseded is valid again. With a message also go, for good, its session's summaries from the first
    version that covers it on: the version before is current again, and what is restored is summarised again.

    Each method is one transaction: all of it happens, or nothing.
    """

    store: Store
    trash: Trash  # of the same database
    _: KW_ONLY
    # Rewrites knowledge from fewer episodes, such as `Consolidation.rewritten`; by default it is removed.
    rewrite: Rewrite = lambda _: None
    # Reads messages again, such as `FactMemory.learn`; by default facts that cannot stay unchanged are lost.
    learn: Learn = lambda _: None

    def forget(
        self,
        scope: Scope,
        *,
        ids: Sequence[str] | None = None,
        query: Query | None = None,
        reason: str,
        at: datetime,
        dry_run: bool = False,
        alone: bool = False,
    ) -> ForgetReceipt:
        """Move records to the trash, from which `restore` brings them back; see `MemoryManager.forget`.

        Either by ``ids``, also of summaries; or by a ``query`` within the scope (a task in progress counts
        with all its text); or, without either, the whole scope. With ``alone`` a tool call stays if its
        result goes, and a result if its call goes.

        Raises `BadQuery` for both ids and a query, an empty one, one without a word, or words in more records
        than its ``limit``, `NotFound` for an id that the scope does not have; then nothing was changed.
        """
        request = _Request(scope, ids, query and replace(query, scope=scope), reason, at, dry_run, alone)
        if dry_run:
            return self._forget(request)[0]
        return self.store.together(lambda: self._forget(request)[0])

    def purge(
        self,
        scope: Scope,
        *,
        ids: Sequence[str] | None = None,
        query: Query | None = None,
        reason: str = "purge",
        at: datetime,
        dry_run: bool = False,
    ) -> ForgetReceipt:
        """Forget and overwrite: afterwards no byte of it is in the file, its log or a temporary file.

        Matching records in the trash and what was derived from them are erased too; nothing can be restored.
        The file is overwritten each time, even if nothing is left to remove, which takes about as long as
        copying it, and as much disk space again. If it is interrupted after the records are gone, the next
        open, `maintain` or purge, which may name the same ids, finishes it. ``overwritten`` in the receipt
        says that the bytes are gone; on a server they are only freed, see `jiyi.storage.trash.Trash.scrub`.

        Raises:
            BadQuery, NotFound: as `forget`.
            DatabaseLocked: another process is reading or writing; nothing was changed. If one starts to read
                at the last moment, the records are gone but old bytes may remain, as the message says: purge
                again.
            WrongState: called inside a transaction.
        """
        request = _Request(scope, ids, query and replace(query, scope=scope), reason, at, dry_run)
        if dry_run:
            return self._purge(request)
        self.trash.check_alone()
        try:
            receipt = self.store.together(lambda: self._purge(request))
        except NotFound:
            if not self.trash.overwrite_pending:
                raise
            receipt = ForgetReceipt(counts={}, changed={}, items=(), reason=reason, at=at)
        return replace(receipt, overwritten=self.trash.scrub())

    def restore(
        self,
        scope: Scope,
        *,
        ids: Sequence[str] | None = None,
        forgotten_at: datetime | None = None,
        at: datetime,
    ) -> RestoreReceipt:
        """Restore records from the trash with what was forgotten along with them.

        Either by ids, or all that one forget removed, by the time in its receipt. Facts and knowledge derived
        from restored records are restored too if their sources exist, even if a later forget removed them;
        facts are merged with what was said meanwhile. Records that exist again under their id stay in the
        trash, as does knowledge whose episodes now belong to another; the receipt says so. Raises `BadQuery`
        for neither ids nor a time, or both, `NotFound` if nothing in the trash matches.
        """
        if (ids is None) == (forgotten_at is None):
            raise BadQuery("say what to restore: ids, or the moment of a receipt")
        reader = self._reader(scope)

        def restore() -> RestoreReceipt:
            if ids is not None:
                entries = list(find_in_trash(reader, scope, ids, None))
                there = {entry.record.id for entry in entries}
                _check_found(ids, there, f"not in the trash of {scope.user_id!r}:")
            else:
                assert forgotten_at is not None
                end = forgotten_at + _MICROSECOND
                entries = list(reader.scan_trash(scope=scope, since=forgotten_at, until=end))
                if not entries:
                    raise NotFound(
                        f"nothing of {scope.user_id!r} was taken out at {forgotten_at.isoformat()}"
                    )
            return Restorer(reader, at, self.rewrite, self.learn).run(entries)

        return self.store.together(restore)

    def pin(self, scope: Scope, ids: Sequence[str], *, pinned: bool = True) -> int:
        """Pin or unpin messages, episodes, knowledge or facts; return the number, or raise `NotFound`.

        The gate never forgets what is pinned; a pinned message never leaves its window.
        """

        def amend() -> int:
            found = {kind: list(find_by_ids(self.store, scope, kind, ids)) for kind in SEARCHABLE}
            there = {record.id for records in found.values() for record in records}
            _check_found(ids, there, f"no message, episode, knowledge or fact of {scope.user_id!r}:")
            return sum(
                self.store.amend(scope, kind, [Amendment(id=r.id, pinned=pinned) for r in records])
                for kind, records in found.items()
                if records
            )

        return self.store.together(amend, repeatable=True)

    def _reader(self, scope: Scope) -> RecordReader:
        return RecordReader(self.store, self.trash, Scope(user_id=scope.user_id))

    def _forget(
        self, request: _Request, trashed: Sequence[Discarded] = ()
    ) -> tuple[ForgetReceipt, list[Key]]:
        """Forget what is requested, and what derives from it or from ``trashed``, which is in the trash.

        Returns the receipt and the keys of all touched records.
        """
        reader = self._reader(request.scope)
        if request.is_everything:
            return self._forget_user(reader, request), []
        requested = _find_requested(reader, request, {entry.record.id for entry in trashed})
        removed = [cast("Forgettable", entry.record) for entry in trashed]
        plan = Plan(
            *(reader, request.reason, request.at, self.rewrite, removed),
            alone=request.alone,
            agent_id=request.scope.agent_id,
        ).build(requested, request.query)
        if not request.dry_run:
            plan.carry_out(self.learn)
        receipt = plan.receipt(dry_run=request.dry_run)
        damaged = [] if request.query is not None else self._drop_damaged(request)
        keys = [(record.kind, record.id) for record in damaged]
        return replace(receipt, damaged=len(damaged)), [*plan.removed, *plan.changed, *keys]

    def _drop_damaged(self, request: _Request) -> Sequence[DamagedRecord]:
        drop_or_list = self.store.damaged if request.dry_run else self.store.drop_damaged
        return drop_or_list(request.scope, request.ids)

    def _forget_user(self, reader: RecordReader, request: _Request) -> ForgetReceipt:
        """Forget everything of a user in batches; no derived record stays that would have to change."""
        scope, kinds = request.scope, (*FORGETTABLE, "summary")
        counts = dict(self.store.count(Query(scope=scope, kinds=kinds)))
        first = islice(scan_scope(reader, scope), plans.MAX_ITEMS)
        items = tuple(plans.describe(record, "taken", plans.REQUESTED) for record in first)
        if not request.dry_run:
            for kind in FORGETTABLE:
                while records := list(islice(scan_scope(reader, scope, (kind,)), _BATCH)):
                    keys: list[Key] = [(kind, record.id) for record in records]
                    self.trash.discard(scope, keys, reason=request.reason, at=request.at)
            while self.store.delete(Query(scope=scope, kinds=("summary",), limit=_BATCH))["summary"]:
                pass
        return ForgetReceipt(
            counts={kind: counts[kind] for kind in kinds if counts[kind]},
            changed={},
            items=items,
            reason=request.reason,
            at=request.at,
            dry_run=request.dry_run,
            damaged=len(self._drop_damaged(request)),
        )

    def _purge(self, request: _Request) -> ForgetReceipt:
        reader, trashed = self._reader(request.scope), list[Discarded]()
        if not request.is_everything:
            trashed += find_in_trash(reader, request.scope, request.ids, request.query)
            trashed += reader.dependents_in_trash(trashed)
        receipt, touched = self._forget(request, trashed)
        if request.dry_run:
            return receipt
        self.trash.mark_overwrite_pending()
        if request.is_everything:
            erased = sum(iter(partial(self.trash.erase, reader.user), 0))
        else:
            touched += [key_of(entry) for entry in trashed]
            touched += [key_of(entry) for entry in reader.dependents_in_trash(trashed, touched)]
            keys = list(dict.fromkeys(touched))
            erased = sum(self.trash.erase(reader.user, keys=batch, limit=_BATCH) for batch in batched(keys))
        erased += receipt.counts.get("summary", 0)
        return replace(receipt, erased=erased, items=tuple(replace(item, text="") for item in receipt.items))


def _find_requested(reader: RecordReader, request: _Request, trashed: set[str]) -> Iterable[Forgettable]:
    """Return the records that a request selects; raise `NotFound` for ids neither stored nor ``trashed``."""
    scope = request.scope
    if request.query is not None:
        return find_by_query(reader, request.query)
    if request.ids is None:
        return scan_scope(reader, scope)
    kinds: tuple[Kind, ...] = (*FORGETTABLE, "summary")
    found = [record for kind in kinds for record in find_by_ids(reader.store, scope, kind, request.ids)]
    damaged = {record.id for record in reader.store.damaged(scope, request.ids)}
    there = {record.id for record in found} | trashed | damaged
    hint = "; what was forgotten before lies in the trash: restore or purge it"
    _check_found(request.ids, there, f"nothing of {scope.user_id!r} here has the id", hint)
    return found


def _check_found(ids: Sequence[str], found: set[str], message: str, hint: str = "") -> None:
    """Raise `NotFound` if some of these ids were not found; the message ends with the first of them."""
    if missing := sorted(set(ids) - found):
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise NotFound(f"{message} {', '.join(map(repr, missing[:5]))}{more}{hint}")
