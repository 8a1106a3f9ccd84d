"""Reads a user's records, stored or in the trash, by what they derive from, and adapts derived ones."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar, cast

from jiyi.long_term.facts.lookup import find_facts, user_scope
from jiyi.long_term.facts.slots import ALIAS, Names, is_alias, slot_of, terms_of
from jiyi.long_term.facts.timeline import relink
from jiyi.long_term.finding import find_by_ids
from jiyi.records import FORGETTABLE, Episode, Fact, Kind, Knowledge, Message, Query, Record, Searchable, Task
from jiyi.records.atoms import atoms
from jiyi.records.session import Scope, Summary
from jiyi.storage import Discarded, Key, Store, Trash, batched, grouped, key_of, kind_of
from jiyi.storage.store import all_records, read_pages

Forgettable = Searchable | Task | Summary
DERIVED: Mapping[Kind, Kind] = {"fact": "message", "knowledge": "episode"}
"""The kind of the sources of each kind of derived records."""

_BATCH = 1_000  # records read at once

_find = partial(find_facts, newest_first=False, limit=10_000)
_Derived = Fact | Knowledge
_Record = TypeVar("_Record", bound=Forgettable)
_DOUBT_SHARE = 0.3  # of the doubt (1 - confidence) that each further source removes
_MIN_CONFIDENCE = 0.3  # of a fact that lost sources


@dataclass(frozen=True, slots=True)
class RecordReader:
    """Reads any number of a user's records in batches."""

    store: Store
    trash: Trash
    user: Scope

    def find(self, wanted: type[_Record], ids: Sequence[str]) -> list[_Record]:
        """Return the records of one type and these ids."""
        return list(find_by_ids(self.store, self.user, kind_of(wanted), ids))

    def scan(self, wanted: type[_Record], scope: Scope | None = None, **narrow: Any) -> Iterator[_Record]:
        """Yield all records of one type, oldest first; ``narrow`` are further parts of the query."""
        query = Query(scope=scope or self.user, kinds=(kind_of(wanted),), limit=_BATCH, **narrow)
        return cast("Iterator[_Record]", all_records(self.store, query))

    def scan_query(self, query: Query) -> Iterator[Forgettable]:
        """Yield all records that a query selects, oldest first within its kind."""
        for kind in query.kinds:
            of_kind = all_records(self.store, replace(query, kinds=(kind,), limit=_BATCH))
            yield from cast("Iterator[Forgettable]", of_kind)

    def derived_from(self, wanted: type[_Record], ids: Sequence[str]) -> Iterator[_Record]:
        """Yield the records of one type that derive from any of these sources, each once."""
        seen: set[str] = set()
        for batch in batched(ids):
            for record in self.scan(wanted, sources=tuple(batch)):
                if record.id not in seen:
                    seen.add(record.id)
                    yield record

    def scan_trash(
        self, kinds: Sequence[Kind] = FORGETTABLE, scope: Scope | None = None, **narrow: Any
    ) -> Iterator[Discarded]:
        """Yield what is in the trash; ``narrow`` are further parts of the query."""
        query = Query(scope=scope or self.user, kinds=tuple(kinds), limit=_BATCH, **narrow)
        for page in read_pages(partial(self.trash.walk, query)):
            yield from page.records

    def find_trashed(self, kind: Kind, ids: Sequence[str]) -> list[Discarded]:
        """Return what is in the trash of one kind and these ids."""
        query = Query(scope=self.user, kinds=(kind,), limit=_BATCH)
        batches = [self.trash.discarded(replace(query, ids=tuple(batch))) for batch in batched(ids)]
        return [entry for batch in batches for entry in batch]

    def dependents_in_trash(self, entries: Sequence[Discarded], keys: Sequence[Key] = ()) -> list[Discarded]:
        """Return what else in the trash must be erased with these entries and with the records of these keys.

        That is facts and knowledge with any of them among their sources, since they may quote it; the
        task of an episode and the episode of a task; tool calls and results.
        """
        known = {key_of(entry) for entry in entries}
        ids = known | {key for key in keys if key[0] in ("message", "episode", "task")}
        found = {key_of(entry): entry for entry in self.partners_in_trash(entries, ids)}
        found |= {key_of(entry): entry for entry in self.derived_in_trash(ids | set(found))}
        return [entry for key, entry in found.items() if key not in known]

    def partners_in_trash(self, entries: Sequence[Discarded], ids: Collection[Key]) -> list[Discarded]:
        """Return the tool calls and results, tasks and episodes in the trash that belong to entries."""
        calls: dict[str, set[str]] = {}
        for entry in entries:
            record = entry.record
            if isinstance(record, Message) and (record.tool_calls or record.role == "tool") and record.scope:
                calls.setdefault(record.scope.session_id or "", set()).add(record.id)
        partners: list[Discarded] = []
        for session_id, message_ids in calls.items():
            session = self.user.in_session(session_id)
            trashed = {entry.record.id: entry for entry in self.scan_trash(("message",), session)}
            messages = cast("list[Message]", [entry.record for entry in trashed.values()])
            partners += [trashed[message.id] for message in dependent_messages(messages, message_ids)]
        tasks = {entry.record.task_id for entry in entries if isinstance(entry.record, Episode)}
        tasks |= {id_ for kind, id_ in ids if kind == "task"}
        for entry in self.scan_trash(("task", "episode")) if tasks else ():
            record = entry.record
            task = record.id if isinstance(record, Task) else cast("Episode", record).task_id
            if task in tasks and key_of(entry) not in ids:
                partners.append(entry)
        return partners

    def derived_in_trash(self, ids: Collection[Key]) -> Iterator[Discarded]:
        """Yield the facts and knowledge in the trash that are in ``ids`` or derive from one of them."""
        for entry in self.scan_trash(tuple(DERIVED)):
            sources = sources_of(entry.record)
            if key_of(entry) in ids or any((DERIVED[entry.kind], id_) in ids for id_ in sources):
                yield entry

    def merge_trashed_sources(self, keys: Sequence[Key]) -> list[_Derived]:
        """Return the derived records of these keys, with the sources that older versions in the trash had."""
        merged: list[_Derived] = []
        for kind in DERIVED:
            ids = [id_ for other, id_ in keys if other == kind]
            before = {entry.record.id: sources_of(entry.record) for entry in self.find_trashed(kind, ids)}
            stored = find_by_ids(self.store, self.user, kind, before)
            merged += [with_sources(r, (*before[r.id], *sources_of(r))) for r in stored]
        return merged


def sources_of(record: Record) -> tuple[str, ...]:
    """Return the ids of the messages or episodes that a fact or knowledge derives from."""
    return record.sources if isinstance(record, Fact) else cast("Knowledge", record).source_episodes


def with_sources(record: _Derived, sources: Iterable[str]) -> _Derived:
    """Return the record with other sources."""
    ids = tuple(dict.fromkeys(sources))
    return replace(record, sources=ids) if isinstance(record, Fact) else replace(record, source_episodes=ids)


def dependent_messages(messages: Iterable[Message], removed: Collection[str]) -> list[Message]:
    """Return the calls and results of one session that no model would accept without the removed ones."""
    ordered = sorted(messages, key=lambda message: message.seq or 0)
    dependent: list[Message] = []
    for atom in atoms(ordered):
        members = [ordered[place] for place in atom.indices]
        if any(message.id in removed for message in members):
            dependent += [message for message in members if message.id not in removed]
    return dependent


def reduce_fact(fact: Fact, lost: Sequence[Message], left: Sequence[Message]) -> Fact | None:
    """Return a fact reduced to what the remaining messages say; None if they do not state it.

    It is None if a word of subject, predicate or object is in the lost messages alone; its text is
    cleared if a word of that is. Time, speaker and confidence follow the remaining messages. A message
    before the fact is only the question that it answers.
    """
    if not any(message.created_at is None or message.created_at >= fact.created_at for message in left):
        return None
    gone = {message.id for message in lost}
    lost_terms = terms_of(map(text_of, lost)) - terms_of(map(text_of, left))
    if terms_of([fact.search_text]) & lost_terms:
        return None
    confidence = fact.confidence
    for _ in set(fact.sources) & gone:
        confidence = max(_MIN_CONFIDENCE, (confidence - _DOUBT_SHARE) / (1 - _DOUBT_SHARE))
    first = min(left, key=lambda message: (message.created_at or fact.created_at, message.id))
    moments = {message.created_at for message in lost}
    created_at = first.created_at if fact.created_at in moments and first.created_at else fact.created_at
    speakers = {message.name or message.role for message in left}
    return replace(
        fact,
        sources=tuple(id_ for id_ in fact.sources if id_ not in gone),
        text="" if terms_of([fact.text]) & lost_terms else fact.text,
        speaker=fact.speaker if fact.speaker in speakers or not fact.speaker else first.name or first.role,
        created_at=created_at,
        valid_from=None if fact.valid_from in moments else fact.valid_from,
        confidence=min(confidence, fact.confidence),
    )


def earlier_versions(fact: Fact, find: Callable[[str], Sequence[Fact]]) -> Iterator[Fact]:
    """Yield the values that a fact had before a caller changed it, newest first; ``find`` takes an id."""
    older = fact.supersedes
    while older and (found := find(older)) and found[0].version_of == fact.id:
        yield found[0]
        older = found[0].supersedes


def relink_facts(
    store: Store, touched: Iterable[Fact], at: datetime, *, without: Collection[str] = ()
) -> list[Fact]:
    """Return facts whose links change, since facts of their slots were removed (``without``) or restored."""
    changed: dict[str, Fact] = {}
    names_of: dict[Scope, tuple[Names, Names]] = {}  # with and without the removed aliases
    done: set[tuple[Scope, str]] = set()  # entities
    for fact in touched:
        scope = user_scope(fact.scope)
        if scope not in names_of:
            aliases = _find(store, scope, predicate=ALIAS)
            left = [alias for alias in aliases if alias.id not in without]
            names_of[scope] = Names([*aliases, fact]), Names(left)
        names_before, names_left = names_of[scope]
        entities = [fact.subject]
        if is_alias(fact):
            names_before.join(fact)
            entities.append(fact.object)
        # What it ended, or made unsure, may have another subject.
        ended = _find(store, scope, ids=(fact.supersedes,)) if fact.supersedes else []
        unsure = _find(store, scope, fact_status=("unsure",))
        ended += [other for other in unsure if other.superseded_by == fact.id]
        for entity in [*entities, *(other.subject for other in ended)]:
            key = names_before.key(entity)
            if (scope, key) not in done:
                done.add((scope, key))
                facts = [f for name in names_before.of(entity) for f in _find(store, scope, subject=name)]
                left = [f for f in facts if f.id not in without]
                links = tuple({link for f in left for link in (f.supersedes, f.superseded_by) if link})
                linked = {f.id for f in _find(store, scope, ids=links)} if links else set()
                changed.update((f.id, f) for f in _relinked_slots(left, names_left, at, linked - {*without}))
    return list(changed.values())


def _relinked_slots(facts: Iterable[Fact], names: Names, at: datetime, linked: Collection[str]) -> list[Fact]:
    known = {fact.id: fact for fact in facts}
    slots = grouped((slot_of(fact, names), fact) for fact in known.values())
    relinked = (fact for slot in slots.values() for fact in relink(slot, at, elsewhere=linked))
    return [fact for fact in relinked if fact != known[fact.id]]


def text_of(record: Record) -> str:
    """Return all text of a record; that of a task with its context, steps and their arguments."""
    if isinstance(record, Summary):
        return record.text
    if not isinstance(record, Task):
        return str(getattr(record, "search_text", ""))
    parts: list[object] = [record.request, record.target, record.summary, *record.tags, record.context]
    for step in record.steps:
        parts += [step.description, step.tool_name, step.result, step.args]
    texts = [
        part if isinstance(part, str) else json.dumps(part, ensure_ascii=False, default=str)
        for part in parts
        if part
    ]
    return "\n".join(texts)
