"""Restores forgotten records and what was derived from them into a memory that has changed since."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from jiyi.long_term.facts.lookup import find_facts, user_scope
from jiyi.long_term.facts.slots import value_of
from jiyi.long_term.finding import find_by_ids
from jiyi.long_term.forgetting import plan, provenance
from jiyi.long_term.forgetting.plan import Forgotten, Learn, RestoreReceipt, Rewrite
from jiyi.long_term.forgetting.provenance import DERIVED, RecordReader, earlier_versions, relink_facts
from jiyi.records import Episode, Fact, Knowledge, Message, Query
from jiyi.storage import Amendment, Discarded, Key, batched, key_of

_RESTORED = "brought back"
_EXISTS = "there again under the same id"
_NO_SOURCE = "what it rests on is not there"
_TAKEN = "its episodes belong to another knowledge by now"


@dataclass(slots=True)
class Restorer:
    """One restore, within a transaction."""

    reader: RecordReader
    at: datetime
    rewrite: Rewrite
    learn: Learn
    restored: dict[Key, Forgotten] = field(default_factory=dict)
    left: dict[Key, Forgotten] = field(default_factory=dict)  # stayed in the trash
    facts: list[Fact] = field(default_factory=list)  # restored or changed

    def run(self, entries: Iterable[Discarded]) -> RestoreReceipt:
        """Restore these entries with what was forgotten along with them."""
        requested = {key_of(entry): entry for entry in entries}
        for entry in self._find_companions(list(requested.values())):
            requested.setdefault(key_of(entry), entry)
        episodes = self._restore_sources([e for e in requested.values() if e.kind not in DERIVED])
        derived = {key for key in requested if key[0] in DERIVED}
        in_trash = self.reader.derived_in_trash(derived | set(self.restored))
        for entry in sorted(in_trash, key=lambda entry: cast("Fact", entry.record).created_at):
            self._restore_derived(entry, requested=key_of(entry) in requested)
        self.reader.store.put(relink_facts(self.reader.store, self.facts, self.at))
        self._release_episodes(episodes)
        return RestoreReceipt(
            counts=plan.count_kinds(self.restored),
            left=plan.count_kinds(self.left),
            items=(*[*self.restored.values()][: plan.MAX_ITEMS], *[*self.left.values()][: plan.MAX_ITEMS]),
        )

    def _find_companions(self, entries: Sequence[Discarded]) -> list[Discarded]:
        sources: list[Discarded] = []
        for kind, source in DERIVED.items():
            derived = [entry for entry in entries if entry.kind == kind]
            moments = {entry.discarded_at for entry in derived}
            ids = [id_ for entry in derived for id_ in provenance.sources_of(entry.record)]
            sources += [e for e in self.reader.find_trashed(source, ids) if e.discarded_at in moments]
        roots = [*entries, *sources]
        partners = self.reader.partners_in_trash(roots, {key_of(entry) for entry in roots})

        def find(id_: str) -> list[Fact]:
            return [cast("Fact", entry.record) for entry in self.reader.find_trashed("fact", [id_])]

        facts = (entry.record for entry in entries if isinstance(entry.record, Fact))
        versions = [version.id for fact in facts for version in earlier_versions(fact, find)]
        return [*sources, *partners, *self.reader.find_trashed("fact", versions)]

    def _restore_sources(self, entries: Sequence[Discarded]) -> list[Episode]:
        """Restore messages, episodes, items and tasks; return the episodes."""
        ready: list[Discarded] = []
        for kind in ("message", "episode", "item", "task"):
            of_kind = [entry for entry in entries if entry.kind == kind]
            ids = [entry.record.id for entry in of_kind]
            stored = {record.id for record in find_by_ids(self.reader.store, self.reader.user, kind, ids)}
            for entry in of_kind:
                if entry.record.id in stored:
                    self._leave(entry, _EXISTS)
                else:
                    ready.append(entry)
        ready.sort(key=_sort_key)
        for batch in batched([key_of(entry) for entry in ready]):
            self.reader.trash.restore(self.reader.user, batch)
        for entry in ready:
            self.restored[key_of(entry)] = plan.describe(entry.record, "restored", _RESTORED)
        return [entry.record for entry in ready if isinstance(entry.record, Episode)]

    def _leave(self, entry: Discarded, why: str) -> None:
        self.left[key_of(entry)] = plan.describe(entry.record, "left", why)

    def _restore_derived(self, entry: Discarded, *, requested: bool) -> None:
        """Restore a fact or a knowledge as far as its sources exist, or leave it in the trash."""
        if isinstance(entry.record, Fact):
            restored: Fact | Knowledge | str = self._adapt_fact(entry, entry.record, requested=requested)
        else:
            restored = self._adapt_knowledge(entry, cast("Knowledge", entry.record))
        if isinstance(restored, str):
            self._leave(entry, restored)
            return
        self.reader.store.put([restored])
        self.restored[key_of(entry)] = plan.describe(restored, "restored", _RESTORED)
        if isinstance(restored, Fact):
            self.facts.append(restored)

    def _adapt_fact(self, entry: Discarded, trashed: Fact, *, requested: bool) -> Fact | str:
        """Return a fact as it is to be stored, or why it stays in the trash."""
        sources = {m.id: m for m in self.reader.find(Message, trashed.sources)}
        if trashed.sources and not sources and not requested:
            return _NO_SOURCE
        stored = self.reader.find(Fact, (trashed.id,))
        lost_ids = [id_ for id_ in trashed.sources if id_ not in sources]
        fact = trashed
        if lost_ids and sources:  # what only the lost messages say must not be restored
            lost = [cast("Message", e.record) for e in self.reader.find_trashed("message", lost_ids)]
            reduced = provenance.reduce_fact(trashed, lost, list(sources.values()))
            if reduced is None:
                self.learn(list(sources.values()))
                return _NO_SOURCE
            fact = reduced
        else:
            self.reader.trash.erase(self.reader.user, keys=[key_of(entry)])
        self._delete_duplicates(trashed)
        return _merge_stored(fact, stored[0]) if stored else fact

    def _adapt_knowledge(self, entry: Discarded, trashed: Knowledge) -> Knowledge | str:
        """Return a knowledge as it is to be stored, or why it stays in the trash."""
        stored = next(iter(self.reader.find(Knowledge, (trashed.id,))), None)
        sources = (*trashed.source_episodes, *(stored.source_episodes if stored else ()))
        existing = {episode.id for episode in self.reader.find(Episode, sources)}
        union = tuple(id_ for id_ in dict.fromkeys(sources) if id_ in existing)
        if trashed.source_episodes and not existing.intersection(trashed.source_episodes):
            return _NO_SOURCE
        same_sources = Query(scope=self.reader.user, kinds=("knowledge",), sources=union or ("",), limit=2)
        if any(other.id != trashed.id for other in self.reader.store.find(same_sources)):
            return _TAKEN
        restored: Knowledge | None = trashed
        if union != trashed.source_episodes or (stored and stored.updated_at != entry.discarded_at):
            restored = self.rewrite(replace(stored or trashed, source_episodes=union))
        if restored is None:
            return _NO_SOURCE
        if stored:
            used = {name: getattr(stored, name) for name in ("access_count", "last_accessed_at")}
            restored = replace(restored, pinned=stored.pinned or trashed.pinned, **used)
        if existing.issuperset(trashed.source_episodes):
            self.reader.trash.erase(self.reader.user, keys=[key_of(entry)])
        marks = [Amendment(id=id_, consolidated=True) for id_ in union]
        self.reader.store.amend(self.reader.user, "episode", marks)
        return restored

    def _delete_duplicates(self, trashed: Fact) -> None:
        """Delete the facts that were read again in place of a restored fact."""
        point: dict[str, Any] = {"subject": trashed.subject, "predicate": trashed.predicate, "limit": 100}
        scope, sources = user_scope(trashed.scope), trashed.sources or ("",)
        for fact in find_facts(self.reader.store, scope, newest_first=False, sources=sources, **point):
            same = fact.id != trashed.id and value_of(fact) == value_of(trashed)
            if same and set(fact.sources) <= set(trashed.sources):
                self.reader.store.delete(Query(scope=self.reader.user, kinds=("fact",), ids=(fact.id,)))

    def _release_episodes(self, episodes: Sequence[Episode]) -> None:
        """Let episodes restored without their knowledge be consolidated again."""
        marked = [episode.id for episode in episodes if episode.consolidated]
        derived = self.reader.derived_from(Knowledge, marked)
        used = {id_ for knowledge in derived for id_ in knowledge.source_episodes}
        released = [Amendment(id=id_, consolidated=False) for id_ in marked if id_ not in used]
        self.reader.store.amend(self.reader.user, "episode", released)


def _sort_key(entry: Discarded) -> tuple[str, int]:
    record = entry.record
    if not isinstance(record, Message):
        return entry.kind, 0
    return (record.scope.session_id or "") if record.scope else "", record.seq or 0


def _merge_stored(trashed: Fact, stored: Fact) -> Fact:
    """Return a restored fact with the further sources, links and accesses of the one stored meanwhile."""
    kept = ("status", "valid_to", "supersedes", "superseded_by", "access_count", "last_accessed_at")
    return replace(
        cast("Fact", provenance.with_sources(trashed, (*trashed.sources, *stored.sources))),
        confidence=max(trashed.confidence, stored.confidence),
        pinned=trashed.pinned or stored.pinned,
        **{name: getattr(stored, name) for name in kept},
    )
