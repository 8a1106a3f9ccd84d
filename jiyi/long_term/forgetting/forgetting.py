"""Forgetting on request: taking out, overwriting, bringing back, and pins."""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import cast

from jiyi.errors import BadQuery, NotFound
from jiyi.long_term.forgetting.plan import (
    ASKED,
    ForgetReceipt,
    Learn,
    Plan,
    Planner,
    RestoreReceipt,
    Rewrite,
    carry_out,
    forgotten,
    listed,
)
from jiyi.long_term.forgetting.provenance import Forgettable, Rows, hanging_on, pieces
from jiyi.long_term.forgetting.restore import Restoring
from jiyi.long_term.forgetting.select import all_of, by_ids, by_query, in_trash
from jiyi.records import FORGETTABLE, SEARCHABLE, Query, Scope
from jiyi.storage import Amendment, DamagedRecord, Discarded, Key, Store, Trash, key_of

__all__ = ["Forgetting"]

_BATCH = 1_000  # records taken out at once
_MOMENT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class _Request:
    scope: Scope
    ids: Sequence[str] | None
    query: Query | None  # asked within the scope
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
        """Whether the whole memory of the user is to go."""
        whole = self.scope == Scope(user_id=self.scope.user_id)
        return self.ids is None and self.query is None and whole


@dataclass(frozen=True, slots=True)
class Forgetting:
    """Forgets what is asked for, pinned or not, with everything derived from it.

    A message takes with it the facts that rest on it alone, and the call or results it belongs to;
    an episode its task, a task its episode; episodes the knowledge that rests on them alone. Facts
    and knowledge that also rest on others stay, without wording found only in the forgotten
    records: facts as far as the other messages say them, else those messages are read again;
    knowledge is rewritten from the other episodes, else it goes and these wait for the next
    consolidation. What a forgotten fact had superseded holds again. A message also takes with it, for good,
    its session's summaries from the first version that covers it on: the version before is current
    again, and what is brought back is summarised again.

    Each verb is one transaction: all of it happens, or nothing.
    """

    store: Store
    trash: Trash  # of the same database
    _: KW_ONLY
    # Rewrites knowledge from fewer episodes, such as `Consolidation.rewritten`; without it that goes.
    rewrite: Rewrite = lambda _: None
    # Reads messages again, such as `FactMemory.learn`; without it facts that cannot stay as they are go.
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
        """Move records from the memory to the trash, from where `restore` brings them back.

        Either by ``ids``, of summaries too; or by a ``query`` within the scope, whose filters must all
        match and whose words must all be in a record or summary (no similarity; a task in progress counts
        with all its text); or, without either, the whole scope. The ``reason`` is kept with the records.
        ``alone``: a tool call stays if its result goes, and a result if its call goes.

        Raises:
            BadQuery: both ids and a query, an empty one, one without a word, or words that are in
                more records than its ``limit``; nothing was changed.
            NotFound: the scope has no record with one of the ids; nothing was changed.
        """
        asked = None if query is None else replace(query, scope=scope)
        request = _Request(scope, ids, asked, reason, at, dry_run, alone)
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
        """Forget, and overwrite: afterwards no byte of it is in the file, its log or a temporary file.

        Matching records in the trash go too, with what was derived from them; nothing can be restored.
        The file is overwritten each time, even if nothing is left to remove, which takes about as long as
        copying it, and as much disk space again. If it is interrupted after the records are gone, the next
        open, `maintain` or purge, which may name the same ids, finishes it. ``overwritten`` in the receipt
        says that the bytes are gone; on a server they are only freed, see `jiyi.storage.trash.Trash.scrub`.

        Args and errors are those of `forget`, and

        Raises:
            DatabaseLocked: another process is reading or writing; nothing was changed. If one starts
                to read at the last moment, the records are gone and the message says that
                old bytes may remain: purge again.
            WrongState: called inside a transaction.
        """
        asked = None if query is None else replace(query, scope=scope)
        request = _Request(scope, ids, asked, reason, at, dry_run)
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
        """Bring back what was forgotten, with what was forgotten along with it.

        By ids, with what went at the same time because of them or they because of it; or all that one
        forget removed, by the time in its receipt. Facts and knowledge that rest on what comes back do
        too, if their sources exist, even if a later forget removed them; facts are merged with what was
        said meanwhile. What exists again under its id stays in the trash, as does knowledge whose
        episodes now belong to another; the receipt says so.

        Raises:
            BadQuery: neither ids nor a time.
            NotFound: nothing like it is in the trash; nothing was changed.
        """
        if (ids is None) == (forgotten_at is None):
            raise BadQuery("say what to restore: ids, or the moment of a receipt")
        rows = self._rows(scope)

        def restore() -> RestoreReceipt:
            if ids is not None:
                found = list(in_trash(rows, scope, ids, None))
                missing = sorted(set(ids) - {entry.record.id for entry in found})
                if missing:
                    raise NotFound(f"not in the trash of {scope.user_id!r}: {_some(missing)}")
            else:
                assert forgotten_at is not None
                found = list(rows.in_trash(scope=scope, since=forgotten_at, until=forgotten_at + _MOMENT))
                if not found:
                    raise NotFound(
                        f"nothing of {scope.user_id!r} was taken out at {forgotten_at.isoformat()}"
                    )
            return Restoring(rows, at, self.rewrite, self.learn).run(found)

        return self.store.together(restore)

    def pin(self, scope: Scope, ids: Sequence[str], *, pinned: bool = True) -> int:
        """Pin messages, episodes, knowledge or facts, or unpin them; return the number of records changed.

        What is pinned is never forgotten by the gate; a pinned message never leaves its window.

        Raises:
            NotFound: the scope has no such record of one of the ids; nothing was changed.
        """
        rows = self._rows(scope)

        def amend() -> int:
            found = {kind: rows.of_kind(kind, ids, scope) for kind in SEARCHABLE}
            missing = set(ids) - {record.id for records in found.values() for record in records}
            if missing:
                raise NotFound(
                    f"no message, episode, knowledge or fact of {scope.user_id!r}: {_some(sorted(missing))}"
                )
            return sum(
                self.store.amend(scope, kind, [Amendment(id=r.id, pinned=pinned) for r in records])
                for kind, records in found.items()
                if records
            )

        return self.store.together(amend, repeatable=True)

    def _rows(self, scope: Scope) -> Rows:
        return Rows(self.store, self.trash, Scope(user_id=scope.user_id))

    def _forget(self, request: _Request, gone: Sequence[Discarded] = ()) -> tuple[ForgetReceipt, list[Key]]:
        """Do or tell what `forget` says; return the keys of all records touched, too, for a purge.

        Of what is gone already, what was derived from it goes.
        """
        rows = self._rows(request.scope)
        if request.is_everything:
            return self._forget_user(rows, request), []
        asked = _asked(rows, request, {entry.record.id for entry in gone})
        out = [cast("Forgettable", entry.record) for entry in gone]
        made = Plan(request.scope.agent_id)
        planner = Planner(rows, request.at, self.rewrite, out, request.alone, made=made)
        plan = planner.plan(asked, request.query)
        if not request.dry_run:
            carry_out(rows, plan, self.learn, reason=request.reason, at=request.at)
        receipt = plan.receipt(request.reason, request.at, dry_run=request.dry_run)
        lost = [] if request.query is not None else self._damaged(request)
        keys = [(one.kind, one.id) for one in lost]
        return replace(receipt, damaged=len(lost)), [*plan.taken, *plan.changed, *keys]

    def _damaged(self, request: _Request) -> Sequence[DamagedRecord]:
        act = self.store.damaged if request.dry_run else self.store.drop_damaged
        return act(request.scope, request.ids)

    def _forget_user(self, rows: Rows, request: _Request) -> ForgetReceipt:
        """Forget everything of a user, in pieces: nothing stays that could depend on it."""
        scope, kinds = request.scope, (*FORGETTABLE, "summary")
        counts = dict(self.store.count(Query(scope=scope, kinds=kinds)))
        first = [forgotten(record, "taken", ASKED) for record in islice(all_of(rows, scope), _BATCH)]
        if not request.dry_run:
            for kind in FORGETTABLE:
                while found := list(islice(all_of(rows, scope, (kind,)), _BATCH)):
                    keys: list[Key] = [(kind, record.id) for record in found]
                    self.trash.discard(scope, keys, reason=request.reason, at=request.at)
            while self.store.delete(Query(scope=scope, kinds=("summary",), limit=_BATCH))["summary"]:
                pass
        return ForgetReceipt(
            counts={kind: counts[kind] for kind in kinds if counts[kind]},
            changed={},
            items=listed(first),
            reason=request.reason,
            at=request.at,
            dry_run=request.dry_run,
            damaged=len(self._damaged(request)),
        )

    def _purge(self, request: _Request) -> ForgetReceipt:
        rows = self._rows(request.scope)
        if request.is_everything:
            receipt, _ = self._forget(request)
            keys = None
        else:
            lying = list(in_trash(rows, request.scope, request.ids, request.query))
            lying += hanging_on(rows, lying)
            receipt, touched = self._forget(request, gone=lying)
            touched += [key_of(entry) for entry in lying]
            touched += [key_of(entry) for entry in hanging_on(rows, lying, touched)]
            keys = list(dict.fromkeys(touched))
        if request.dry_run:
            return receipt
        self.trash.mark_overwrite_pending()
        erased = self._erase(rows.user, keys) + receipt.counts.get("summary", 0)
        return replace(receipt, erased=erased, items=tuple(replace(item, text="") for item in receipt.items))

    def _erase(self, user: Scope, keys: Sequence[Key] | None) -> int:
        """Drop these from the trash for good, or all there is; return how many there were."""
        if keys is not None:
            return sum(self.trash.erase(user, keys=piece, limit=_BATCH) for piece in pieces(keys))
        erased = 0
        while dropped := self.trash.erase(user):
            erased += dropped
        return erased


def _asked(rows: Rows, request: _Request, in_trash: set[str]) -> Iterable[Forgettable]:
    """Return the records that a request names; each of its ids is there or in the trash."""
    scope = request.scope
    if request.query is not None:
        return by_query(rows, request.query)
    if request.ids is None:
        return all_of(rows, scope)
    found = by_ids(rows, scope, request.ids)
    damaged = {one.id for one in rows.store.damaged(scope, request.ids)}
    missing = sorted(set(request.ids) - {record.id for record in found} - in_trash - damaged)
    if missing:
        raise NotFound(
            f"nothing of {scope.user_id!r} here has the id {_some(missing)}; "
            "what was forgotten before lies in the trash: restore or purge it"
        )
    return found


def _some(ids: Sequence[str]) -> str:
    return ", ".join(map(repr, ids[:5])) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
