"""Bringing back what was taken out, with what went along, into a memory that has moved on."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import cast

from jiyi.long_term.facts.known import wide
from jiyi.long_term.facts.slots import value_of
from jiyi.long_term.forgetting.facts import mended, without_messages
from jiyi.long_term.forgetting.plan import Rewrite, counts_of
from jiyi.long_term.forgetting.receipt import Forgotten, RestoreReceipt, first_words, listed
from jiyi.long_term.forgetting.select import Forgettable, find_by_ids, pieces, walk
from jiyi.long_term.forgetting.trash import joined_in_trash, sources_of, tasks_and_episodes, with_sources
from jiyi.records import Episode, Fact, Kind, Knowledge, Message, Query, Scope
from jiyi.storage.candidates import Key
from jiyi.storage.rows import kind_of
from jiyi.storage.store import Store
from jiyi.storage.trash import Discarded, Trash
from jiyi.storage.upkeep import Amendment, Upkeep

__all__ = ["Restoring"]

_THERE = "there again under the same id"
_NO_SOURCE = "what it rests on is not there"
_OTHER = "its episodes belong to another knowledge by now"

_Learn = Callable[[Sequence[Message]], object]


@dataclass(slots=True)
class Restoring:
    """One restore, inside one transaction."""

    store: Store
    upkeep: Upkeep
    trash: Trash
    user: Scope
    at: datetime
    rewrite: Rewrite
    learn: _Learn
    back: dict[Key, str] = field(default_factory=dict)  # what is there again, and its first words
    left: dict[Key, tuple[str, str]] = field(default_factory=dict)  # what is not: why, and its first words
    facts: list[Fact] = field(default_factory=list)  # that came back or changed

    def run(self, entries: Iterable[Discarded]) -> RestoreReceipt:
        """Bring these back with what went along."""
        asked = {_key(entry): entry for entry in entries}
        for entry in self._went_along(list(asked.values())):
            asked.setdefault(_key(entry), entry)
        episodes = self._sources_back([e for e in asked.values() if e.kind not in ("fact", "knowledge")])
        for entry in self._derived(asked):
            record = cast("Fact | Knowledge", entry.record)
            if isinstance(record, Fact):
                self._fact_back(entry, record, asked=_key(entry) in asked)
            else:
                self._knowledge_back(entry, record)
        self.store.put(mended(self.store, self.facts, self.at))
        self._loosen(episodes)
        return self._receipt()

    def _went_along(self, entries: Sequence[Discarded]) -> list[Discarded]:
        """Return what else in the trash belongs to these."""
        sources: list[Discarded] = []
        for kind, source in (("fact", "message"), ("knowledge", "episode")):
            derived = [entry for entry in entries if entry.kind == kind]
            moments = {entry.discarded_at for entry in derived}
            ids = [id_ for e in derived for id_ in sources_of(cast("Fact | Knowledge", e.record))]
            for piece in pieces(ids):
                query = Query(
                    scope=self.user, kinds=(cast("Kind", source),), ids=tuple(piece), limit=len(piece)
                )
                sources += [e for e in self.trash.discarded(query) if e.discarded_at in moments]
        roots = [*entries, *sources]
        known = {_key(entry) for entry in roots}
        return [
            *sources,
            *joined_in_trash(self.trash, self.user, roots),
            *tasks_and_episodes(self.trash, self.user, roots, known),
        ]

    def _sources_back(self, entries: Sequence[Discarded]) -> list[Episode]:
        """Bring messages, episodes and tasks back; return the episodes."""
        ready: list[Discarded] = []
        for kind in ("message", "episode", "task"):
            mine = [entry for entry in entries if entry.kind == kind]
            there = {r.id for r in find_by_ids(self.store, self.user, kind, [e.record.id for e in mine])}
            for entry in mine:
                if entry.record.id in there:
                    self._leave(entry, _THERE)
                else:
                    ready.append(entry)
        ready.sort(key=_place)
        for piece in pieces([_key(entry) for entry in ready]):
            self.trash.restore(self.user, piece)
        self.back.update((_key(entry), first_words(entry.record)) for entry in ready)
        return [entry.record for entry in ready if isinstance(entry.record, Episode)]

    def _derived(self, asked: dict[Key, Discarded]) -> list[Discarded]:
        """Return facts and knowledge that were asked for, or rest on what came back; oldest first."""
        found = []
        for entry in walk(self.trash, self.user, ("fact", "knowledge")):
            source: Kind = "message" if entry.kind == "fact" else "episode"
            ids = sources_of(cast("Fact | Knowledge", entry.record))
            if _key(entry) in asked or any((source, id_) in self.back for id_ in ids):
                found.append(entry)
        return sorted(found, key=lambda entry: cast("Fact", entry.record).created_at)

    def _fact_back(self, entry: Discarded, image: Fact, *, asked: bool) -> None:
        here = {m.id: m for m in cast("list[Message]", self._find("message", image.sources))}
        if image.sources and not here and not asked:
            self._leave(entry, _NO_SOURCE)
            return
        alive = tuple(id_ for id_ in image.sources if id_ in here)
        whole = len(alive) == len(image.sources) or not here
        there = cast("list[Fact]", self._find("fact", (image.id,)))
        if whole:
            self._drop_twins(image)
            fact = _as_lived(image, there[0]) if there else image
            self.trash.erase(self.user, keys=[_key(entry)])
        else:  # what only the others said of it must not come back with it
            lost = [id_ for id_ in image.sources if id_ not in here]
            lying = self.trash.discarded(
                Query(scope=self.user, kinds=("message",), ids=tuple(lost), limit=len(lost))
            )
            messages = [cast("Message", one.record) for one in lying]
            reduced = without_messages(image, messages, list(here.values()))
            if reduced is None:
                self.learn(list(here.values()))
                self._leave(entry, _NO_SOURCE)
                return
            self._drop_twins(image)
            fact = _as_lived(reduced, there[0]) if there else reduced
        self._write(entry, fact)

    def _knowledge_back(self, entry: Discarded, image: Knowledge) -> None:
        there = cast("list[Knowledge]", self._find("knowledge", (image.id,)))
        sources = (*image.source_episodes, *(there[0].source_episodes if there else ()))
        alive = {episode.id for episode in self._find("episode", sources)}
        union = tuple(id_ for id_ in dict.fromkeys(sources) if id_ in alive)
        if image.source_episodes and not alive.intersection(image.source_episodes):
            self._leave(entry, _NO_SOURCE)
            return
        others = Query(scope=self.user, kinds=("knowledge",), sources=union or ("",), limit=2)
        if any(other.id != image.id for other in self.store.find(others)):
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
            written = replace(
                written,
                access_count=there[0].access_count,
                last_accessed_at=there[0].last_accessed_at,
                pinned=there[0].pinned or image.pinned,
            )
        if alive.issuperset(image.source_episodes):
            self.trash.erase(self.user, keys=[_key(entry)])
        self._write(entry, written)
        self.upkeep.amend(self.user, "episode", [Amendment(id=id_, consolidated=True) for id_ in union])

    def _drop_twins(self, image: Fact) -> None:
        """Remove what was read anew in place of a fact that comes back."""
        query = Query(
            scope=wide(image.scope),
            kinds=("fact",),
            subject=image.subject,
            predicate=image.predicate,
            sources=image.sources or ("",),
            limit=100,
        )
        for fact in cast("list[Fact]", self.store.find(query)):
            same = fact.id != image.id and value_of(fact) == value_of(image)
            if same and set(fact.sources) <= set(image.sources):
                self.store.delete(Query(scope=self.user, kinds=("fact",), ids=(fact.id,)))

    def _loosen(self, episodes: Sequence[Episode]) -> None:
        """Let episodes that came back without their knowledge wait for the next consolidation."""
        marked = [episode.id for episode in episodes if episode.consolidated]
        for piece in pieces(marked):
            query = Query(scope=self.user, kinds=("knowledge",), sources=tuple(piece), limit=10_000)
            held = {id_ for k in cast("list[Knowledge]", self.store.find(query)) for id_ in k.source_episodes}
            loose = [Amendment(id=id_, consolidated=False) for id_ in piece if id_ not in held]
            self.upkeep.amend(self.user, "episode", loose)

    def _find(self, kind: Kind, ids: Sequence[str]) -> list[Forgettable]:
        return find_by_ids(self.store, self.user, kind, list(dict.fromkeys(ids)))

    def _write(self, entry: Discarded, record: Fact | Knowledge) -> None:
        self.store.put([record])
        self.back[_key(entry)] = first_words(record)
        if isinstance(record, Fact):
            self.facts.append(record)

    def _leave(self, entry: Discarded, why: str) -> None:
        self.left[_key(entry)] = (why, first_words(entry.record))

    def _receipt(self) -> RestoreReceipt:
        back = (
            Forgotten(kind=kind, id=id_, action="restored", why="brought back", text=text)
            for (kind, id_), text in self.back.items()
        )
        left = (
            Forgotten(kind=kind, id=id_, action="left", why=why, text=text)
            for (kind, id_), (why, text) in self.left.items()
        )
        return RestoreReceipt(
            counts=counts_of(self.back), left=counts_of(self.left), items=(*listed(back), *listed(left))
        )


def _key(entry: Discarded) -> Key:
    return entry.kind, entry.record.id


def _place(entry: Discarded) -> tuple[str, int]:
    record = entry.record
    if not isinstance(record, Message):
        return kind_of(record), 0
    return (record.scope.session_id or "") if record.scope else "", record.seq or 0


def _as_lived(image: Fact, there: Fact) -> Fact:
    """Return a fact as it was, with the sources and the use it found meanwhile."""
    whole = cast("Fact", with_sources(image, (*image.sources, *there.sources)))
    return replace(
        whole,
        status=there.status,
        valid_to=there.valid_to,
        supersedes=there.supersedes,
        superseded_by=there.superseded_by,
        confidence=max(image.confidence, there.confidence),
        access_count=there.access_count,
        last_accessed_at=there.last_accessed_at,
        pinned=image.pinned or there.pinned,
    )
