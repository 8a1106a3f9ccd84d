"""Standing instructions among the facts: which say the same, and which a newer one ends."""

from collections.abc import Iterable

from jiyi.extraction import Statement, meaning_of
from jiyi.long_term.facts.slots import rule_point_of
from jiyi.long_term.facts.timeline import start_of
from jiyi.records import Fact

__all__ = ["rules_ended_by"]


def rules_ended_by(statement: Statement, facts: Iterable[Fact]) -> list[Fact]:
    """Return the rules of the same speaker that hold no more by a new one, or by one that only takes back.

    "Don't answer in German any more" ends that German is answered in, "you can answer in English
    again" what another language was asked for, "emojis are fine again" that they were forbidden. A rule
    ends what it is the contrary of. Rules about anything beside what is named stay.
    """
    return [
        fact
        for fact in facts
        if fact.category == "rule"
        and fact.status in ("active", "unsure")
        and fact.speaker == statement.speaker
        and start_of(fact) < statement.said_at
        and _ends(statement, fact)
    ]


def _ends(statement: Statement, fact: Fact) -> bool:
    new, old = meaning_of(statement.quote), meaning_of(fact.object)
    point = rule_point_of(fact)
    if point and statement.object and point in new.points and not new.denies:
        return False  # of one point the newer one takes the place of the older anyway
    held = old.points.get(point) if point else None
    same = any(old.points.get(name) == value for name, value in new.points.items())
    if point and new.points:
        takes_back = new.releases if not statement.object else new.denies
        return point in new.points and (new.points[point] == held) == takes_back
    if point:
        return False
    if not statement.object:
        fits = bool(new.terms) and new.terms <= old.terms
        return old.denies != new.releases and (fits or (same and old.denies))
    if new.points and not new.denies:
        return old.denies and same
    return old.denies != new.denies and bool(new.terms) and new.terms == old.terms
