"""Which known facts an incomplete statement refers to, and which ones it ends."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache

from jiyi.extraction import Statement, is_bare_retraction, kind_of_value, rule_meaning
from jiyi.long_term.facts.slots import (
    OWNER,
    Names,
    Slot,
    is_taste,
    rule_point_of,
    slot_of,
    terms_of,
    tokens_of,
    value_key,
    word_lists,
)
from jiyi.long_term.facts.timeline import is_temporary, start_of
from jiyi.records import Fact, names_point
from jiyi.text import analyse
from jiyi.text.keys import predicate_key

__all__ = ["ended_by", "meant_by", "reverted_to", "slot_meant"]

_RECENT = timedelta(days=1)  # "forget that" means what was said just now
_ENOUGH = 2.0  # points from which a retraction means a fact
_UNIT = re.compile(r"[a-z%\u4e00-\u9fff]+")
_UNNAMED = (("value", "数值"), ("time", "时间"))
_NEXT = re.compile(r"\A(?:next|this|下+个?|[这本]个?)\s?")
_OLDEST = re.compile(r"最早|最初|当初|原来|original|first", re.I)


def slot_meant(
    statement: Statement, facts: Sequence[Fact], names: Names
) -> tuple[Statement | None, list[Fact]]:
    """Return a statement with what it leaves out, or None if that is not certain, and the facts it ends.

    The old value it names finds the point ("not 8443, it is 8444"), or else its subject, where just
    one point of it holds a value of the same shape ("moved staging to 9191"); without a subject
    ("it's 10:45 now") the only such point that the speaker named within a day. Where none does, a
    subject's point is "time" or "value". A fact that names no point is ended, as no slot replaces it.
    """
    said, shape, recent = statement.subject, _shape(statement.object), statement.said_at - _RECENT
    fitting = [fact for fact in facts if _may_change(statement, fact, names)]
    if statement.predicate and names_point(statement.predicate):
        point = predicate_key(statement.predicate)
        fitting = [fact for fact in fitting if predicate_key(fact.predicate) == point]
    elif not statement.replaces:
        fitting = [fact for fact in fitting if _shape(fact.object) == shape]
        fitting = [fact for fact in fitting if said or fact.created_at >= recent]
    own = [fact for fact in fitting if names.key(fact.subject) == names.key(said)]
    fitting = own or fitting
    slots = {slot_of(fact, names) for fact in fitting}
    if not slots and said and not statement.predicate:
        point = _UNNAMED[shape[0] == "time"][not said.isascii()]
        return replace(statement, predicate=point), []
    if not slots and statement.predicate and not (said or statement.replaces):
        return replace(statement, subject=statement.speaker), []
    if len(slots) != 1:
        return (statement if said and statement.predicate else None), []
    old = max(fitting, key=start_of)
    return _in_slot(statement, old), [] if _single(old, names) else [old]


def _may_change(statement: Statement, fact: Fact, names: Names) -> bool:
    """Return whether a fact may be the one that a statement gives another value.

    It is about its subject, or has all words of it: "swimming" of "Sofia · swimming (time): Mondays".
    """
    later = fact.category not in ("plan", "todo", "rule", "note") and fact.created_at < statement.said_at
    if not later or fact.status != "active" or is_temporary(fact) or is_taste(fact.predicate):
        return False
    if statement.replaces and not _holds(fact.object, statement.replaces):
        return False
    words = set(analyse(statement.subject)) if statement.by_person else set()
    told = f"{fact.subject} {fact.predicate} {fact.object} {fact.text}"
    return _may_be(statement.subject, fact, names) or (bool(words) and words <= set(analyse(told)))


def reverted_to(statement: Statement, facts: Sequence[Fact], names: Names) -> Statement | None:
    """Return a statement that says the old value again, or None if there is none to return to."""
    slots: dict[Slot, list[Fact]] = {}
    for fact in facts:
        lasting = fact.status in ("active", "unsure", "superseded") and not is_temporary(fact)
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

    A bare one ("forget that") means what the same speaker said last in the session. A request to
    remove the thing itself ("delete the key") means its older values too. Only the owner of the
    memory can take back what others said.
    """
    said = [
        fact
        for fact in facts
        if fact.created_at <= statement.said_at and statement.speaker in (fact.speaker, OWNER)
    ]
    active = [fact for fact in said if fact.status in ("active", "unsure")]
    if is_bare_retraction(statement.quote):
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
        return _only_one(statement, active, names)
    chosen = [fact for fact in active if scores[fact.id] == best]
    if not statement.erases:
        latest = max(fact.created_at for fact in chosen)
        return [fact for fact in chosen if fact.created_at == latest]
    slots = {slot_of(fact, names) for fact in chosen}
    return [fact for fact in said if fact.status != "retracted" and slot_of(fact, names) in slots]


def ended_by(statement: Statement, facts: Iterable[Fact], names: Names) -> list[Fact]:
    """Return the facts of the same speaker that "I no longer work at Acme" ends: whose value it names.

    What it names as over may stand anywhere in a fact ("sold the Skoda"); who is gone is nobody's
    neighbour any more, and of the dead nothing holds. "We broke up" ends who the partner is, "I was laid off"
    where one works. A rule ends the rules that it is the contrary of, also one that only takes back: "emojis
    are fine again" that they were forbidden. Rules about anything else than what is named stay.
    """
    rule = statement.category == "rule"
    key, said = names.key(statement.subject), statement.quote.casefold()
    rows = [row for row in word_lists()["over"] if re.search(row["said"], said)]
    points = {predicate_key(point) for row in rows for point in row["points"]}
    whole = any(row["whole"] for row in rows)
    over, who = set(analyse(statement.replaces)), set(analyse(statement.subject))
    own = statement.subject == statement.speaker

    def ends(fact: Fact) -> bool:
        point, of_it = predicate_key(fact.predicate), names.key(fact.subject) == key
        if of_it and not statement.replaces:
            named = names_point(fact.predicate) and _stands_in(fact.object, said)
            return named or point in points or (whole and not own and who <= set(analyse(fact.text)))
        if rows and not (own or of_it or points or statement.replaces):
            return fact.category in ("relation", "profile") and bool(who) and who <= set(analyse(fact.object))
        subject = set() if of_it else set(analyse(fact.subject))
        near = of_it or (own and bool(over & subject))
        words = subject.union(analyse(f"{fact.predicate} {fact.object}"))
        return near and bool(over) and over <= words and not is_taste(fact.predicate)

    return [
        one
        for one in facts
        if one.category != "note" and rule == (one.category == "rule")
        if one.status in ("active", "unsure") and one.speaker == statement.speaker
        if start_of(one) < statement.said_at and (_contradicts(statement, one) if rule else ends(one))
    ]


def _contradicts(statement: Statement, fact: Fact) -> bool:
    new, old = rule_meaning(statement.quote), rule_meaning(fact.object)
    point = rule_point_of(fact)
    if point and statement.object and point in new.points and not new.forbids:
        return False  # of one point the newer one takes the place of the older anyway
    if point and new.points:
        takes_back = new.releases if not statement.object else new.forbids
        return point in new.points and (new.points[point] == old.points.get(point)) == takes_back
    if point:
        return False
    same = any(old.points.get(name) == value for name, value in new.points.items())
    if not statement.object:
        fits = bool(new.terms) and new.terms <= old.terms
        return old.forbids != new.releases and (fits or (same and old.forbids))
    if new.points and not new.forbids:
        return old.forbids and same
    return old.forbids != new.forbids and bool(new.terms) and new.terms == old.terms


def _stands_in(value: str, said: str) -> bool:
    return re.search(rf"(?<![a-z0-9]){re.escape(value.casefold())}(?![a-z0-9])", said) is not None


def _only_one(statement: Statement, active: Sequence[Fact], names: Names) -> list[Fact]:
    """Return the only fact about the thing that a retraction names, where it names nothing else."""
    words = _named(statement)
    known = [fact for fact in active if fact.subject != fact.speaker]
    found = [fact for fact in known if words and words <= terms_of(names.of(fact.subject))]
    return found if len(found) == 1 else []


def _named(statement: Statement) -> set[str]:
    """Return the terms of what a retraction names."""
    text = statement.quote
    for phrase in word_lists()["passing"]:
        text = text.replace(phrase, " ") if len(phrase) > 1 and not phrase.isascii() else text
    return set(analyse(text)) - _terms_of("passing")


def _score(statement: Statement, fact: Fact, names: Names) -> float:
    """Return how plainly a retraction names a fact: its subject alone is not enough."""
    words, own = _named(statement), terms_of(names.of(fact.subject))
    point = terms_of([fact.predicate, fact.object, fact.text]) - own - _terms_of("passing")
    if fact.category == "rule":  # its language, say, may be named in another one
        words = words | rule_meaning(statement.quote).names
        point = point | rule_meaning(fact.object).names | _terms_of("instructions")
    hits, whole = len(words & point), words <= point | own  # whole: it names nothing else
    if not hits:
        return 0.0
    return hits + whole + 2.0 * bool(words & own) - (0.0 if fact.speaker == statement.speaker else 0.5)


def _single(fact: Fact, names: Names) -> bool:
    return fact.category != "rule" and slot_of(fact, names)[2] == ""


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
    kind = kind_of_value(_NEXT.sub("", value))
    if kind != "amount":
        return ("time" if kind in ("clock", "date", "weekday") else kind), ""
    unit = _UNIT.search(value_key(value))
    return kind, unit[0] if unit else ""


def _in_slot(statement: Statement, fact: Fact) -> Statement:
    return replace(
        statement, subject=fact.subject, predicate=fact.predicate, category=fact.category, replaces=""
    )


@cache
def _terms_of(words: str) -> frozenset[str]:
    return frozenset(analyse(" ".join(word_lists()[words])))
