"""Finds the known facts that an incomplete statement refers to, retracts or ends."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache

from jiyi.extraction import Statement, has_cue, kind_of_value, rule_meaning
from jiyi.long_term.facts.slots import (
    OWNER,
    Names,
    Slot,
    is_preference,
    point_of_rule,
    slot_of,
    terms_of,
    tokens_of,
    value_key,
    word_lists,
)
from jiyi.long_term.facts.timeline import is_temporary, start_of
from jiyi.records import Fact, single_valued
from jiyi.text import analyse
from jiyi.text.keys import predicate_key

_JUST_NOW = timedelta(days=1)  # what "forget that" can mean
_MIN_SCORE = 2.0  # from which a retraction means a fact
_UNIT = re.compile(r"[a-z%\u4e00-\u9fff]+")
_DEFAULT_POINTS = (("value", "数值"), ("time", "时间"))
_LEADING = re.compile(r"\A(?:next|this|on|at|version|下+个?|[这本]个?)\s?")
_OLDEST = re.compile(r"最早|最初|当初|原来|original|first", re.I)


def resolve_slot(
    statement: Statement, facts: Sequence[Fact], names: Names
) -> tuple[Statement | None, list[Fact]]:
    """Complete a statement from known facts; return it, or None if that is not certain, and what it ends.

    The point is that of the old value it names ("not 8443, it is 8444"), else the only point of its
    subject with a value of the same shape ("moved staging to 9191"), and without a subject ("it's 10:45
    now") the only such point that was named within a day. If there is none, the point of a subject is
    "time" or "value". A fact without a named point is ended, as no slot replaces it.
    """
    subject, shape, since = statement.subject, _value_shape(statement.object), statement.said_at - _JUST_NOW
    candidates = [fact for fact in facts if _may_change(statement, fact, names)]
    if statement.predicate and single_valued(statement.predicate):
        point = predicate_key(statement.predicate)
        candidates = [fact for fact in candidates if predicate_key(fact.predicate) == point]
    elif not statement.replaces:
        candidates = [fact for fact in candidates if _fits_shape(shape, _value_shape(fact.object))]
        candidates = [fact for fact in candidates if subject or fact.created_at >= since]
    candidates = [one for one in candidates if names.key(one.subject) == names.key(subject)] or candidates
    slots = {slot_of(fact, names) for fact in candidates}
    if len(slots) != 1 and subject and not statement.predicate:
        point = subject if shape[0] == "name" else _DEFAULT_POINTS[shape[0] == "time"][not subject.isascii()]
        owner = statement.speaker if point == subject else subject
        return replace(statement, subject=owner, predicate=point), []
    who = subject or (statement.speaker if statement.replaces or not slots else "")
    if len(slots) != 1:
        whole = replace(statement, subject=who) if who and statement.predicate else None
        ends = whole and whole.replaces and not has_cue("value.travels", statement.quote)
        return whole, facts_to_end(whole, facts, names) if whole and ends else []
    old = max(candidates, key=start_of)
    return _fill_from(statement, old), [] if _is_single_valued(old, names) else [old]


def _may_change(statement: Statement, fact: Fact, names: Names) -> bool:
    """Return whether a statement may give another value to a fact.

    The fact has its subject, or all words of it: "swimming" of "Sofia · swimming (time): Mondays".
    """
    later = fact.category not in ("plan", "todo", "rule", "note") and fact.created_at < statement.said_at
    just_ended = fact.status == "expired" and fact.valid_to == statement.said_at  # "Jo left. It's Max now"
    later = later and (just_ended or (fact.status == "active" and not is_temporary(fact)))
    travels = fact.predicate == "lives in" and has_cue("value.travels", statement.quote)
    if not later or travels or is_preference(fact.predicate):
        return False
    if statement.replaces and not _contains_value(fact.object, statement.replaces):
        return False
    words = set(analyse(statement.subject)) if statement.by_person else set()
    text = f"{fact.subject} {fact.predicate} {fact.object} {fact.text}"
    return _may_name(statement.subject, fact, names) or (bool(words) and words <= set(analyse(text)))


def resolve_revert(statement: Statement, facts: Sequence[Fact], names: Names) -> Statement | None:
    """Return a statement of the previous value, or None if there is no single one."""
    slots: dict[Slot, list[Fact]] = {}
    for fact in facts:
        lasting = fact.status in ("active", "unsure", "superseded") and not is_temporary(fact)
        known = lasting and fact.created_at <= statement.said_at and _is_single_valued(fact, names)
        if known and _may_name(statement.subject, fact, names):
            slots.setdefault(slot_of(fact, names), []).append(fact)
    previous: list[Fact] = []
    for timeline in slots.values():
        timeline.sort(key=start_of)
        older = timeline[:-1] if timeline[-1].status == "active" else timeline
        if statement.object:
            older = [fact for fact in older if _contains_value(fact.object, statement.object)]
        if older:
            previous.append(older[0] if statement.object or _OLDEST.search(statement.quote) else older[-1])
    if len(previous) != 1:
        return None
    return replace(_fill_from(statement, previous[0]), object=previous[0].object, action="state")


def facts_to_retract(
    statement: Statement, facts: Iterable[Fact], names: Names, session_id: str | None
) -> list[Fact]:
    """Return the active facts that a retraction means, none if it names something else.

    A bare one ("forget that") means what the same speaker said last in the session. A request to
    delete the thing itself ("delete the key") means its older values too. Only the owner of the
    memory can retract what others said.
    """
    earlier = (fact for fact in facts if fact.created_at <= statement.said_at)
    retractable = [fact for fact in earlier if statement.speaker in (fact.speaker, OWNER)]
    active = [fact for fact in retractable if fact.status in ("active", "unsure")]
    if has_cue("taking_back.bare", statement.quote):  # it means what was said last
        recent = [fact for fact in active if statement.said_at - fact.created_at <= _JUST_NOW]
        source = statement.speaker, session_id
        recent = [fact for fact in recent if (fact.speaker, fact.scope.session_id) == source]
        latest = max((fact.created_at for fact in recent), default=None)
        return [fact for fact in recent if fact.created_at == latest]
    scores = {fact.id: _retraction_score(statement, fact, names) for fact in active}
    best_score = max(scores.values(), default=0.0)
    if best_score < _MIN_SCORE:
        return _only_fact_about(statement, active, names)
    chosen = [fact for fact in active if scores[fact.id] == best_score]
    if not statement.erases:
        latest = max(fact.created_at for fact in chosen)
        return [fact for fact in chosen if fact.created_at == latest]
    slots = {slot_of(fact, names) for fact in chosen}
    return [fact for fact in retractable if fact.status != "retracted" and slot_of(fact, names) in slots]


def facts_to_end(statement: Statement, facts: Iterable[Fact], names: Names) -> list[Fact]:
    """Return the facts of the same speaker that a statement ends: "I no longer work at Acme".

    What it names as over may be anywhere in a fact ("sold the Skoda"). Who has left is nobody's neighbour
    any more, and all facts about the dead end. "We broke up" ends the partner, "I was laid off" the job.
    A rule, also one that only lifts another ("emojis are fine again"), ends the rules it contradicts.
    """
    rule = statement.category == "rule"
    key, quote = names.key(statement.subject), statement.quote.casefold()
    rows = [row for row in word_lists()["over"] if re.search(row["said"], quote)]
    points = {predicate_key(point) for row in rows for point in row["points"]}
    ends_all, leaves = any(row["whole"] for row in rows), any(not row["points"] for row in rows)
    over, who = set(analyse(statement.replaces)), set(analyse(statement.subject)) or {""}
    about_speaker = statement.subject == statement.speaker

    def ends(fact: Fact) -> bool:
        point, named = predicate_key(fact.predicate), single_valued(fact.predicate)
        same_subject = names.key(fact.subject) == key
        if same_subject and (point in points or not statement.replaces):
            about_other = not about_speaker and who <= set(analyse(fact.text))
            return (named and _occurs_in(fact.object, quote)) or point in points or (ends_all and about_other)
        if leaves and not (about_speaker or same_subject or statement.replaces):
            means = any(who <= set(analyse(text)) for text in (fact.object, f"{fact.subject} {point}"))
            sure = named or fact.category == "attribute"
            return means and sure and (ends_all or point not in word_lists()["family"])
        subject = set() if same_subject else set(analyse(fact.subject))
        # Without a named point, the subject of a fact is a guess, unless it is written as a name.
        guessed = not named and not any(map(str.isupper, fact.subject.removeprefix(statement.speaker)))
        near = same_subject or (about_speaker and (bool(over & subject) or guessed))
        words = subject.union(analyse(f"{fact.predicate} {fact.object} {'' if named else fact.text}"))
        return near and bool(over) and over <= words and not is_preference(fact.predicate)

    return [
        one
        for one in facts
        if one.category != "note" and rule == (one.category == "rule")
        if one.status in ("active", "unsure") and one.speaker == statement.speaker
        if one.created_at < statement.said_at and (_contradicts(statement, one) if rule else ends(one))
    ]


def _contradicts(statement: Statement, fact: Fact) -> bool:
    new, old = rule_meaning(statement.quote), rule_meaning(fact.object)
    point = point_of_rule(fact)
    if point and statement.object and point in new.points and not new.forbids:
        return False  # the newer rule replaces the older one of its point anyway
    if point:
        takes_back = new.releases if not statement.object else new.forbids
        return point in new.points and (new.points[point] == old.points.get(point)) == takes_back
    same_value = any(old.points.get(name) == value for name, value in new.points.items())
    if not statement.object:
        fits = bool(new.terms) and new.terms <= old.terms
        return old.forbids != new.releases and (fits or (same_value and old.forbids))
    if new.points and not new.forbids:
        return old.forbids and same_value
    return old.forbids != new.forbids and bool(new.terms) and new.terms == old.terms


def _occurs_in(value: str, said: str) -> bool:
    return re.search(rf"(?<![a-z0-9]){re.escape(value.casefold())}(?![a-z0-9])", said) is not None


def _only_fact_about(statement: Statement, active: Sequence[Fact], names: Names) -> list[Fact]:
    """Return the only fact about the thing that a retraction names, if it names nothing else."""
    words = _named_terms(statement)
    known = [fact for fact in active if fact.subject != fact.speaker]
    found = [fact for fact in known if words and words <= terms_of(names.of(fact.subject))]
    return found if len(found) == 1 else []


def _named_terms(statement: Statement) -> set[str]:
    """Return the terms of a retraction without filler."""
    text = statement.quote
    for phrase in word_lists()["passing"]:
        text = text.replace(phrase, " ") if len(phrase) > 1 and not phrase.isascii() else text
    return set(analyse(text)) - _list_terms("passing")


def _retraction_score(statement: Statement, fact: Fact, names: Names) -> float:
    """Score how clearly a retraction names a fact; its subject alone is not enough."""
    words, own = _named_terms(statement), terms_of(names.of(fact.subject))
    point = terms_of([fact.predicate, fact.object, fact.text]) - own - _list_terms("passing")
    if fact.category == "rule":  # the same thing may be named in another language
        words = words | rule_meaning(statement.quote).names
        point = point | rule_meaning(fact.object).names | _list_terms("instructions")
    hits, names_all = len(words & point), words <= point | own  # whole: it names nothing else
    if not hits:
        return 0.0
    return hits + names_all + 2.0 * bool(words & own) - (0.0 if fact.speaker == statement.speaker else 0.5)


def _is_single_valued(fact: Fact, names: Names) -> bool:
    return fact.category != "rule" and slot_of(fact, names)[2] == ""


def _may_name(subject: str, fact: Fact, names: Names) -> bool:
    """Return whether a name, also a short form ("02"), may be the subject of a fact."""
    if not subject or names.key(subject) == names.key(fact.subject):
        return True
    one, other = tokens_of(subject), tokens_of(fact.subject)
    return bool(one) and (one <= other or (bool(other) and other <= one))


def _contains_value(value: str, words: str) -> bool:
    """Return whether a value equals or contains words: "May 2027" has "2027"."""
    one, other = value_key(value), value_key(words)
    return one == other or re.search(rf"(?<![\w.]){re.escape(other)}(?![\w.])", one) is not None


def _value_shape(value: str) -> tuple[str, str]:
    kind = kind_of_value(_LEADING.sub("", value))
    if kind != "amount":
        return ("time" if kind in ("clock", "date", "weekday") else kind), ""
    unit = _UNIT.search(value_key(value))
    return kind, unit[0] if unit else ""


def _fits_shape(new: tuple[str, str], old: tuple[str, str]) -> bool:
    """Return whether a value may follow another one; a bare number leaves out the unit of an amount."""
    return new == old or (new[0] == "number" and old[0] in ("amount", "money"))


def _fill_from(statement: Statement, fact: Fact) -> Statement:
    return replace(
        statement, subject=fact.subject, predicate=fact.predicate, category=fact.category, replaces=""
    )


@cache
def _list_terms(words: str) -> frozenset[str]:
    return frozenset(analyse(" ".join(word_lists()[words])))
