"""Updates records on request, with everything derived from their old text."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, cast

from jiyi.errors import BadQuery, InputError, WrongState
from jiyi.extraction import Statement
from jiyi.long_term.facts.memory import FactMemory
from jiyi.long_term.facts.slots import NOTE, terms_of, value_key
from jiyi.long_term.finding import find_record
from jiyi.long_term.forgetting.plan import Learn, Plan, Rewrite
from jiyi.long_term.forgetting.provenance import RecordReader, relink_facts
from jiyi.records import ContentPart, Episode, Fact, Knowledge, Message, Query, Scope, Searchable
from jiyi.records.checks import check_metadata, new_id
from jiyi.storage import Amendment, Store, Trash, kind_of
from jiyi.text import TokenCounter
from jiyi.text.keys import entity_key, predicate_key

__all__ = ["Change", "Updating"]

_REASON = "its message was changed"
_MICROSECOND = timedelta(microseconds=1)
_MIN_CONFIDENCE = 0.9  # of a fact changed by the caller


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What to change; None leaves a field as it is. Raises `BadQuery` for nothing to change."""

    text: str | None = None
    object: str | None = None  # of facts
    metadata: Mapping[str, Any] | None = None  # all of it; {} for none
    importance: float | None = None  # of messages and episodes
    pinned: bool | None = None

    def __post_init__(self) -> None:
        if not self.changed_fields:
            raise BadQuery("say what to change: text=, object=, metadata=, importance= or pinned=")
        number = isinstance(self.importance, int | float) and not isinstance(self.importance, bool)
        if self.importance is not None and not (number and 0 <= self.importance <= 1):
            raise BadQuery(f"importance={self.importance!r} must be a number from 0 to 1")

    @property
    def changed_fields(self) -> tuple[str, ...]:
        """The names of the fields to change."""
        names = ("text", "object", "metadata", "importance", "pinned")
        return tuple(name for name in names if getattr(self, name) is not None)


_CHANGEABLE: Mapping[str, tuple[str, ...]] = {
    "message": ("text", "metadata", "importance", "pinned"),
    "episode": ("text", "importance", "pinned"),
    "knowledge": ("text", "metadata", "pinned"),
    "fact": ("text", "object", "metadata", "pinned"),
    "item": ("pinned",),
}
"""The fields of each kind that can be changed."""


@dataclass(frozen=True, slots=True)
class Updating:
    """Changes records; each change is one transaction: all of it happens, or nothing.

    - A message keeps its id and position, and is read again. Facts that its new text also states
      stay; those derived from it alone go to the trash, as when it is forgotten. Versions of summaries
      that covered it are deleted.
    - A fact keeps its id and has the new value from now on; the old value becomes another fact, a version
      of it, which it supersedes and which is forgotten with it. A text that means the same value only
      replaces the wording.
    - Knowledge gets the new text and loses its key points, which belonged to the old one.
    - The outcome of an episode is replaced. Knowledge with words that this removed is rewritten from
      its episodes.
    """

    store: Store
    trash: Trash  # of the same database
    facts: FactMemory  # extracts facts from texts
    _: KW_ONLY
    learn: Learn  # reads messages again
    rewrite: Rewrite  # rewrites knowledge from its episodes
    counter: TokenCounter  # counts the tokens of messages

    def update(self, scope: Scope, record_id: str, change: Change, at: datetime) -> Searchable:
        """Change a record and return its new state.

        Raises `NotFound` if the scope has no such record, `BadQuery` if its kind has no such field,
        `InputError` for metadata that cannot be stored, `WrongState` if the fact is no longer valid.
        """

        def update() -> Searchable:
            record = cast("Searchable", find_record(self.store, scope, record_id))
            kind = kind_of(record)
            unknown = [name for name in change.changed_fields if name not in _CHANGEABLE.get(kind, ())]
            if unknown:
                can = ", ".join(_CHANGEABLE[kind]) if kind in _CHANGEABLE else "see update_task"
                raise BadQuery(f"{record_id!r} is a {kind} and has no {unknown[0]} to change; it has: {can}")
            self._apply(record, change, at)
            return cast("Searchable", find_record(self.store, scope, record_id))

        return self.store.together(update)

    def _apply(self, record: Searchable, change: Change, at: datetime) -> None:
        labels = None if change.metadata is None else check_metadata(change.metadata, InputError)
        match record:
            case Message():
                self._change_message(record, change, labels, at)
                return
            case Fact():
                changed: list[Searchable] = [*self._change_fact(record, change, at)]
            case Knowledge() if change.text is not None:
                changed = [replace(record, content=change.text, key_points=(), updated_at=at)]
            case Episode() if change.text is not None:
                changed = [replace(record, outcome_summary=change.text)]
            case _:
                changed = [record]
        fields = {"pinned": change.pinned, "metadata": labels, "importance": change.importance}
        given: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
        changed[0] = replace(changed[0], **given)
        self.store.put(changed)
        if isinstance(record, Fact):
            self.store.put(relink_facts(self.store, cast("list[Fact]", changed), at))
        elif isinstance(record, Episode):
            self._rewrite_knowledge(record, cast("Episode", changed[0]), at)

    def _change_message(
        self, old: Message, change: Change, labels: Mapping[str, Any] | None, at: datetime
    ) -> None:
        assert old.scope is not None, "stored messages have a scope"
        new = old if change.text is None else replace(old, content=_with_text(old, change.text))
        if labels is not None:
            others = {name: value for name, value in old.extra.items() if name != "metadata"}
            new = replace(new, extra={**others, "metadata": labels} if labels else others)
        user = Scope(user_id=old.scope.user_id)
        if new != old:
            self._replace_message(user, old, new, at)
        amendment = Amendment(id=old.id, importance=change.importance, pinned=change.pinned)
        self.store.amend(user, "message", [amendment])

    def _replace_message(self, user: Scope, old: Message, new: Message, at: datetime) -> None:
        """Replace a message by another with its id; read it again if its text changed."""
        new = self.counter.counted(replace(new, tokens=None, tokens_by=None))
        reader, plan = RecordReader(self.store, self.trash, user), None
        if old.search_text != new.search_text:
            kept_facts = self._keep_restated_facts(reader, old, new)
            plan = Plan(reader, _REASON, at, self.rewrite, [old], kept_facts=kept_facts).build(())
            plan.to_relearn[new.id] = new
        self.store.delete(Query(scope=user, kinds=("message",), ids=(old.id,), limit=1))
        self.store.put_back([new])
        if plan is not None:
            plan.carry_out(self.learn)

    def _keep_restated_facts(self, reader: RecordReader, old: Message, new: Message) -> list[str]:
        """Give the facts that the new text also states its wording; return their ids."""
        statements = chain.from_iterable(self.facts.stated([new]).values())
        by_meaning = {_meaning(s): s for s in statements if s.action == "state"}
        kept = [fact for fact in reader.derived_from(Fact, [old.id]) if _meaning(fact) in by_meaning]
        self.store.put([replace(fact, text=by_meaning[_meaning(fact)].quote or fact.text) for fact in kept])
        return [fact.id for fact in kept]

    def _change_fact(self, fact: Fact, change: Change, at: datetime) -> list[Fact]:
        """Return the changed fact and, if its value differs, the superseded fact with the old value."""
        if change.text is None and change.object is None:
            return [fact]
        if fact.status not in ("active", "unsure"):
            by = f", {fact.superseded_by!r} took its place" if fact.superseded_by else ""
            raise WrongState(f"the fact {fact.id!r} is {fact.status}{by}; update what holds, or remember it")
        new = self._read_change(fact, change, at)
        if _meaning(new)[:3] == _meaning(fact)[:3]:
            return [replace(fact, object=new.object, text=new.text)]
        at = max(at, fact.created_at + _MICROSECOND)  # clocks of several programs may disagree
        begins = fact.valid_from if fact.valid_from and fact.valid_from > at else None
        ended: dict[str, Any] = {"status": "superseded", "superseded_by": fact.id, "valid_to": begins or at}
        before = replace(fact, id=new_id(), version_of=fact.id, pinned=False, **ended)
        new = replace(
            new,
            created_at=at,
            valid_from=new.valid_from or begins,
            sources=(),
            status="active",
            confidence=max(fact.confidence, _MIN_CONFIDENCE),
            supersedes=before.id,
            superseded_by=None,
            method="said",
        )
        return [new, before]

    def _read_change(self, fact: Fact, change: Change, at: datetime) -> Fact:
        """Return a fact with the new value of a change, or with what the new text states."""
        value = change.object
        if value is None:
            starts = (f"{fact.subject} {fact.predicate} ", f"{fact.subject} · {fact.predicate}: ")
            text = cast("str", change.text).strip()
            value = next((text.removeprefix(start) for start in starts if text.startswith(start)), None)
        if value is not None:
            note = value if predicate_key(fact.predicate) == predicate_key(NOTE) else ""
            return replace(fact, object=value.strip(), text=note, valid_from=None)
        statements = self.facts.read_text(text, fact.speaker or "user", at)
        about = [s for s in statements if entity_key(s.subject) == entity_key(fact.subject)]
        key = predicate_key(fact.predicate)
        same = [statement for statement in about if predicate_key(statement.predicate) == key]
        if len(about) == 1 or same:
            statement = (same or about)[0]
            names = ("predicate", "object", "category", "valid_from", "valid_to")
            return replace(fact, text=text, **{name: getattr(statement, name) for name in names})
        return replace(fact, predicate=NOTE, object=text, category="note", text=text, valid_from=None)

    def _rewrite_knowledge(self, old: Episode, new: Episode, at: datetime) -> None:
        lost = terms_of([old.search_text]) - terms_of([new.search_text])
        reader = RecordReader(self.store, self.trash, Scope(user_id=old.scope.user_id))
        for knowledge in list(reader.derived_from(Knowledge, [old.id])) if lost else ():
            rewritten = self.rewrite(knowledge) if terms_of([knowledge.search_text]) & lost else None
            if rewritten is not None:
                self.store.put([replace(rewritten, updated_at=at)])


def _with_text(message: Message, text: str) -> str | tuple[ContentPart, ...]:
    """Return a message's content with another text; images and audio stay."""
    if message.content is None or isinstance(message.content, str):
        return text
    kept = [p for p in message.content if not isinstance(p.get("text") or p.get("refusal"), str)]
    return ({"type": "text", "text": text}, *kept)


def _meaning(item: Fact | Statement) -> tuple[object, ...]:
    """Return a key that is equal for facts and statements that say the same for the same time."""
    value = entity_key(item.subject), predicate_key(item.predicate), value_key(item.object)
    return (*value, item.category, item.valid_from, item.valid_to)
