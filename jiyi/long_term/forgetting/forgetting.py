"""Forgetting on request: taking out, overwriting, bringing back, and pins."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import cast

from jiyi.errors import BadQuery, NotFound
from jiyi.long_term.forgetting.facts import mended
from jiyi.long_term.forgetting.plan import Plan, Rewrite, counts_of, plan_forgetting
from jiyi.long_term.forgetting.receipt import (
    ASKED,
    ForgetReceipt,
    Forgotten,
    RestoreReceipt,
    first_words,
    listed,
)
from jiyi.long_term.forgetting.restore import Restoring
from jiyi.long_term.forgetting.select import FORGETTABLE, Forgettable, Selection, find_by_ids, pieces, walk
from jiyi.long_term.forgetting.summaries import drop_summaries, drop_summaries_of
from jiyi.long_term.forgetting.trash import hanging_on, with_older_sources
from jiyi.records import SEARCHABLE, Fact, Kind, Knowledge, Message, Query, Scope
from jiyi.storage.candidates import Key
from jiyi.storage.rows import kind_of
from jiyi.storage.store import Store
from jiyi.storage.trash import Discarded, Trash
from jiyi.storage.upkeep import Amendment, Upkeep

__all__ = ["Forgetting", "Learn"]

Learn = Callable[[Sequence[Message]], object]
"""Reads stored messages and keeps the facts in them; reading one again changes nothing."""

_BATCH = 1_000  # records taken out at once
_MOMENT = timedelta(microseconds=1)


class Forgetting:
    """Forgets what is asked for, with everything derived from it.

    With a message go the facts that rest on it alone, and the call or results it belongs to;
    with an episode its task, with a task its episode; with episodes the knowledge that rests on
    them alone. Facts and knowledge that rest on others too stay, without any word that only the
    forgotten ones said: facts as far as the other messages say them, else those are read anew;
    knowledge is written anew from the other episodes, else it goes and these wait for the next
    consolidation. What a forgotten fact had superseded holds again. Text index and vectors go
    with each record. Pinned records go like others: they were asked for.

    With a message go the versions of its session's summaries from the first that covers it on,
    for good: the version before stands again, and what is brought back is folded anew. Words
    are looked for in summaries too.

    Each verb is one transaction: all of it happens, or nothing.

    Args:
        store, upkeep, trash: of one database.
        rewrite: writes reduced knowledge anew, such as `Consolidation.rewritten`; without it
            such knowledge goes.
        learn: reads messages anew, such as `FactMemory.learn`; without it facts that cannot
            stay as they are go.
    """

    def __init__(
        self,
        store: Store,
        upkeep: Upkeep,
        trash: Trash,
        *,
        rewrite: Rewrite = lambda _: None,
        learn: Learn = lambda _: None,
    ) -> None:
        self._store = store
        self._upkeep = upkeep
        self._trash = trash
        self._rewrite = rewrite
        self._learn = learn
        self._selection = Selection(store, upkeep, trash)

    def forget(
        self,
        scope: Scope,
        *,
        ids: Sequence[str] | None = None,
        query: Query | None = None,
        reason: str,
        at: datetime,
        dry_run: bool = False,
    ) -> ForgetReceipt:
        """Take records out of the memory into the trash, from where `restore` brings them back.

        Either by ids; or by a query, whose filters must all hold and whose words must all be in
        a record (no vectors, no likeness; a task in progress counts with all it says); or,
        without either, the whole scope: a session, an agent, or a user.

        Args:
            scope: whose, and where; a query is asked within it.
            ids: of messages, episodes, knowledge, facts, tasks, summaries.
            query: words, kinds and filters. Its ``limit`` is how many records its words may be in.
            reason: kept with the records in the trash.
            at: the moment all of it is taken out.
            dry_run: only tell what would go.

        Raises:
            BadQuery: both ids and a query, an empty one, one without a word, or words that are in
                more records than its ``limit``; nothing was changed.
            NotFound: the scope has no record of one of the ids; nothing was changed.
            StorageError: the database cannot do it; nothing was changed.
        """
        _check(ids, query)
        if dry_run:
            return self._forget(scope, ids, query, reason=reason, at=at, dry_run=True)[0]
        return self._store.together(lambda: self._forget(scope, ids, query, reason=reason, at=at)[0])

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

        What lies in the trash already is asked for in the same way (by ids, by words and the
        filters role, since, until, pinned and metadata, or all of the scope), and whatever in the trash
        was derived from it goes too. Nothing of it can be restored. Purging again is fine, also
        where nothing is left to take out: the file is overwritten each time, which takes about
        as long as copying it, and as much room on the disk again.

        Args and errors are those of `forget`, and

        Raises:
            DatabaseLocked: another process is reading or writing; nothing was changed. Where one
                begins to read at the last moment, the records are gone and the message says that
                old bytes may remain: purge again.
            WrongState: called inside a transaction.
        """
        _check(ids, query)
        if dry_run:
            return self._purge(scope, ids, query, reason=reason, at=at, dry_run=True)
        self._trash.check_alone()
        receipt = self._store.together(lambda: self._purge(scope, ids, query, reason=reason, at=at))
        self._trash.scrub()
        return receipt

    def restore(
        self,
        scope: Scope,
        *,
        ids: Sequence[str] | None = None,
        forgotten_at: datetime | None = None,
        at: datetime,
    ) -> RestoreReceipt:
        """Bring back what was taken out, with what had gone along.

        By ids, with what went at the same moment because of them or they because of it; or
        everything that one forget took, by the moment in its receipt. Facts and knowledge that
        rest on what comes back come back too, as far as their sources are there, also where a
        later forget took them. Facts find their place among what was said meanwhile.

        What is there again under the same id stays as it is, and what was taken out stays in the
        trash; so does knowledge whose episodes belong to another by now. The receipt tells.

        Raises:
            BadQuery: neither ids nor a moment.
            NotFound: nothing like it lies in the trash; nothing was changed.
            StorageError: the database cannot do it; nothing was changed.
        """
        if (ids is None) == (forgotten_at is None):
            raise BadQuery("say what to restore: ids, or the moment of a receipt")

        def restore() -> RestoreReceipt:
            if ids is not None:
                found = list(self._selection.in_trash(scope, ids, None))
                missing = sorted(set(ids) - {entry.record.id for entry in found})
                if missing:
                    raise NotFound(f"not in the trash of {scope.user_id!r}: {_some(missing)}")
            else:
                assert forgotten_at is not None
                found = list(walk(self._trash, scope, since=forgotten_at, until=forgotten_at + _MOMENT))
                if not found:
                    raise NotFound(
                        f"nothing of {scope.user_id!r} was taken out at {forgotten_at.isoformat()}"
                    )
            return Restoring(
                self._store,
                self._upkeep,
                self._trash,
                user=Scope(user_id=scope.user_id),
                at=at,
                rewrite=self._rewrite,
                learn=self._learn,
            ).run(found)

        return self._store.together(restore)

    def pin(self, scope: Scope, ids: Sequence[str], *, pinned: bool = True) -> int:
        """Pin messages, episodes, knowledge or facts, or unpin them; return how many records it were.

        What is pinned is never forgotten by the gate; a pinned message never leaves its window.

        Raises:
            NotFound: the scope has no such record of one of the ids; nothing was changed.
        """
        wanted = list(dict.fromkeys(ids))

        def amend() -> int:
            found = {kind: find_by_ids(self._store, scope, kind, wanted) for kind in SEARCHABLE}
            missing = set(wanted) - {record.id for records in found.values() for record in records}
            if missing:
                raise NotFound(
                    f"no message, episode, knowledge or fact of {scope.user_id!r}: {_some(sorted(missing))}"
                )
            return sum(
                self._upkeep.amend(scope, kind, [Amendment(id=r.id, pinned=pinned) for r in records])
                for kind, records in found.items()
                if records
            )

        return self._store.together(amend, repeatable=True)

    def _forget(
        self,
        scope: Scope,
        ids: Sequence[str] | None,
        query: Query | None,
        *,
        reason: str,
        at: datetime,
        dry_run: bool = False,
        gone: Sequence[Discarded] = (),
    ) -> tuple[ForgetReceipt, list[Key]]:
        """Do or tell what `forget` says; return the keys of all records touched, too, for a purge."""
        if ids is None and query is None and scope.agent_id is None and scope.session_id is None:
            return self._forget_user(scope, reason, at, dry_run), []
        asked = self._asked(scope, ids, query, {entry.record.id for entry in gone})
        plan = plan_forgetting(
            self._store,
            self._upkeep,
            asked,
            scope=scope,
            at=at,
            rewrite=self._rewrite,
            query=query if query is None else replace(query, scope=scope),
            gone=[cast("Forgettable", entry.record) for entry in gone],
        )
        if not dry_run:
            self._carry_out(scope, plan, reason, at)
        return _receipt(plan, reason, at, dry_run), [*plan.taken, *plan.changed]

    def _asked(
        self, scope: Scope, ids: Sequence[str] | None, query: Query | None, elsewhere: set[str]
    ) -> Iterable[Forgettable]:
        if query is not None:
            return self._selection.by_query(replace(query, scope=scope))
        if ids is None:
            return self._selection.all_of(scope)
        found = self._selection.by_ids(scope, ids)
        missing = sorted(set(ids) - {record.id for record in found} - elsewhere)
        if missing:
            raise NotFound(
                f"nothing of {scope.user_id!r} here has the id {_some(missing)}; "
                "what was forgotten before lies in the trash: restore or purge it"
            )
        return found

    def _carry_out(self, scope: Scope, plan: Plan, reason: str, at: datetime) -> None:
        user = Scope(user_id=scope.user_id)
        changed = list(plan.changed)
        derived = [key for key in plan.taken if key[0] in ("fact", "knowledge")]
        older = with_older_sources(self._store, self._trash, user, [*changed, *derived])
        self._store.put(older)
        facts = [r for id_ in pieces(plan.ids("fact")) for r in find_by_ids(self._store, user, "fact", id_)]
        for keys in pieces([*changed, *(key for key in plan.taken if key[0] != "summary")]):
            self._trash.discard(user, keys, reason=reason, at=at)
        drop_summaries(self._store, user, plan.ids("summary"))
        stay = [record for record, _ in plan.changed.values()]
        self._store.put(stay)
        if plan.unread:
            self._learn(list(plan.unread.values()))
        touched = [r for r in (*facts, *stay) if isinstance(r, Fact)]
        self._store.put(mended(self._store, touched, at))
        self._upkeep.amend(user, "episode", [Amendment(id=id_, consolidated=False) for id_ in plan.loose])

    def _forget_user(self, scope: Scope, reason: str, at: datetime, dry_run: bool) -> ForgetReceipt:
        """Forget everything of a user, in pieces: nothing stays that could depend on it."""
        kinds: tuple[Kind, ...] = (*FORGETTABLE, "summary")
        counts = dict(self._store.count(Query(scope=scope, kinds=kinds)))
        first = [
            Forgotten(kind=kind_of(r), id=r.id, action="taken", why=ASKED, text=first_words(r))
            for r in islice(self._selection.all_of(scope), _BATCH)
        ]
        if not dry_run:
            for kind in FORGETTABLE:
                while keys := _first_keys(self._selection.all_of(scope, (kind,))):
                    self._trash.discard(scope, keys, reason=reason, at=at)
            drop_summaries_of(self._store, scope)
        return ForgetReceipt(
            counts={kind: counts[kind] for kind in kinds if counts[kind]},
            changed={},
            items=listed(first),
            reason=reason,
            at=at,
            dry_run=dry_run,
        )

    def _purge(
        self,
        scope: Scope,
        ids: Sequence[str] | None,
        query: Query | None,
        *,
        reason: str,
        at: datetime,
        dry_run: bool = False,
    ) -> ForgetReceipt:
        user = Scope(user_id=scope.user_id)
        if ids is None and query is None and scope == user:
            receipt, _ = self._forget(scope, None, None, reason=reason, at=at, dry_run=dry_run)
            erased = 0 if dry_run else self._erase_all(user)
        else:
            asked = None if query is None else replace(query, scope=scope)
            lying = list(self._selection.in_trash(scope, ids, asked))
            lying += hanging_on(self._trash, user, lying)
            receipt, keys = self._forget(scope, ids, query, reason=reason, at=at, dry_run=dry_run, gone=lying)
            keys += [(entry.kind, entry.record.id) for entry in lying]
            keys += [(e.kind, e.record.id) for e in hanging_on(self._trash, user, lying, keys)]
            erased = 0 if dry_run else self._erase(user, list(dict.fromkeys(keys)))
        erased += 0 if dry_run else receipt.counts.get("summary", 0)
        return replace(receipt, erased=erased, items=tuple(_wordless(receipt.items, dry_run)))

    def _erase(self, user: Scope, keys: Sequence[Key]) -> int:
        return sum(self._trash.erase(user, keys=piece, limit=_BATCH) for piece in pieces(keys))

    def _erase_all(self, user: Scope) -> int:
        erased = last = self._trash.erase(user)
        while last:
            last = self._trash.erase(user)
            erased += last
        return erased


def _check(ids: Sequence[str] | None, query: Query | None) -> None:
    if ids is not None and query is not None:
        raise BadQuery("give ids or a query, not both")
    if isinstance(ids, str) or (ids is not None and not ids):
        raise BadQuery("ids is a list of at least one id")


def _some(ids: Sequence[str]) -> str:
    return ", ".join(map(repr, ids[:5])) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")


def _first_keys(records: Iterator[Forgettable]) -> list[Key]:
    return [(kind_of(record), record.id) for record in islice(records, _BATCH)]


def _wordless(items: Iterable[Forgotten], dry_run: bool) -> Iterator[Forgotten]:
    for item in items:
        yield item if dry_run else replace(item, text="")


def _receipt(plan: Plan, reason: str, at: datetime, dry_run: bool) -> ForgetReceipt:
    def item(key: Key, why: str, *, taken: bool = True) -> Forgotten:
        words = plan.words.get(key, "")
        return Forgotten(kind=key[0], id=key[1], action="taken" if taken else "changed", why=why, text=words)

    links: Mapping[Key, Fact | Knowledge] = {
        ("fact", fact.id): fact for fact in plan.links if ("fact", fact.id) not in plan.changed
    }
    asked = (item(key, why) for key, why in plan.taken.items() if why == ASKED)
    taken = [item(key, why) for key, why in plan.taken.items() if why != ASKED]
    changed = [item(key, why, taken=False) for key, (_, why) in plan.changed.items()]
    relinked = [item(key, "a fact before or behind it goes", taken=False) for key in links]
    changed_counts: Mapping[Kind, int] = counts_of([*plan.changed, *links])
    return ForgetReceipt(
        counts=counts_of(plan.taken),
        changed=changed_counts,
        items=(*listed(asked), *listed([*taken, *changed, *relinked])),
        reason=reason,
        at=at,
        dry_run=dry_run,
    )
