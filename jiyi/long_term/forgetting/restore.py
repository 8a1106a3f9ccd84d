"""Bringing back what was forgotten, with what was derived, into a memory that has changed since."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from jiyi.long_term.facts.lookup import find_facts, user_scope
from jiyi.long_term.facts.slots import value_of
from jiyi.long_term.forgetting.plan import (
    Forgotten,
    Learn,
    RestoreReceipt,
    Rewrite,
    counts_of,
    forgotten,
    listed,
)
from jiyi.long_term.forgetting.provenance import (
    DERIVED,
    Forgettable,
    Rows,
    mended,
    partners_in_trash,
    pieces,
    resting_in_trash,
    sources_of,
    with_sources,
    without_messages,
)
from jiyi.records import Episode, Fact, Knowledge, Message, Query
from jiyi.storage import Amendment, Discarded, Key, key_of

__all__ = ["Restoring"]

_THERE = "there again under the same id"
_NO_SOURCE = "what it rests on is not there"
_OTHER = "its episodes belong to another knowledge by now"


@dataclass(slots=True)
class Restoring:
    """One restore, inside one transaction."""

    rows: Rows
    at: datetime
    rewrite: Rewrite
    learn: Learn
    back: dict[Key, Forgotten] = field(default_factory=dict)  # what is there again
    left: dict[Key, Forgotten] = field(default_factory=dict)  # what is not, and why
    facts: list[Fact] = field(default_factory=list)  # that came back or changed

    def run(self, entries: Iterable[Discarded]) -> RestoreReceipt:
        """Bring these back with what went along."""
        asked = {key_of(entry): entry for entry in entries}
        for entry in self._went_along(list(asked.values())):
            asked.setdefault(key_of(entry), entry)
        episodes = self._sources_back([e for e in asked.values() if e.kind not in DERIVED])
        derived = {key for key in asked if key[0] in DERIVED}
        resting = list(resting_in_trash(self.rows, derived | set(self.back)))
        for entry in sorted(resting, key=lambda entry: cast("Fact", entry.record).created_at):
            record = cast("Fact | Knowledge", entry.record)
            if isinstance(record, Fact):
                self._fact_back(entry, record, asked=key_of(entry) in asked)
            else:
                self._knowledge_back(entry, record)
        self.rows.store.put(mended(self.rows.store, self.facts, self.at))
        self._loosen(episodes)
        return RestoreReceipt(
            counts=counts_of(self.back),
            left=counts_of(self.left),
            items=(*listed(self.back.values()), *listed(self.left.values())),
        )

    def _went_along(self, entries: Sequence[Discarded]) -> list[Discarded]:
        sources: list[Discarded] = []
        for kind, source in DERIVED.items():
            derived = [entry for entry in entries if entry.kind == kind]
            moments = {entry.discarded_at for entry in derived}
            ids = [id_ for e in derived for id_ in sources_of(cast("Fact | Knowledge", e.record))]
            lying = self.rows.in_trash_by_ids(source, ids)
            sources += [entry for entry in lying if entry.discarded_at in moments]
        roots = [*entries, *sources]
        return [*sources, *partners_in_trash(self.rows, roots, {key_of(entry) for entry in roots})]

    def _sources_back(self, entries: Sequence[Discarded]) -> list[Episode]:
        """Bring messages, episodes, items and tasks back; return the episodes."""
        ready: list[Discarded] = []
        for kind in ("message", "episode", "item", "task"):
            mine = [entry for entry in entries if entry.kind == kind]
            there = {record.id for record in self.rows.of_kind(kind, [e.record.id for e in mine])}
            for entry in mine:
                if entry.record.id in there:
                    self._leave(entry, _THERE)
                else:
                    ready.append(entry)
        ready.sort(key=_place)
        for piece in pieces([key_of(entry) for entry in ready]):
            self.rows.trash.restore(self.rows.user, piece)
        for entry in ready:
            self._bring(entry, cast("Forgettable", entry.record))
        return [entry.record for entry in ready if isinstance(entry.record, Episode)]

    def _fact_back(self, entry: Discarded, image: Fact, *, asked: bool) -> None:
        here = {m.id: m for m in self.rows.find(Message, image.sources)}
        if image.sources and not here and not asked:
            self._leave(entry, _NO_SOURCE)
            return
        there = self.rows.find(Fact, (image.id,))
        lost = [id_ for id_ in image.sources if id_ not in here]
        fact = image
        if lost and here:  # what only the lost ones said of it must not come back with it
            lying = self.rows.in_trash_by_ids("message", lost)
            messages = [cast("Message", one.record) for one in lying]
            reduced = without_messages(image, messages, list(here.values()))
            if reduced is None:
                self.learn(list(here.values()))
                self._leave(entry, _NO_SOURCE)
                return
            fact = reduced
        else:
            self.rows.trash.erase(self.rows.user, keys=[key_of(entry)])
        self._drop_twins(image)
        self._write(entry, _as_lived(fact, there[0]) if there else fact)

    def _knowledge_back(self, entry: Discarded, image: Knowledge) -> None:
        there = self.rows.find(Knowledge, (image.id,))
        sources = (*image.source_episodes, *(there[0].source_episodes if there else ()))
        alive = {episode.id for episode in self.rows.find(Episode, sources)}
        union = tuple(id_ for id_ in dict.fromkeys(sources) if id_ in alive)
        if image.source_episodes and not alive.intersection(image.source_episodes):
            self._leave(entry, _NO_SOURCE)
            return
        others = Query(scope=self.rows.user, kinds=("knowledge",), sources=union or ("",), limit=2)
        if any(other.id != image.id for other in self.rows.store.find(others)):
            self._leave(entry, _OTHER)
            return
        untouched = not there or there[0].updated_at == entry.discarded_at
        if union == image.source_episodes and untouched:
            written: Knowledge | None = image
        else:
            written = self.rewrite(replace(there[0] if there else image, source_episodes=union))
        if written is None:
            self._leave(entry, _NO_SOURCE)
            return
        if there:
            used = {name: getattr(there[0], name) for name in ("access_count", "last_accessed_at")}
            written = replace(written, pinned=there[0].pinned or image.pinned, **used)
        if alive.issuperset(image.source_episodes):
            self.rows.trash.erase(self.rows.user, keys=[key_of(entry)])
        self._write(entry, written)
        marks = [Amendment(id=id_, consolidated=True) for id_ in union]
        self.rows.store.amend(self.rows.user, "episode", marks)

    def _drop_twins(self, image: Fact) -> None:
        """Remove what was read again in place of a fact that comes back."""
        point: dict[str, Any] = {"subject": image.subject, "predicate": image.predicate}
        point |= {"limit": 100, "newest_first": False}
        sources = image.sources or ("",)
        for fact in find_facts(self.rows.store, user_scope(image.scope), sources=sources, **point):
            same = fact.id != image.id and value_of(fact) == value_of(image)
            if same and set(fact.sources) <= set(image.sources):
                self.rows.store.delete(Query(scope=self.rows.user, kinds=("fact",), ids=(fact.id,)))

    def _loosen(self, episodes: Sequence[Episode]) -> None:
        """Let episodes that came back without their knowledge wait for the next consolidation."""
        marked = [episode.id for episode in episodes if episode.consolidated]
        resting = self.rows.resting_on(Knowledge, marked)
        held = {id_ for knowledge in resting for id_ in knowledge.source_episodes}
        loose = [Amendment(id=id_, consolidated=False) for id_ in marked if id_ not in held]
        self.rows.store.amend(self.rows.user, "episode", loose)

    def _write(self, entry: Discarded, record: Fact | Knowledge) -> None:
        self.rows.store.put([record])
        self._bring(entry, record)
        if isinstance(record, Fact):
            self.facts.append(record)

    def _bring(self, entry: Discarded, record: Forgettable) -> None:
        self.back[key_of(entry)] = forgotten(record, "restored", "brought back")

    def _leave(self, entry: Discarded, why: str) -> None:
        self.left[key_of(entry)] = forgotten(entry.record, "left", why)


def _place(entry: Discarded) -> tuple[str, int]:
    record = entry.record
    if not isinstance(record, Message):
        return entry.kind, 0
    return (record.scope.session_id or "") if record.scope else "", record.seq or 0


def _as_lived(image: Fact, there: Fact) -> Fact:
    """Return a fact as it was, with the sources and the use it found meanwhile."""
    lived = ("status", "valid_to", "supersedes", "superseded_by", "access_count", "last_accessed_at")
    return replace(
        cast("Fact", with_sources(image, (*image.sources, *there.sources))),
        confidence=max(image.confidence, there.confidence),
        pinned=image.pinned or there.pinned,
        **{name: getattr(there, name) for name in lived},
    )
