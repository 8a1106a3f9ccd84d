"""Statements and facts in few words."""

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from jiyi.extraction import Statement
from jiyi.long_term.facts.memory import FactMemory
from jiyi.long_term.facts.merge import Learned, merge
from jiyi.long_term.facts.slots import Names
from jiyi.long_term.facts.timeline import facts_holding
from jiyi.records import Fact, Message, Scope

ANA = Scope(user_id="ana")
SCOPE = HERE = ANA.in_session("s")
START = datetime(2026, 1, 1, tzinfo=UTC)
_numbers = count()


def at(day: float) -> datetime:
    return START + timedelta(days=day)


def hear(memory: FactMemory, text: str, when: datetime, **fields: Any) -> Learned:
    """Store what is said in a session and learn from it."""
    message = Message(content=text, created_at=when, scope=HERE, **{"role": "user", **fields})
    with memory.store.transaction():
        return memory.learn(memory.store.put([message]))


def states(
    value: str, day: float, *, subject: str = "edge-02", point: str = "port", **more: Any
) -> Statement:
    told = {"speaker": "Ana", "said_at": at(day), "source": f"m-{next(_numbers)}"} | more
    return Statement(subject=subject, predicate=point, object=value, **told)


def takes_back(quote: str, day: float, **fields: Any) -> Statement:
    return Statement(category="note", quote=quote, said_at=at(day), speaker="Ana", action="retract", **fields)


def says_of(subject: str, value: str, day: float, **fields: Any) -> Statement:
    """A statement about a thing that names no point of it: a change, a new name, or a return."""
    return Statement(subject=subject, object=value, said_at=at(day), speaker="Ana", **fields)


def renames(old: str, new: str, day: float, **fields: Any) -> Statement:
    return says_of(old, new, day, action="rename", **fields)


def reverts(subject: str, day: float, value: str = "", **fields: Any) -> Statement:
    return says_of(subject, value, day, action="revert", **fields)


class Known:
    """Facts as a store would hold them while statements come in."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self.said: dict[str, datetime] = {}

    def take(self, *statements: Statement, now: float = 1_000) -> Learned:
        changes = merge(statements, self.facts.values(), at(now), scope=SCOPE, said=self.said)
        self.said |= {one.source: one.said_at for one in statements if one.source}
        self.facts |= {fact.id: fact for fact in changes.facts}
        return changes

    def rows(self) -> list[tuple[str, str]]:
        facts = self.facts.values()
        ordered = sorted(facts, key=lambda fact: (fact.valid_from or fact.created_at, fact.created_at))
        return [(fact.object, fact.status) for fact in ordered]

    def one(self, value: str) -> Fact:
        (fact,) = [fact for fact in self.facts.values() if fact.object == value]
        return fact

    def value_at(self, day: float) -> str | None:
        """What held on a day, of facts that are all of one slot."""
        held = facts_holding(self.facts.values(), at(day), Names(self.facts.values()))
        assert len(held) <= 1
        return held[0].object if held else None
