"""Finds what is known about what statements are about."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import cast

from jiyi.extraction import Statement
from jiyi.long_term.facts.slots import ALIAS, NOTE, Names, is_taste
from jiyi.records import Fact, Message, Query, Scope
from jiyi.storage import Store
from jiyi.text import analyse

__all__ = ["about", "known_for", "likely_meant", "names_in", "said_of", "wide"]

_MOST_ALIASES = 5_000
_MOST_ABOUT = 2_000  # facts about one thing that are looked at
_MOST_RECENT = 500  # facts that a statement may mean which does not name them
_MOST_TIMES = 500
_MOST_MEANT = 30  # facts a model is shown that messages may speak of
_LONGEST = 300  # characters of their values
_SAMPLE = 2_000  # characters of a text whose words are compared
_NEAREST = 6  # facts of one slot before a statement, and behind it
_MOMENT = timedelta(microseconds=1)


def wide(scope: Scope) -> Scope:
    """Return the scope in which facts meet: the user's and the agent's, whatever the session."""
    return replace(scope, session_id=None) if scope.session_id is not None else scope


def names_in(store: Store, scope: Scope) -> tuple[Names, list[Fact]]:
    """Return the names that things have in a scope, and the facts that say so."""
    query = Query(scope=wide(scope), kinds=("fact",), predicate=ALIAS, limit=_MOST_ALIASES, newest_first=True)
    found = cast("list[Fact]", store.find(query))[::-1]
    return Names(found), found


def about(store: Store, scope: Scope, names: Names, things: Iterable[str]) -> dict[str, Fact]:
    """Return by id the facts that have one of these things, by any of its names, at either end."""
    found: dict[str, Fact] = {}
    for name in dict.fromkeys(name for thing in things for name in names.of(thing)):
        query = Query(scope=wide(scope), kinds=("fact",), entity=name, limit=_MOST_ABOUT, newest_first=True)
        found.update((fact.id, fact) for fact in cast("list[Fact]", store.find(query)))
    return found


def known_for(store: Store, scope: Scope, statements: Sequence[Statement]) -> list[Fact]:
    """Return what has to be known to merge statements: see `merge`, and there ``part``."""
    names, aliases = names_in(store, scope)
    found = {fact.id: fact for fact in aliases}
    things: list[str] = []
    vague = False
    for statement in statements:
        whole = bool(statement.subject and statement.predicate)
        vague = (
            vague
            or statement.action not in ("state", "rename")
            or statement.category == "rule"
            or not (whole or statement.action == "rename")
        )
        if statement.predicate == NOTE:
            things.append(statement.object)
        elif whole and statement.action == "state" and not is_taste(statement.predicate):
            found |= _of_point(store, scope, names.of(statement.subject), statement)
        elif statement.subject:
            things += (
                [statement.subject, statement.object] if statement.action == "rename" else [statement.subject]
            )
    found |= about(store, scope, names, things)
    if vague:
        query = Query(scope=wide(scope), kinds=("fact",), limit=_MOST_RECENT, newest_first=True)
        found |= {fact.id: fact for fact in cast("list[Fact]", store.find(query))}
    return sorted(found.values(), key=lambda fact: (fact.created_at, fact.id))


def _of_point(store: Store, scope: Scope, subjects: Iterable[str], statement: Statement) -> dict[str, Fact]:
    """Return the facts of a slot that were said nearest before and after a statement.

    A slot may have a value for every minute of a year; those far away do not meet a new one.
    """
    found: dict[str, Fact] = {}
    for subject in subjects:
        point = Query(
            scope=wide(scope),
            kinds=("fact",),
            subject=subject,
            predicate=statement.predicate,
            limit=2 * _NEAREST,
            newest_first=True,
        )
        all_of_it = cast("list[Fact]", store.find(point))
        found.update((fact.id, fact) for fact in all_of_it)
        if len(all_of_it) < point.limit:
            continue
        for query in (
            replace(point, until=_just_after(statement.said_at), limit=_NEAREST),
            replace(point, since=statement.said_at, limit=_NEAREST, newest_first=False),
        ):
            found.update((fact.id, fact) for fact in cast("list[Fact]", store.find(query)))
    return found


def likely_meant(store: Store, scope: Scope, messages: Iterable[Message]) -> list[Fact]:
    """Return active facts that messages may speak of, oldest first: those that share most words with them."""
    query = Query(
        scope=wide(scope), kinds=("fact",), fact_status=("active",), limit=_MOST_RECENT, newest_first=True
    )
    said = {
        term for message in messages for term in analyse(f"{message.name or ''} {message.text[:_SAMPLE]}")
    }
    shared = {
        fact: len(said.intersection(analyse(fact.search_text[:_SAMPLE])))
        for fact in cast("list[Fact]", store.find(query))
    }
    fitting = [fact for fact in shared if shared[fact] and len(fact.object) <= _LONGEST]
    nearest = sorted(fitting, key=lambda fact: -shared[fact])
    return sorted(nearest[:_MOST_MEANT], key=lambda fact: (fact.created_at, fact.id))


def _just_after(moment: datetime) -> datetime | None:
    try:
        return moment + _MOMENT
    except OverflowError:  # the end of time: nothing lies behind it
        return None


def said_of(store: Store, scope: Scope, facts: Iterable[Fact]) -> dict[str, datetime]:
    """Return when the messages were said that facts with more than one source rest on."""
    ids = tuple(dict.fromkeys(id_ for fact in facts if len(fact.sources) > 1 for id_ in fact.sources))
    if not ids:
        return {}
    query = Query(scope=wide(scope), kinds=("message",), ids=ids[-_MOST_TIMES:], limit=_MOST_TIMES)
    messages = cast("list[Message]", store.find(query))
    return {message.id: message.created_at for message in messages if message.created_at}
