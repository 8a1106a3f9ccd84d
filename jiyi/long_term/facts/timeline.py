"""The timeline of one slot: what held when, and which fact replaced which.

Lasting facts form a row ordered by the time from which they hold; each is superseded by the next and
ends when that begins. Temporary facts are not in the row: they supersede nothing, but outrank it while
they last, unless something was said later. Retracted facts are in neither. Every step keeps the row in
order, so the order in which statements arrive does not matter.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from jiyi.long_term.facts.slots import Names, Slot, slot_of, value_of
from jiyi.records import Fact, new_id

_SHARE = 0.3  # the share of the remaining doubt that one more source removes
_MAX_CONFIDENCE = 0.99


def start_of(fact: Fact) -> datetime:
    """Return the time from which a fact holds."""
    return fact.valid_from or fact.created_at


def is_temporary(fact: Fact) -> bool:
    """Return whether a fact was said to hold only for a while."""
    return fact.valid_to is not None and fact.superseded_by is None and fact.status != "retracted"


def facts_holding(facts: Iterable[Fact], at: datetime, names: Names) -> list[Fact]:
    """Return the facts that held at a moment, in order, and of each slot the one that was said last."""
    winners: dict[Slot, Fact] = {}
    for fact in facts:
        if fact.status == "retracted" or start_of(fact) > at or (fact.valid_to and fact.valid_to <= at):
            continue
        slot = slot_of(fact, names)
        other = winners.get(slot)
        if other is None or _outranks(fact, other):
            winners.pop(slot, None)
            winners[slot] = fact
    return list(winners.values())


def _outranks(fact: Fact, other: Fact) -> bool:
    if is_temporary(fact) == is_temporary(other):
        return _sort_key(fact) > _sort_key(other)
    return (fact.created_at, is_temporary(fact)) > (other.created_at, is_temporary(other))


def insert_fact(
    slot: Sequence[Fact], fact: Fact, said: Mapping[str, datetime], *, corrects: bool = False
) -> tuple[list[Fact], str | None]:
    """Return the facts of a slot with a new one, and the id of the fact that now states it.

    The id is None if the fact's source was already known to state it. `relink` sets the links.

    Args:
        slot: all facts of the slot, whatever their status.
        fact: the new fact, with its sources.
        said: the times of the sources of known facts, as far as known; a source without one has
            the time of its fact.
        corrects: the value that it replaces was never true.
    """
    value = value_of(fact)
    same = [known for known in slot if value_of(known) == value]
    if fact.sources and any(set(fact.sources) <= set(known.sources) for known in same):
        return list(slot), None
    restated = [
        known
        for known in same
        if known.status == "retracted" and known.created_at <= fact.created_at
        if known.valid_to and fact.created_at < known.valid_to
    ]
    if is_temporary(fact):
        restated += [known for known in same if is_temporary(known) and known.valid_to == fact.valid_to]
    if restated:
        return _replace_in(slot, _reinforce(restated[0], fact, said)), restated[0].id
    if is_temporary(fact):
        return [*slot, fact], fact.id
    row = sorted((known for known in slot if _is_lasting(known)), key=_sort_key)
    before = [known for known in row if _sort_key(known)[:2] <= (start_of(fact), fact.created_at)]
    previous = before[-1] if before else None
    if previous is not None and not corrects and _ended_elsewhere(previous, fact, row):
        return [*slot, fact], fact.id
    following = row[len(before)] if len(before) < len(row) else None
    if previous is not None and value_of(previous) == value:
        return _replace_in(slot, _reinforce(previous, fact, said)), previous.id
    if corrects:
        return [*slot, replace(fact, valid_from=start_of(previous)) if previous else fact], fact.id
    if previous is not None and (rest := _split_at(previous, start_of(fact), said)):
        return [*_replace_in(slot, rest[0]), rest[1], fact], fact.id
    if following is not None and value_of(following) == value:
        return _replace_in(slot, _reinforce(following, fact, said)), following.id
    return [*slot, fact], fact.id


def relink(
    slot: Sequence[Fact], at: datetime, *, part: bool = False, elsewhere: Collection[str] = ()
) -> list[Fact]:
    """Return the facts of a slot with their links, ends and statuses as of ``at``.

    Links to facts of other slots stay: to those ``elsewhere``, or with ``part`` to all that are not
    given, as the slot may then have more facts than these.
    """
    row = sorted((fact for fact in slot if _is_lasting(fact)), key=_sort_key)
    here = {fact.id for fact in slot}

    def stays(link: str | None) -> bool:
        return link is not None and link not in here and (part or link in elsewhere)

    linked: dict[str, Fact] = {}
    for place, fact in enumerate(row):
        before = row[place - 1].id if place else None
        if not place and stays(fact.supersedes):
            before = fact.supersedes
        after = row[place + 1] if place + 1 < len(row) else None
        end = start_of(after) if after else None
        links: dict[str, Any] = {"supersedes": before}
        if not (stays(fact.superseded_by) and (end is None or (fact.valid_to and fact.valid_to < end))):
            links |= {"superseded_by": after.id if after else None, "valid_to": end}
            links["status"] = "superseded" if end is not None and end <= at else "active"
        linked[fact.id] = replace(fact, **links)
    return [linked.get(fact.id) or _update_status(fact, at) for fact in slot]


def _update_status(fact: Fact, at: datetime) -> Fact:
    if fact.status == "retracted":
        return replace(fact, superseded_by=None) if fact.superseded_by else fact
    over = fact.valid_to is not None and fact.valid_to <= at
    return replace(fact, status="expired" if over else "active")


def _is_lasting(fact: Fact) -> bool:
    return fact.status != "retracted" and not is_temporary(fact)


def _sort_key(fact: Fact) -> tuple[datetime, datetime, str]:
    return start_of(fact), fact.created_at, fact.id


def _ended_elsewhere(fact: Fact, later: Fact, row: Sequence[Fact]) -> bool:
    """Return whether a fact of another slot superseded a fact before a later one begins."""
    elsewhere = fact.superseded_by is not None and all(one.id != fact.superseded_by for one in row)
    return elsewhere and fact.valid_to is not None and fact.valid_to < start_of(later)


def _replace_in(slot: Sequence[Fact], fact: Fact) -> list[Fact]:
    return [fact if known.id == fact.id else known for known in slot]


def _source_time(fact: Fact, source: str, said: Mapping[str, datetime]) -> datetime:
    return max(start_of(fact), said.get(source, fact.created_at))


def _reinforce(known: Fact, fact: Fact, said: Mapping[str, datetime]) -> Fact:
    """Return a known fact with the sources of a new one, from the earlier of their starts."""
    when = {source: said.get(source, known.created_at) for source in known.sources}
    when.update((source, fact.created_at) for source in fact.sources)
    created_at = min(known.created_at, fact.created_at)
    begins = min(start_of(known), start_of(fact))
    if known.status == "unsure":
        known = replace(known, status="active", superseded_by=None)
    confidence = max(known.confidence, fact.confidence) * (1 - _SHARE) + _SHARE
    return replace(
        known,
        created_at=created_at,
        valid_from=None if begins == created_at and known.valid_from is None else begins,
        sources=tuple(sorted(when, key=lambda source: when[source])),
        confidence=min(_MAX_CONFIDENCE, confidence),
    )


def _split_at(fact: Fact, at: datetime, said: Mapping[str, datetime]) -> tuple[Fact, Fact] | None:
    """Split a fact into what was said before ``at`` and what was said again afterwards.

    None if it was not said again: whatever begins at ``at`` simply follows it.
    """
    later = [source for source in fact.sources if _source_time(fact, source, said) > at]
    if not later:
        return None
    again = min(_source_time(fact, source, said) for source in later)
    earlier = tuple(source for source in fact.sources if source not in later)
    second = replace(fact, id=new_id(), created_at=again, valid_from=None, sources=tuple(later))
    return replace(fact, sources=earlier), second
