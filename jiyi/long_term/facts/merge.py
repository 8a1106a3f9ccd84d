"""Merging new statements into known facts: reinforced, superseded, retracted, never deleted."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from jiyi.extraction import Statement
from jiyi.long_term.facts.references import ended_by, meant_by, reverted_to, slot_meant
from jiyi.long_term.facts.slots import ALIAS, OWNER, Names, Slot, slot_of
from jiyi.long_term.facts.timeline import inserted, is_temporary, relinked, start_of
from jiyi.records import Fact, FactMethod, Scope

__all__ = ["Learned", "joined", "merge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What was learned from messages, or from what the caller said."""

    facts: tuple[Fact, ...] = ()  # every fact that is new or changed, as stored
    new: tuple[str, ...] = ()  # ids of facts that were not known
    reinforced: tuple[str, ...] = ()  # ids of facts that were said again
    superseded: tuple[str, ...] = ()  # ids of facts whose place a newer one took
    retracted: tuple[str, ...] = ()  # ids of facts that were taken back
    revived: tuple[str, ...] = ()  # ids of facts that hold again
    kept: str | None = None  # id of the fact that holds the whole of what was told to remember
    passed: int = 0  # statements that changed nothing: known already, or about nothing known
    method: FactMethod = "patterns"  # how the messages were read
    notes: tuple[str, ...] = ()  # what was not as it should be, such as why the model was not used


def joined(parts: Sequence[Learned], **same: Any) -> Learned:
    """Return several receipts as one; ``same`` are the fields that hold for all of them."""
    lists = ("facts", "new", "reinforced", "superseded", "retracted", "revived")
    whole: dict[str, Any] = {name: tuple(x for part in parts for x in getattr(part, name)) for name in lists}
    return Learned(passed=sum(part.passed for part in parts), **whole, **same)


@dataclass(slots=True)
class _Ledger:
    at: datetime
    said: Mapping[str, datetime]
    facts: dict[str, Fact]
    names: Names
    part: bool = False  # of some slots only the facts nearest in time are here
    slots: dict[Slot, dict[str, Fact]] = field(default_factory=dict)  # the same facts, by slot and id
    reinforced: list[str] = field(default_factory=list)
    retracted: list[str] = field(default_factory=list)
    passed: int = 0

    def sort(self) -> None:
        """Put every fact into its slot: at first, and where two names have become one."""
        self.slots.clear()
        for fact in list(self.facts.values()):
            self.note(fact)

    def slot(self, slot: Slot) -> list[Fact]:
        return list(self.slots.get(slot, {}).values())

    def write(self, facts: Iterable[Fact]) -> None:
        for fact in relinked(list(facts), self.at, part=self.part):
            self.note(fact)

    def note(self, fact: Fact) -> None:
        self.facts[fact.id] = fact
        self.slots.setdefault(slot_of(fact, self.names), {})[fact.id] = fact

    def add(self, fact: Fact, *, by_person: bool = True, corrects: bool = False) -> None:
        slot = self.slot(slot_of(fact, self.names))
        facts, id_ = inserted(slot, fact, self.said, corrects=corrects)
        if id_ is None:
            self.passed += 1
            return
        if id_ != fact.id:
            self.reinforced.append(id_)
        self.write(facts)
        if by_person:
            self.outweigh(self.facts[id_])
        if self.names.join(fact):  # the slots of two names become one
            self.sort()
            key = self.names.key(fact.subject)
            for joined_slot in [slot for slot in self.slots if slot[0] == key]:
                self.write(self.slot(joined_slot))

    def outweigh(self, fact: Fact) -> None:
        """Let what a person says take the place of what others, but not the owner, said of the same point."""
        *point, voice = slot_of(fact, self.names)
        if fact.status != "active" or is_temporary(fact):
            return
        others = [slot for slot in self.slots if slot[:3] == tuple(point) and slot[3] not in (voice, OWNER)]
        begins = start_of(fact)
        for slot in others:
            for other in self.slot(slot):
                earlier = other.status == "active" and start_of(other) < begins <= self.at
                if earlier and not (is_temporary(other) or other.pinned):
                    self.note(replace(other, status="superseded", superseded_by=fact.id, valid_to=begins))

    def end(self, facts: Sequence[Fact], when: datetime) -> None:
        for fact in facts:
            self.note(replace(fact, valid_to=when, status="expired" if when <= self.at else fact.status))

    def retract(self, facts: Sequence[Fact], when: datetime) -> None:
        for fact in facts:
            slot = slot_of(fact, self.names)
            self.note(replace(fact, status="retracted", valid_to=max(when, fact.created_at)))
            self.retracted.append(fact.id)
            self.write(self.slot(slot))


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
    """Return what statements change in what is known; pure.

    - The same value again: more confidence and one more source; the same source twice changes nothing.
    - Another value: the older one is superseded, with links both ways, and ends where the newer
      begins. What counts is the time from which it holds, not when it arrived.
    - By somebody else: a person's statement replaces what other people, assistants and tools
      said, but not what the owner of the memory said, who speaks without a name. That of an
      assistant or a tool ends nobody else's.
    - For a while only: the lasting one stays, and holds again afterwards.
    - Taken back: the fact is retracted, and what it had superseded is active again.
    - Back to the old value: a new fact with it.

    Nothing is deleted. Statements without a subject that fit nothing known, or several things, are skipped.

    Args:
        new: in the order they were said.
        known: of one user: all facts about what they are about, and those a retraction may mean.
        at: now: what begins later does not supersede yet.
        scope, method: of new facts.
        said: when the messages that known facts rest on were said, where that is known.
        part: of slots with many facts ``known`` has only those nearest in time.
    """
    before = {fact.id: fact for fact in known}
    ledger = _Ledger(
        at=at, said=dict(said or {}), facts=dict(before), names=Names(before.values()), part=part
    )
    ledger.sort()
    for statement in new:
        if statement.source:
            ledger.said = {**ledger.said, statement.source: statement.said_at}
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
        gone = meant_by(statement, facts, ledger.names, scope.session_id)
        ledger.passed += not gone
        ledger.retract(gone, statement.said_at)
        return
    whole: Statement | None = statement
    rule = statement.category == "rule"
    if rule or statement.action in ("end", "over"):
        ended = ended_by(statement, facts, ledger.names)
        ledger.end(ended, statement.said_at)
        if rule and not statement.object:  # it only takes back
            ledger.passed += not ended
            return
        if statement.action == "over":
            return
    if statement.action == "revert":
        whole = reverted_to(statement, facts, ledger.names)
    elif statement.action == "rename":
        whole = replace(statement, predicate=ALIAS, category="relation")
    elif statement.vague and statement.action == "state":
        whole, ended = slot_meant(statement, facts, ledger.names)
        ledger.end(ended, statement.said_at)
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
