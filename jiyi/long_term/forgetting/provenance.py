"""A user's records, present and in the trash: what rests on what, and what changes when that goes."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar, cast

from jiyi.long_term.facts.lookup import find_facts, user_scope
from jiyi.long_term.facts.slots import ALIAS, Names, Slot, is_alias, slot_of, terms_of
from jiyi.long_term.facts.timeline import relink
from jiyi.records import (
    FORGETTABLE,
    Episode,
    Fact,
    Kind,
    Knowledge,
    Message,
    Query,
    Record,
    Scope,
    Searchable,
    Summary,
    Task,
)
from jiyi.records.atoms import atoms
from jiyi.storage import Discarded, Key, Store, Trash, key_of, kind_of
from jiyi.storage.pages import all_records, read_pages

__all__ = [
    "DERIVED",
    "Forgettable",
    "Rows",
    "hanging_on",
    "joined_messages",
    "mended",
    "partners_in_trash",
    "pieces",
    "resting_in_trash",
    "sources_of",
    "text_of",
    "with_older_sources",
    "with_sources",
    "without_messages",
]

Forgettable = Searchable | Task | Summary
DERIVED: Mapping[Kind, Kind] = {"fact": "message", "knowledge": "episode"}
"""What each kind of derived records rests on."""

_PIECE = 1_000  # records read at once

_find = partial(find_facts, newest_first=False, limit=10_000)
_Item = TypeVar("_Item")
_Record = TypeVar("_Record", bound=Forgettable)
_SHARE = 0.3  # of the doubt, which one source more takes away and one less gives back
_LEAST = 0.3  # confidence in what somebody said, whatever went


@dataclass(frozen=True, slots=True)
class Rows:
    """Reads any number of a user's records, a thousand at a time."""

    store: Store
    trash: Trash
    user: Scope

    def find(self, wanted: type[_Record], ids: Sequence[str]) -> list[_Record]:
        """Return the records of one type and these ids."""
        return cast("list[_Record]", self.of_kind(kind_of(wanted), ids))

    def of_kind(self, kind: Kind, ids: Sequence[str], scope: Scope | None = None) -> list[Forgettable]:
        """Return the records of one kind and these ids, in the whole memory or in a scope."""
        found: list[Any] = []
        for piece in pieces(list(dict.fromkeys(ids))):
            query = Query(scope=scope or self.user, kinds=(kind,), ids=tuple(piece), limit=_PIECE)
            found += self.store.find(query)
        return found

    def scan(self, wanted: type[_Record], scope: Scope | None = None, **narrow: Any) -> Iterator[_Record]:
        """Give all records of one type, oldest first; ``narrow`` are further parts of the query."""
        query = Query(scope=scope or self.user, kinds=(kind_of(wanted),), limit=_PIECE, **narrow)
        return cast("Iterator[_Record]", self.scan_query(query))

    def scan_query(self, query: Query) -> Iterator[Forgettable]:
        """Give all records of one kind that a query describes, oldest first; its limit is a page's."""
        return cast("Iterator[Forgettable]", all_records(self.store, query))

    def resting_on(self, wanted: type[_Record], ids: Sequence[str]) -> Iterator[_Record]:
        """Give the records of one type that rest on any of these sources, each once."""
        seen: set[str] = set()
        for piece in pieces(ids):
            for record in self.scan(wanted, sources=tuple(piece)):
                if record.id not in seen:
                    seen.add(record.id)
                    yield record

    def in_trash(
        self, kinds: Sequence[Kind] = FORGETTABLE, scope: Scope | None = None, **narrow: Any
    ) -> Iterator[Discarded]:
        """Give what lies in the trash; ``narrow`` are further parts of the query."""
        query = Query(scope=scope or self.user, kinds=tuple(kinds), limit=_PIECE, **narrow)
        for page in read_pages(lambda after: self.trash.walk(query, after or 0)):
            yield from page.entries

    def in_trash_by_ids(self, kind: Kind, ids: Sequence[str]) -> list[Discarded]:
        """Return what lies in the trash of one kind and these ids."""
        found: list[Discarded] = []
        for piece in pieces(ids):
            query = Query(scope=self.user, kinds=(kind,), ids=tuple(piece), limit=len(piece))
            found += self.trash.discarded(query)
        return found


def pieces(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """Give a sequence in pieces of at most 1,000."""
    for start in range(0, len(items), _PIECE):
        yield items[start : start + _PIECE]


def sources_of(record: Fact | Knowledge) -> tuple[str, ...]:
    """Return the ids of the messages or episodes it rests on."""
    return record.sources if isinstance(record, Fact) else record.source_episodes


def with_sources(record: Fact | Knowledge, sources: Iterable[str]) -> Fact | Knowledge:
    """Return it resting on these."""
    name = "sources" if isinstance(record, Fact) else "source_episodes"
    changed: dict[str, Any] = {name: tuple(dict.fromkeys(sources))}
    return replace(record, **changed)


def joined_messages(messages: Iterable[Message], taken: Collection[str]) -> list[Message]:
    """Return the messages of one session that no model would accept without those that are taken."""
    ordered = sorted(messages, key=lambda message: message.seq or 0)
    out: list[Message] = []
    for atom in atoms(ordered):
        members = [ordered[place] for place in atom.indices]
        if any(message.id in taken for message in members):
            out += [message for message in members if message.id not in taken]
    return out


def hanging_on(rows: Rows, entries: Sequence[Discarded], keys: Sequence[Key] = ()) -> list[Discarded]:
    """Return what else in the trash goes for good with these entries, and with records of these keys.

    Facts and knowledge that rest on one of them, even among others, for their words may be its
    words; the task of an episode and the episode of a task; calls and results.
    """
    known = {key_of(entry) for entry in entries}
    ids = known | {key for key in keys if key[0] in ("message", "episode", "task")}
    found = {key_of(entry): entry for entry in partners_in_trash(rows, entries, ids)}
    found |= {key_of(entry): entry for entry in resting_in_trash(rows, ids | set(found))}
    return [entry for key, entry in found.items() if key not in known]


def partners_in_trash(rows: Rows, entries: Sequence[Discarded], ids: Collection[Key]) -> list[Discarded]:
    """Return the calls and results in the trash that belong to entries, and the tasks and episodes.

    Those of the tasks in ``ids`` too, but nothing that is in ``ids`` itself.
    """
    calls: dict[str, set[str]] = {}
    for entry in entries:
        record = entry.record
        if isinstance(record, Message) and (record.tool_calls or record.role == "tool") and record.scope:
            calls.setdefault(record.scope.session_id or "", set()).add(record.id)
    out: list[Discarded] = []
    for session_id, taken in calls.items():
        lying = {e.record.id: e for e in rows.in_trash(("message",), rows.user.in_session(session_id))}
        messages = cast("list[Message]", [entry.record for entry in lying.values()])
        out += [lying[message.id] for message in joined_messages(messages, taken)]
    tasks = {entry.record.task_id for entry in entries if isinstance(entry.record, Episode)}
    tasks |= {id_ for kind, id_ in ids if kind == "task"}
    for entry in rows.in_trash(("task", "episode")) if tasks else ():
        record = entry.record
        task = record.id if isinstance(record, Task) else cast("Episode", record).task_id
        if task in tasks and key_of(entry) not in ids:
            out.append(entry)
    return out


def resting_in_trash(rows: Rows, ids: Collection[Key]) -> Iterator[Discarded]:
    """Give facts and knowledge in the trash that are among these or rest on one of them."""
    for entry in rows.in_trash(tuple(DERIVED)):
        sources = sources_of(cast("Fact | Knowledge", entry.record))
        if key_of(entry) in ids or any((DERIVED[entry.kind], id_) in ids for id_ in sources):
            yield entry


def with_older_sources(rows: Rows, keys: Sequence[Key]) -> list[Fact | Knowledge]:
    """Return facts and knowledge of these keys that lie in the trash in an older form, with its sources too.

    So that the form that takes its place there is found again by each source it ever had.
    """
    out: list[Fact | Knowledge] = []
    for kind in DERIVED:
        ids = [id_ for other, id_ in keys if other == kind]
        older = {entry.record.id: entry.record for entry in rows.in_trash_by_ids(kind, ids)}
        for record in cast("list[Fact | Knowledge]", rows.of_kind(kind, list(older))):
            before = sources_of(cast("Fact | Knowledge", older[record.id]))
            out.append(with_sources(record, (*before, *sources_of(record))))
    return out


def without_messages(fact: Fact, lost: Sequence[Message], left: Sequence[Message]) -> Fact | None:
    """Return a fact as far as it rests on the messages that are left; None where they do not say it.

    Subject, point and value stay only if no word of them is in the lost messages alone; nor
    does the clause it was read from. When it was said, by whom, and how sure it is follow the
    messages that are left. What was said before the fact is only the question it answers.
    """
    if not any(message.created_at is None or message.created_at >= fact.created_at for message in left):
        return None
    gone = {message.id for message in lost}
    secret = terms_of(map(text_of, lost)) - terms_of(map(text_of, left))
    if terms_of([fact.search_text]) & secret:
        return None
    confidence = fact.confidence
    for _ in set(fact.sources) & gone:
        confidence = max(_LEAST, (confidence - _SHARE) / (1 - _SHARE))
    first = min(left, key=lambda message: (message.created_at or fact.created_at, message.id))
    moments = {message.created_at for message in lost}
    said = first.created_at if fact.created_at in moments and first.created_at else fact.created_at
    speakers = {message.name or message.role for message in left}
    return replace(
        fact,
        sources=tuple(id_ for id_ in fact.sources if id_ not in gone),
        text="" if terms_of([fact.text]) & secret else fact.text,
        speaker=fact.speaker if fact.speaker in speakers or not fact.speaker else first.name or first.role,
        created_at=said,
        valid_from=None if fact.valid_from in moments else fact.valid_from,
        confidence=min(confidence, fact.confidence),
    )


def mended(
    store: Store, touched: Iterable[Fact], at: datetime, *, without: Collection[str] = ()
) -> list[Fact]:
    """Return the facts that change when ``touched``, of the same slots, went or came back.

    ``without`` are ids of facts that are still there and count as gone.
    """
    changed: dict[str, Fact] = {}
    known: dict[Scope, tuple[Names, Names]] = {}
    done: set[tuple[Scope, str]] = set()
    for fact in touched:
        scope = user_scope(fact.scope)
        if scope not in known:
            aliases = _find(store, scope, predicate=ALIAS)
            known[scope] = (
                Names([*aliases, fact]),
                Names(alias for alias in aliases if alias.id not in without),
            )
        before, after = known[scope]
        if is_alias(fact):
            before.join(fact)
        things = [fact.subject, fact.object] if is_alias(fact) else [fact.subject]
        things += [one.subject for one in _ended_by(store, scope, fact)]
        for thing in things:
            key = before.key(thing)
            if (scope, key) not in done:
                done.add((scope, key))
                facts = [f for name in before.of(thing) for f in _find(store, scope, subject=name)]
                there = [f for f in facts if f.id not in without]
                links = tuple({link for f in there for link in (f.supersedes, f.superseded_by) if link})
                linked = {f.id for f in _find(store, scope, ids=links)} if links else set()
                changed.update((one.id, one) for one in _in_order(there, after, at, linked - {*without}))
    return list(changed.values())


def _ended_by(store: Store, scope: Scope, fact: Fact) -> list[Fact]:
    """Return the facts of other slots whose place a fact has taken, or may have."""
    unsure = _find(store, scope, fact_status=("unsure",))
    ended = _find(store, scope, ids=(fact.supersedes,)) if fact.supersedes else []
    return [*ended, *(one for one in unsure if one.superseded_by == fact.id)]


def _in_order(facts: Iterable[Fact], names: Names, at: datetime, linked: Collection[str]) -> list[Fact]:
    known = {fact.id: fact for fact in facts}
    slots: dict[Slot, list[Fact]] = {}
    for fact in known.values():
        slots.setdefault(slot_of(fact, names), []).append(fact)
    return [
        new for slot in slots.values() for new in relink(slot, at, elsewhere=linked) if new != known[new.id]
    ]


def text_of(record: Record) -> str:
    """Return all words of a record; those of a task with its notes, steps and their arguments."""
    if isinstance(record, Summary):
        return record.text
    if not isinstance(record, Task):
        return str(getattr(record, "search_text", ""))
    parts = [record.request, record.target, record.summary, *record.tags, _written(record.context)]
    for step in record.steps:
        parts += [step.description, step.tool_name, step.result, _written(step.args)]
    return "\n".join(filter(None, parts))


def _written(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str) if value else ""
