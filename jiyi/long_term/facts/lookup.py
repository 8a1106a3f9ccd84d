"""Reads facts from the store: by what statements say, by shared words, and as edges of a graph."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from itertools import product
from typing import Any, cast

from jiyi.errors import BadQuery
from jiyi.extraction import RULE_POINTS, Statement
from jiyi.extraction.attribution import ownerless_point
from jiyi.long_term.facts.slots import ALIAS, NOTE, Names, is_alias, is_preference, terms_of
from jiyi.long_term.facts.timeline import start_of
from jiyi.long_term.finding import find_by_ids
from jiyi.records import Block, Condition, Fact, Message, Query, Scope, single_valued
from jiyi.storage import Store
from jiyi.text import Secrecy, analyse, language

__all__ = [
    "Neighbour",
    "clamp_to_now",
    "facts_mentioned",
    "facts_to_merge",
    "find_facts",
    "find_names",
    "find_replaced_sources",
    "neighbours",
    "profile_block",
    "profile_of",
    "source_times",
    "user_scope",
]

_MAX_ALIASES = 5_000
_MAX_PER_ENTITY = 2_000  # facts about one entity
_MAX_RECENT = 500  # facts that a statement may mean without naming them
_MAX_TIMES = 500
_MAX_MENTIONED = 30  # facts a model is shown
_MAX_VALUE_CHARS = 300  # characters of their values
_COMPARED_CHARS = 2_000  # characters of a text whose words are compared
_NEARBY_FACTS = 6  # facts of one slot before a statement, and after it
_MOMENT = timedelta(microseconds=1)
_END_OF_TIME = datetime.max.replace(tzinfo=UTC)
_CLOCK_SKEW = timedelta(days=1)  # of this clock others may be
_MAX_DEPTH = 5
_MAX_NEIGHBOURS = 500  # in an answer
_MAX_EDGES = 200  # facts of one thing that are followed
_PROFILE_POINTS = (
    *("name", "nickname", "pronouns", "language", "native language", "time zone", "rule"),
    *(name for names in RULE_POINTS.values() for name in names),
)
_MAX_PROFILE = 200  # facts of these points, the newest, and as many that are pinned
_hide_secrets = cache(partial(Secrecy, "", ()))  # by language


def user_scope(scope: Scope) -> Scope:
    """Return the scope in which facts are compared: user and agent, whatever the session."""
    return replace(scope, session_id=None) if scope.session_id is not None else scope


def find_facts(store: Store, scope: Scope, *, newest_first: bool = True, **narrowed: Any) -> list[Fact]:
    """Return the facts of a scope; ``narrowed`` are parts of a `Query`."""
    query = Query(scope=scope, kinds=("fact",), newest_first=newest_first, **narrowed)
    return cast("list[Fact]", store.find(query))


def find_names(store: Store, scope: Scope) -> tuple[Names, list[Fact]]:
    """Return the names of things in a scope, and the facts that give them."""
    aliases = find_facts(store, user_scope(scope), predicate=ALIAS, limit=_MAX_ALIASES)[::-1]
    return Names(aliases), aliases


def _facts_about(store: Store, scope: Scope, names: Names, entities: Iterable[str]) -> dict[str, Fact]:
    """Return by id the facts with one of these entities, by any of its names, as subject or object."""
    every_name = dict.fromkeys(name for entity in entities for name in names.of(entity))
    scope = user_scope(scope)
    found = (find_facts(store, scope, entity=name, limit=_MAX_PER_ENTITY) for name in every_name)
    return {fact.id: fact for facts in found for fact in facts}


def facts_to_merge(store: Store, scope: Scope, statements: Sequence[Statement]) -> list[Fact]:
    """Return the facts needed to merge statements: see ``part`` of `merge`."""
    names, aliases = find_names(store, scope)
    facts = {fact.id: fact for fact in aliases}
    entities: list[str] = []
    need_recent = False
    for statement in statements:
        renames = statement.action == "rename"
        states = statement.action == "state" and not statement.vague
        need_recent |= not (renames or states) or statement.category == "rule"
        need_recent |= bool(ownerless_point(statement))
        if statement.predicate == NOTE:
            entities.append(statement.object)
        elif states and not is_preference(statement.predicate):
            facts |= _facts_of(store, scope, names.of(statement.subject), statement)
        elif statement.subject:
            entities += [statement.subject, statement.object] if renames else [statement.subject]
    facts |= _facts_about(store, scope, names, entities)
    if need_recent:
        facts |= {fact.id: fact for fact in find_facts(store, user_scope(scope), limit=_MAX_RECENT)}
    return sorted(facts.values(), key=lambda fact: (fact.created_at, fact.id))


def _facts_of(store: Store, scope: Scope, subjects: Iterable[str], statement: Statement) -> dict[str, Fact]:
    """Return the facts of a statement's point that its speaker said nearest before and after it.

    If a person speaks, those of others too. A point may have a value for every minute of a year;
    the distant ones do not affect a new one.
    """
    found: dict[str, Fact] = {}
    said_at, limit = statement.said_at, 2 * _NEARBY_FACTS
    after = said_at + _MOMENT if said_at < _END_OF_TIME else None
    own = Condition("speaker", "in", (statement.speaker,))
    for subject, speaker in product(subjects, (own, None) if statement.by_person else (own,)):
        point: dict[str, Any] = {"subject": subject, "predicate": statement.predicate, "where": speaker}
        facts = find_facts(store, user_scope(scope), limit=limit, **point)
        if len(facts) == limit:
            facts += find_facts(store, user_scope(scope), until=after, limit=_NEARBY_FACTS, **point)
            later = {"since": said_at, "newest_first": False, **point}
            facts += find_facts(store, user_scope(scope), limit=_NEARBY_FACTS, **later)
        found.update((fact.id, fact) for fact in facts)
    return found


def clamp_to_now(message: Message, now: datetime) -> Message:
    """Return a message dated now at the latest: a date in the future would outlive all that follows."""
    ahead = message.created_at is not None and message.created_at > now + _CLOCK_SKEW
    return replace(message, created_at=now + _CLOCK_SKEW) if ahead else message


def facts_mentioned(store: Store, scope: Scope, messages: Iterable[Message]) -> list[Fact]:
    """Return the active facts that share most words with messages, oldest first."""
    terms = terms_of(f"{message.name or ''} {message.text[:_COMPARED_CHARS]}" for message in messages)
    shared = {
        fact: len(terms.intersection(analyse(fact.search_text[:_COMPARED_CHARS])))
        for fact in find_facts(store, user_scope(scope), fact_status=("active",), limit=_MAX_RECENT)
    }
    fitting = [fact for fact in shared if shared[fact] and len(fact.object) <= _MAX_VALUE_CHARS]
    nearest = sorted(fitting, key=lambda fact: -shared[fact])
    return sorted(nearest[:_MAX_MENTIONED], key=lambda fact: (fact.created_at, fact.id))


def source_times(store: Store, scope: Scope, facts: Iterable[Fact]) -> dict[str, datetime]:
    """Return the times of the source messages of facts with more than one."""
    ids = dict.fromkeys(id_ for fact in facts if len(fact.sources) > 1 for id_ in fact.sources)
    messages = find_by_ids(store, user_scope(scope), "message", [*ids][-_MAX_TIMES:])
    return {message.id: message.created_at for message in messages if message.created_at}


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """An entity that is connected with another."""

    name: str  # as it was said
    depth: int  # how many facts lie between
    facts: tuple[Fact, ...]  # the facts on one shortest way, the first at the thing asked for


def find_replaced_sources(store: Store, scope: Scope, message_ids: Sequence[str]) -> dict[str, str]:
    """Return by message the source of what replaced, or may have replaced, the newest of its facts."""
    if not message_ids:
        return {}
    narrowed: dict[str, Any] = {"sources": tuple(message_ids), "fact_status": ("superseded", "unsure")}
    found = find_facts(store, user_scope(scope), newest_first=False, limit=_MAX_EDGES, **narrowed)
    replaced = {fact.sources[-1]: fact.superseded_by for fact in found if single_valued(fact.predicate)}
    ids = {id_ for old, id_ in replaced.items() if id_ and old in message_ids}
    newer = find_by_ids(store, user_scope(scope), "fact", ids)
    source = {fact.id: fact.sources[-1] if fact.sources else fact.id for fact in newer}
    return {old: source[id_] for old, id_ in replaced.items() if id_ in source and source[id_] != old}


def neighbours(store: Store, scope: Scope, entity: str, depth: int) -> list[Neighbour]:
    """Return what is connected with a thing over at most ``depth`` active facts, nearest first.

    A fact connects both ways, from subject to object and back; another name of a thing is not
    a step. At most 500 neighbours, 200 facts of each thing; cycles are handled.

    Raises:
        BadQuery: a depth outside 1..5.
    """
    names, _ = find_names(store, scope)
    if not isinstance(depth, int) or isinstance(depth, bool) or not 1 <= depth <= _MAX_DEPTH:
        raise BadQuery(f"depth={depth!r} must be a whole number from 1 to {_MAX_DEPTH}")
    seen = {names.key(entity)}
    found: list[Neighbour] = []
    frontier: list[tuple[str, tuple[Fact, ...]]] = [(entity, ())]
    for step in range(1, depth + 1):
        next_frontier: list[tuple[str, tuple[Fact, ...]]] = []
        for name, path in frontier:
            for other, fact in _find_edges(store, scope, names, name):
                if (key := names.key(other)) in seen:
                    continue
                seen.add(key)
                next_frontier.append((other, (*path, fact)))
                found.append(Neighbour(name=other, depth=step, facts=(*path, fact)))
                if len(found) == _MAX_NEIGHBOURS:
                    return found
        frontier = next_frontier
    return found


def _find_edges(store: Store, scope: Scope, names: Names, name: str) -> list[tuple[str, Fact]]:
    key = names.key(name)
    active = [fact for fact in _facts_about(store, scope, names, [name]).values() if fact.status == "active"]
    newest = sorted(active, key=lambda fact: (fact.created_at, fact.id), reverse=True)
    return [
        (fact.object if names.key(fact.subject) == key else fact.subject, fact)
        for fact in newest[:_MAX_EDGES]
        if not is_alias(fact) and key in (names.key(fact.subject), names.key(fact.object))
    ]


def profile_of(store: Store, scope: Scope, now: datetime) -> list[Fact]:
    """Return the facts that every window of a user shows, oldest first.

    These are the user's rules, what users say of their own name and language, and pinned facts
    of every kind, from all sessions, as long as they hold ``now``.
    """
    scope, pinned = user_scope(scope), ("active", "unsure")
    found = find_facts(store, scope, predicate=_PROFILE_POINTS, fact_status=("active",), limit=_MAX_PROFILE)
    found += find_facts(store, scope, pinned=True, fact_status=pinned, limit=_MAX_PROFILE)
    started = {fact.id: fact for fact in found if start_of(fact) <= now}.values()
    current = [fact for fact in started if not (fact.valid_to and fact.valid_to <= now)]
    shown = [fact for fact in current if fact.pinned or fact.category == "rule" or _tells_own_profile(fact)]
    return sorted(shown, key=lambda fact: (start_of(fact), fact.created_at, fact.id))


def _tells_own_profile(fact: Fact) -> bool:
    of_speaker = fact.category == "profile" and fact.subject == fact.speaker
    return of_speaker and single_valued(fact.predicate)  # not "(name)", some name


def profile_block(fact: Fact) -> Block:
    """Return a fact as a line of the profile, with a named speaker, secrets hidden.

    If not all fit, pinned ones come first, then rules, newer before older.
    """
    text = fact.line
    if fact.category in ("rule", "note"):
        text = fact.object if fact.speaker in (None, "user") else f"{fact.speaker}: {fact.object}"
    shown = _hide_secrets(language(text))(text, fact.text)
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
