"""Merging new statements into known facts: reinforced, superseded, retracted, never deleted."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from jiyi.extraction import Statement
from jiyi.extraction.attribution import ownerless_point
from jiyi.long_term.facts.references import facts_to_end, facts_to_retract, resolve_revert, resolve_slot
from jiyi.long_term.facts.slots import ALIAS, OWNER, Names, Slot, slot_of
from jiyi.long_term.facts.timeline import insert_fact, is_temporary, relink, start_of
from jiyi.records import Fact, FactMethod, Scope

__all__ = ["Learned", "combine", "merge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What was learned from messages or from what the caller said."""

    facts: tuple[Fact, ...] = ()  # every fact that is new or changed, as stored
    new: tuple[str, ...] = ()  # ids of facts that were not known
    reinforced: tuple[str, ...] = ()  # ids of facts that were said again
    superseded: tuple[str, ...] = ()  # ids of facts that a newer one replaced
    retracted: tuple[str, ...] = ()  # ids
    revived: tuple[str, ...] = ()  # ids of facts that hold again
    kept: str | None = None  # id of the fact with all of a remembered text
    passed: int = 0  # statements that changed nothing: already known, or about nothing known
    method: FactMethod = "patterns"  # how the messages were read
    notes: tuple[str, ...] = ()  # problems, such as why the model was not used


def combine(parts: Sequence[Learned], **same: Any) -> Learned:
    """Combine receipts into one; ``same`` are fields with one value for all of them."""
    lists = ("facts", "new", "reinforced", "superseded", "retracted", "revived")
    fields: dict[str, Any] = {name: tuple(x for part in parts for x in getattr(part, name)) for name in lists}
    return Learned(passed=sum(part.passed for part in parts), **fields, **same)


@dataclass(slots=True)
class _Ledger:
    now: datetime
    source_times: Mapping[str, datetime]
    facts: dict[str, Fact]
    names: Names
    is_partial: bool = False  # some slots have only the facts nearest in time
    slots: dict[Slot, dict[str, Fact]] = field(default_factory=dict)  # the same facts, by slot and id
    reinforced: list[str] = field(default_factory=list)
    retracted: list[str] = field(default_factory=list)
    passed: int = 0

    def rebuild_slots(self) -> None:
        """Put every fact into its slot: at the start, and after two names became one."""
        self.slots.clear()
        for fact in list(self.facts.values()):
            self.put(fact)

    def facts_in(self, slot: Slot) -> list[Fact]:
        return list(self.slots.get(slot, {}).values())

    def relink(self, facts: Iterable[Fact]) -> None:
        for fact in relink(list(facts), self.now, part=self.is_partial):
            self.put(fact)

    def put(self, fact: Fact) -> None:
        self.facts[fact.id] = fact
        self.slots.setdefault(slot_of(fact, self.names), {})[fact.id] = fact

    def add(self, fact: Fact, *, by_person: bool = True, corrects: bool = False) -> None:
        slot = self.facts_in(slot_of(fact, self.names))
        facts, id_ = insert_fact(slot, fact, self.source_times, corrects=corrects)
        if id_ is None:
            self.passed += 1
            return
        if id_ != fact.id:
            self.reinforced.append(id_)
        self.relink(facts)
        if by_person:
            self.supersede_others(self.facts[id_])
        if self.names.join(fact):  # the slots of two names become one
            self.rebuild_slots()
            key = self.names.key(fact.subject)
            for joined_slot in [slot for slot in self.slots if slot[0] == key]:
                self.relink(self.facts_in(joined_slot))

    def supersede_others(self, fact: Fact) -> None:
        """Supersede what others, except the owner, said about the same point."""
        *point, voice = slot_of(fact, self.names)
        if fact.status != "active" or is_temporary(fact):
            return
        others = [slot for slot in self.slots if slot[:3] == tuple(point) and slot[3] not in (voice, OWNER)]
        begins = start_of(fact)
        for slot in others:
            for other in self.facts_in(slot):
                earlier = other.status == "active" and start_of(other) < begins <= self.now
                if earlier and not (is_temporary(other) or other.pinned):
                    self.put(replace(other, status="superseded", superseded_by=fact.id, valid_to=begins))

    def end(self, facts: Sequence[Fact], when: datetime) -> None:
        self.retract([fact for fact in facts if start_of(fact) > when], when)  # planned, and called off
        for fact in (fact for fact in facts if start_of(fact) <= when):
            self.put(replace(fact, valid_to=when, status="expired" if when <= self.now else fact.status))

    def retract(self, facts: Sequence[Fact], when: datetime) -> None:
        for fact in facts:
            slot = slot_of(fact, self.names)
            self.put(replace(fact, status="retracted", valid_to=max(when, fact.created_at)))
            self.retracted.append(fact.id)
            self.relink(self.facts_in(slot))


def merge(
    new: Iterable[Statement],
    known: Iterable[Fact],
    at: datetime,
    *,
    scope: Scope,
    method: FactMethod = "patterns",
    said: Mapping[str, datetime] | None = None,
    part: bool = False,
) -> Learned:
    """Return the changes that statements make to known facts; pure.

    - The same value again: more confidence and one more source; the same source twice changes nothing.
    - Another value: the older one is superseded, with links both ways, and ends where the newer
      begins. What counts is the time from which a fact holds, not when it arrived.
    - By another speaker: a person's statement replaces those of other people, assistants and tools,
      but not those of the owner of the memory, who speaks without a name. An assistant or a tool
      replaces only what it said itself.
    - Temporary: the lasting fact stays, and holds again afterwards.
    - Retracted: what the fact had superseded is active again.
    - Back to the old value: a new fact with it.

    Nothing is deleted. Statements without a subject that fit nothing known, or several things, are skipped.

    Args:
        new: in the order they were said.
        known: facts of one user: all about the same subjects, and those a retraction may mean.
        at: now; what begins later does not supersede yet.
        scope, method: of new facts.
        said: the times of the source messages of known facts, as far as known.
        part: ``known`` has only the facts nearest in time of slots with many.
    """
    before = {fact.id: fact for fact in known}
    ledger = _Ledger(at, dict(said or {}), dict(before), Names(before.values()), is_partial=part)
    ledger.rebuild_slots()
    for statement in new:
        if statement.source:
            ledger.source_times = {**ledger.source_times, statement.source: statement.said_at}
        _apply(ledger, statement, scope, method)
    changed = [fact for id_, fact in ledger.facts.items() if before.get(id_) != fact]
    became = [(before[fact.id].status, fact) for fact in changed if fact.id in before]
    return Learned(
        facts=tuple(changed),
        new=tuple(fact.id for fact in changed if fact.id not in before),
        reinforced=tuple(dict.fromkeys(id_ for id_ in ledger.reinforced if id_ in before)),
        superseded=tuple(fact.id for was, fact in became if was != fact.status == "superseded"),
        retracted=tuple(dict.fromkeys(ledger.retracted)),
        revived=tuple(fact.id for was, fact in became if was == "superseded" and fact.status == "active"),
        passed=ledger.passed,
        method=method,
    )


def _apply(ledger: _Ledger, statement: Statement, scope: Scope, method: FactMethod) -> None:
    facts = list(ledger.facts.values())
    if statement.action == "retract":
        gone = facts_to_retract(statement, facts, ledger.names, scope.session_id)
        ledger.passed += not gone
        ledger.retract(gone, statement.said_at)
        return
    whole: Statement | None = statement
    rule = statement.category == "rule"
    if rule or statement.action in ("end", "over"):
        ended = facts_to_end(statement, facts, ledger.names)
        ledger.end(ended, statement.said_at)
        if statement.action == "over" or (rule and not statement.object):  # it only takes back
            ledger.passed += not ended
            return
    if statement.action == "revert":
        whole = resolve_revert(statement, facts, ledger.names)
    elif statement.action == "rename":
        whole = replace(statement, predicate=ALIAS, category="relation")
    elif statement.vague and statement.action == "state":
        whole, ended = resolve_slot(statement, facts, ledger.names)
        ledger.end(ended, statement.said_at)
    elif statement.action == "state" and method != "llm" and (point := ownerless_point(statement)):
        bare = replace(statement, subject="", predicate=point, speaker="")
        owned, _ = resolve_slot(bare, facts, ledger.names)
        whole = replace(owned, speaker=statement.speaker) if owned and owned.subject else statement
    if whole is None or not (whole.subject and whole.predicate and whole.object):
        ledger.passed += 1
        return
    ledger.add(_fact(whole, scope, method), by_person=whole.by_person, corrects=whole.corrects)


def _fact(statement: Statement, scope: Scope, method: FactMethod) -> Fact:
    same = ("subject", "predicate", "object", "category", "valid_from", "valid_to", "confidence")
    return Fact(
        scope=scope,
        created_at=statement.said_at,
        text=statement.quote,
        speaker=statement.speaker or None,
        sources=tuple(filter(None, (statement.replies_to, statement.source))),
        method=method,
        **{name: getattr(statement, name) for name in same},
    )
