"""What becomes of facts when messages or other facts go, or come back."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import cast

from jiyi.long_term.facts.known import wide
from jiyi.long_term.facts.slots import ALIAS, Names, Slot, is_alias, slot_of
from jiyi.long_term.facts.timeline import relinked
from jiyi.long_term.forgetting.select import says, text_of
from jiyi.records import Fact, Message, Query, Scope
from jiyi.storage.store import Store

__all__ = ["mended", "without_messages"]

_MOST = 10_000
_SHARE = 0.3  # of the doubt, which one source more takes away and one less gives back
_LEAST = 0.3  # confidence in what somebody said, whatever went


def without_messages(fact: Fact, lost: Sequence[Message], left: Sequence[Message]) -> Fact | None:
    """Return a fact as far as it rests on the messages that are left; None where they do not say it.

    Subject, point and value stay only if no word of them is in the lost messages alone; nor
    does the clause it was read from. When it was said, by whom, and how sure it is follow the
    messages that are left. What was said before the fact is only the question it answers.
    """
    if not any(message.created_at is None or message.created_at >= fact.created_at for message in left):
        return None
    gone = {message.id for message in lost}
    secret = says(map(text_of, lost)) - says(map(text_of, left))
    if says([fact.search_text]) & secret:
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
        text="" if says([fact.text]) & secret else fact.text,
        speaker=fact.speaker if fact.speaker in speakers or not fact.speaker else first.name or first.role,
        created_at=said,
        valid_from=None if fact.valid_from in moments else fact.valid_from,
        confidence=min(confidence, fact.confidence),
    )


def mended(
    store: Store, touched: Iterable[Fact], at: datetime, *, without: Collection[str] = ()
) -> list[Fact]:
    """Return the facts that change when those of the same slots went or came back.

    Args:
        store: what is there now.
        touched: the facts that went or came back.
        at: now.
        without: ids of facts that are still there and count as gone.
    """
    changed: dict[str, Fact] = {}
    known: dict[Scope, tuple[Names, Names]] = {}
    done: set[tuple[Scope, str]] = set()
    for fact in touched:
        scope = wide(fact.scope)
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
    """Return those of the facts about one thing whose links, ends or statuses change."""
    known = {fact.id: fact for fact in facts}
    slots: dict[Slot, list[Fact]] = {}
    for fact in known.values():
        slots.setdefault(slot_of(fact, names), []).append(fact)
    return [
        new for slot in slots.values() for new in relinked(slot, at, elsewhere=linked) if new != known[new.id]
    ]


def _find(store: Store, scope: Scope, **parts: str | tuple[str, ...]) -> list[Fact]:
    query = Query(scope=scope, kinds=("fact",), limit=_MOST, **parts)  # type: ignore[arg-type]
    return cast("list[Fact]", store.find(query))
