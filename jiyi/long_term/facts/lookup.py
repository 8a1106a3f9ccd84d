"""Reads facts from the store: about what statements say, by their words, and as edges between things."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, cast

from jiyi.errors import BadQuery
from jiyi.extraction import RULE_POINTS, Statement
from jiyi.long_term.facts.slots import ALIAS, NOTE, Names, is_alias, is_taste, terms_of
from jiyi.long_term.facts.timeline import start_of
from jiyi.records import Block, Condition, Fact, Message, Query, Scope, names_point
from jiyi.storage import Store
from jiyi.text import Secrecy, analyse, language

__all__ = [
    "Neighbour",
    "about",
    "by_now",
    "find_facts",
    "known_for",
    "likely_meant",
    "names_in",
    "neighbours",
    "profile_block",
    "profile_of",
    "said_of",
    "wide",
]

_MOST_ALIASES = 5_000
_MOST_ABOUT = 2_000  # facts about one thing that are looked at
_MOST_RECENT = 500  # facts that a statement may mean which does not name them
_MOST_TIMES = 500
_MOST_MEANT = 30  # facts a model is shown that messages may speak of
_LONGEST = 300  # characters of their values
_SAMPLE = 2_000  # characters of a text whose words are compared
_NEAREST = 6  # facts of one slot before a statement, and after it
_MOMENT = timedelta(microseconds=1)
_END_OF_TIME = datetime.max.replace(tzinfo=UTC)
_AHEAD = timedelta(days=1)  # of this clock others may be
_DEEPEST = 5
_MOST_NEIGHBOURS = 500  # in an answer
_MOST_EDGES = 200  # facts of one thing that are followed
_POINTS = (
    *("name", "nickname", "pronouns", "language", "native language", "time zone", "rule"),
    *(name for names in RULE_POINTS.values() for name in names),
)
_MOST = 200  # facts of these points, the newest, and as many that are pinned


def wide(scope: Scope) -> Scope:
    """Return the scope in which facts are compared: user and agent, whatever the session."""
    return replace(scope, session_id=None) if scope.session_id is not None else scope


def find_facts(store: Store, scope: Scope, *, newest_first: bool = True, **narrowed: Any) -> list[Fact]:
    """Return the facts of a scope; ``narrowed`` are parts of a `Query`."""
    query = Query(scope=scope, kinds=("fact",), newest_first=newest_first, **narrowed)
    return cast("list[Fact]", store.find(query))


def names_in(store: Store, scope: Scope) -> tuple[Names, list[Fact]]:
    """Return the names that things have in a scope, and the facts that say so."""
    found = find_facts(store, wide(scope), predicate=ALIAS, limit=_MOST_ALIASES)[::-1]
    return Names(found), found


def about(store: Store, scope: Scope, names: Names, things: Iterable[str]) -> dict[str, Fact]:
    """Return by id the facts that have one of these things, by any of its names, at either end."""
    every_name = dict.fromkeys(name for thing in things for name in names.of(thing))
    return {
        fact.id: fact
        for name in every_name
        for fact in find_facts(store, wide(scope), entity=name, limit=_MOST_ABOUT)
    }


def known_for(store: Store, scope: Scope, statements: Sequence[Statement]) -> list[Fact]:
    """Return the facts needed to merge statements: see `merge`, and there ``part``."""
    names, aliases = names_in(store, scope)
    found = {fact.id: fact for fact in aliases}
    things: list[str] = []
    vague = False
    for statement in statements:
        whole = not statement.vague
        renames = statement.action == "rename"
        vague |= not (renames or (whole and statement.action == "state")) or statement.category == "rule"
        if statement.predicate == NOTE:
            things.append(statement.object)
        elif whole and statement.action == "state" and not is_taste(statement.predicate):
            found |= _of_point(store, scope, names.of(statement.subject), statement)
        elif statement.subject:
            things += [statement.subject, statement.object] if renames else [statement.subject]
    found |= about(store, scope, names, things)
    if vague:
        found |= {fact.id: fact for fact in find_facts(store, wide(scope), limit=_MOST_RECENT)}
    return sorted(found.values(), key=lambda fact: (fact.created_at, fact.id))


def _of_point(store: Store, scope: Scope, subjects: Iterable[str], statement: Statement) -> dict[str, Fact]:
    """Return the facts of a point that its speaker said nearest before and after a statement.

    Those of others, too, where a person speaks. A point may have a value for every minute of a
    year; those far away do not meet a new one.
    """
    found: dict[str, Fact] = {}
    said_at, most = statement.said_at, 2 * _NEAREST
    after = said_at + _MOMENT if said_at < _END_OF_TIME else None
    own = Condition("speaker", "in", (statement.speaker,))
    for subject, voices in product(subjects, (own, None) if statement.by_person else (own,)):
        point: dict[str, Any] = {"subject": subject, "predicate": statement.predicate, "where": voices}
        facts = find_facts(store, wide(scope), limit=most, **point)
        if len(facts) == most:
            facts += find_facts(store, wide(scope), until=after, limit=_NEAREST, **point)
            facts += find_facts(
                store, wide(scope), since=said_at, limit=_NEAREST, newest_first=False, **point
            )
        found.update((fact.id, fact) for fact in facts)
    return found


def by_now(message: Message, now: datetime) -> Message:
    """Return a message dated now at the latest: one dated ahead would outlive all that follows."""
    late = message.created_at is not None and message.created_at > now + _AHEAD
    return replace(message, created_at=now + _AHEAD) if late else message


def likely_meant(store: Store, scope: Scope, messages: Iterable[Message]) -> list[Fact]:
    """Return active facts that messages may speak of, oldest first: those that share most words with them."""
    said = terms_of(f"{message.name or ''} {message.text[:_SAMPLE]}" for message in messages)
    shared = {
        fact: len(said.intersection(analyse(fact.search_text[:_SAMPLE])))
        for fact in find_facts(store, wide(scope), fact_status=("active",), limit=_MOST_RECENT)
    }
    fitting = [fact for fact in shared if shared[fact] and len(fact.object) <= _LONGEST]
    nearest = sorted(fitting, key=lambda fact: -shared[fact])
    return sorted(nearest[:_MOST_MEANT], key=lambda fact: (fact.created_at, fact.id))


def said_of(store: Store, scope: Scope, facts: Iterable[Fact]) -> dict[str, datetime]:
    """Return when the messages were said that facts with more than one source rest on."""
    ids = tuple(dict.fromkeys(id_ for fact in facts if len(fact.sources) > 1 for id_ in fact.sources))
    if not ids:
        return {}
    query = Query(scope=wide(scope), kinds=("message",), ids=ids[-_MOST_TIMES:], limit=_MOST_TIMES)
    messages = cast("list[Message]", store.find(query))
    return {message.id: message.created_at for message in messages if message.created_at}


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """One thing that is connected with another."""

    name: str  # as it was said
    depth: int  # how many facts lie between
    facts: tuple[Fact, ...]  # the facts on one shortest way, the first at the thing asked for


def neighbours(store: Store, scope: Scope, entity: str, depth: int) -> list[Neighbour]:
    """Return what is connected with a thing over at most ``depth`` active facts, nearest first.

    A fact connects both ways, from subject to object and back; another name of a thing is not
    a step. At most 500 neighbours, 200 facts of each thing; cycles are handled.

    Raises:
        BadQuery: a depth outside 1..5.
    """
    names, _ = names_in(store, scope)
    if not isinstance(depth, int) or isinstance(depth, bool) or not 1 <= depth <= _DEEPEST:
        raise BadQuery(f"depth={depth!r} must be a whole number from 1 to {_DEEPEST}")
    seen = {names.key(entity)}
    found: list[Neighbour] = []
    near: list[tuple[str, tuple[Fact, ...]]] = [(entity, ())]
    for step in range(1, depth + 1):
        further: list[tuple[str, tuple[Fact, ...]]] = []
        for thing, path in near:
            for other, fact in _edges(store, scope, names, thing):
                if (key := names.key(other)) in seen:
                    continue
                seen.add(key)
                further.append((other, (*path, fact)))
                found.append(Neighbour(name=other, depth=step, facts=(*path, fact)))
                if len(found) == _MOST_NEIGHBOURS:
                    return found
        near = further
    return found


def _edges(store: Store, scope: Scope, names: Names, thing: str) -> list[tuple[str, Fact]]:
    own = names.key(thing)
    active = [fact for fact in about(store, scope, names, [thing]).values() if fact.status == "active"]
    newest = sorted(active, key=lambda fact: (fact.created_at, fact.id), reverse=True)
    return [
        (fact.object if names.key(fact.subject) == own else fact.subject, fact)
        for fact in newest[:_MOST_EDGES]
        if not is_alias(fact) and own in (names.key(fact.subject), names.key(fact.object))
    ]


def profile_of(store: Store, scope: Scope, now: datetime) -> list[Fact]:
    """Return the facts that every window of a user shows, oldest first.

    These are the user's rules, what users say of their own name and language, and pinned facts
    of every kind, from all sessions, as long as they hold ``now``.
    """
    found = find_facts(store, wide(scope), predicate=_POINTS, fact_status=("active",), limit=_MOST)
    found += find_facts(store, wide(scope), pinned=True, fact_status=("active", "unsure"), limit=_MOST)
    shown = {fact.id: fact for fact in found if fact.pinned or fact.category == "rule" or _is_own(fact)}
    holding = [
        one for one in shown.values() if start_of(one) <= now and not (one.valid_to and one.valid_to <= now)
    ]
    return sorted(holding, key=lambda fact: (start_of(fact), fact.created_at, fact.id))


def profile_block(fact: Fact) -> Block:
    """Return a fact as a line of the profile, with a named speaker, secrets hidden.

    If not all fit, pinned ones come first, then rules, newer before older.
    """
    text = fact.line
    if fact.category in ("rule", "note"):
        text = fact.object if fact.speaker in (None, "user") else f"{fact.speaker}: {fact.object}"
    shown = Secrecy("", (), language(text))(text, fact.text)
    return Block(
        section="profile",
        kind="fact",
        source_id=fact.id,
        text=shown,
        whole=shown == text,
        tokens=0,
        created_at=fact.created_at,
        score=2 * fact.pinned + (fact.category == "rule") + fact.created_at.timestamp() / 1e11,
    )


def _is_own(fact: Fact) -> bool:
    own = fact.category == "profile" and fact.subject == fact.speaker
    return own and names_point(fact.predicate)  # not "(name)", some name
