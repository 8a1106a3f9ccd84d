"""Which known fact a statement means that does not say it in full."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache

from jiyi.extraction import Statement, is_bare, kind_of_value
from jiyi.long_term.facts.slots import Names, Slot, slot_of, tokens_of, value_key
from jiyi.long_term.facts.timeline import is_temporary, start_of
from jiyi.records import Fact
from jiyi.text import analyse

__all__ = ["meant_by", "reverted_to", "slot_meant"]

_RECENT = timedelta(days=1)  # "forget that" means what was said just now
_ENOUGH = 2.0  # points from which a retraction means a fact
_UNIT = re.compile(r"[a-z%\u4e00-\u9fff]+")
_OLDEST = re.compile(r"最早|最初|当初|原来|original|first", re.I)
_PASSING = (
    "forget scratch strike drop delete remove wipe erase ignore cancel please told that this it what about"
    " more any hold said never mind 当我没说 别记 删掉 删除 作废 撤回 取消 算了 那条 这条 之前 昨天"
    " 今天 事 别 记 请 把 掉 没 说 不 要 了 吧 发生 计划"
)


def slot_meant(statement: Statement, facts: Sequence[Fact], names: Names) -> Statement | None:
    """Return a statement with the subject and point it leaves out, or None where that is not certain.

    The old value it names finds them ("not 8443, it is 8444"), or else its subject, where just
    one of its points holds a value of the same shape ("ledger-api goes to Tortoise").
    """
    active = [fact for fact in facts if fact.status == "active" and not is_temporary(fact)]
    fitting = [fact for fact in active if _single(fact, names) and _may_be(statement.subject, fact, names)]
    if statement.replaces:
        fitting = [fact for fact in fitting if _holds(fact.object, statement.replaces)]
    else:
        shape = _shape(statement.object)
        fitting = [fact for fact in fitting if statement.subject and _shape(fact.object) == shape]
    if statement.predicate:
        fitting = [fact for fact in fitting if fact.predicate == statement.predicate]
    if len({slot_of(fact, names) for fact in fitting}) != 1:
        return None
    return _in_slot(statement, max(fitting, key=start_of))


def reverted_to(statement: Statement, facts: Sequence[Fact], names: Names) -> Statement | None:
    """Return a statement that says the old value again, or None where there is none to return to."""
    slots: dict[Slot, list[Fact]] = {}
    for fact in facts:
        lasting = fact.status in ("active", "superseded") and not is_temporary(fact)
        known = lasting and fact.created_at <= statement.said_at and _single(fact, names)
        if known and _may_be(statement.subject, fact, names):
            slots.setdefault(slot_of(fact, names), []).append(fact)
    found: list[Fact] = []
    for row in slots.values():
        row.sort(key=start_of)
        older = row[:-1] if row[-1].status == "active" else row
        if statement.object:
            older = [fact for fact in older if _holds(fact.object, statement.object)]
        if older:
            found.append(older[0] if statement.object or _OLDEST.search(statement.quote) else older[-1])
    if len(found) != 1:
        return None
    return replace(_in_slot(statement, found[0]), object=found[0].object, action="state")


def meant_by(statement: Statement, facts: Iterable[Fact], names: Names, session_id: str | None) -> list[Fact]:
    """Return the active facts that a retraction means; none where it names something else.

    A bare one ("forget that") means what the same speaker said last in the session. One that
    asks for the thing itself to go ("delete the key") means the older values of it too.
    """
    said = [fact for fact in facts if fact.created_at <= statement.said_at]
    active = [fact for fact in said if fact.status == "active"]
    if is_bare(statement.quote):
        recent = [
            fact
            for fact in active
            if fact.speaker == statement.speaker
            and fact.scope.session_id == session_id
            and statement.said_at - fact.created_at <= _RECENT
        ]
        latest = max((fact.created_at for fact in recent), default=None)
        return [fact for fact in recent if fact.created_at == latest]
    scores = {fact.id: _score(statement, fact, names) for fact in active}
    best = max(scores.values(), default=0.0)
    if best < _ENOUGH:
        return []
    chosen = [fact for fact in active if scores[fact.id] == best]
    if not statement.erases:
        latest = max(fact.created_at for fact in chosen)
        return [fact for fact in chosen if fact.created_at == latest]
    slots = {slot_of(fact, names) for fact in chosen}
    return [fact for fact in said if fact.status != "retracted" and slot_of(fact, names) in slots]


def _score(statement: Statement, fact: Fact, names: Names) -> float:
    """Return how plainly a retraction names a fact: its subject alone is not enough."""
    words = set(analyse(statement.quote)) - _passing()
    own = {term for name in names.of(fact.subject) for term in analyse(name)}
    point = (
        (set(analyse(fact.predicate)) | set(analyse(fact.object)) | set(analyse(fact.text)))
        - own
        - _passing()
    )
    hits = len(words & point)
    if not hits:
        return 0.0
    return hits + 2.0 * bool(words & own) - (0.0 if fact.speaker == statement.speaker else 0.5)


def _single(fact: Fact, names: Names) -> bool:
    return slot_of(fact, names)[2] == ""


def _may_be(subject: str, fact: Fact, names: Names) -> bool:
    """Return whether a name, perhaps shortened ("02"), may be the subject of a fact."""
    if not subject or names.key(subject) == names.key(fact.subject):
        return True
    one, other = tokens_of(subject), tokens_of(fact.subject)
    return bool(one) and (one <= other or (bool(other) and other <= one))


def _holds(value: str, words: str) -> bool:
    """Return whether a value is these words or has them in it: "May 2027" has "2027"."""
    one, other = value_key(value), value_key(words)
    return one == other or re.search(rf"(?<![\w.]){re.escape(other)}(?![\w.])", one) is not None


def _shape(value: str) -> tuple[str, str]:
    kind = kind_of_value(value)
    if kind != "amount":
        return kind, ""
    unit = _UNIT.search(value_key(value))
    return kind, unit[0] if unit else ""


def _in_slot(statement: Statement, fact: Fact) -> Statement:
    return replace(
        statement, subject=fact.subject, predicate=fact.predicate, category=fact.category, replaces=""
    )


@cache
def _passing() -> frozenset[str]:
    """Return the terms of words that say how something is taken back, not what."""
    return frozenset(analyse(_PASSING))
