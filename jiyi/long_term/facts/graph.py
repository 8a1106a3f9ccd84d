"""What is connected with what: facts as edges between the things at their two ends."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from jiyi.errors import BadQuery
from jiyi.long_term.facts.slots import Names, is_alias
from jiyi.records import Fact

__all__ = ["Neighbour", "neighbours"]

_DEEPEST = 5
_MOST = 500  # neighbours in an answer
_MOST_EDGES = 200  # facts of one thing that are followed


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """One thing that is connected with another."""

    name: str  # as it was said
    depth: int  # how many facts lie between
    facts: tuple[Fact, ...]  # the facts on one shortest way, the first at the thing asked for


def neighbours(
    entity: str, depth: int, edges: Callable[[Iterable[str]], Iterable[Fact]], names: Names
) -> list[Neighbour]:
    """Return what is connected with a thing over at most ``depth`` facts, nearest first.

    A fact leads both ways, from subject to object and back; other names of a thing are that
    thing and no step. At most 500 neighbours, 200 facts of each thing; cycles do no harm.

    Args:
        entity: the thing, by any of its names.
        depth: facts in a row, 1 to 5.
        edges: gives the facts at any of these things.
        names: which names mean the same.

    Raises:
        BadQuery: a depth outside 1..5.
    """
    if not isinstance(depth, int) or isinstance(depth, bool) or not 1 <= depth <= _DEEPEST:
        raise BadQuery(f"depth={depth!r} must be a whole number from 1 to {_DEEPEST}")
    seen = {names.key(entity)}
    found: list[Neighbour] = []
    near: list[tuple[str, tuple[Fact, ...]]] = [(entity, ())]
    for step in range(1, depth + 1):
        further: list[tuple[str, tuple[Fact, ...]]] = []
        for thing, way in near:
            own = names.key(thing)
            facts = sorted(edges([thing]), key=lambda fact: (fact.created_at, fact.id), reverse=True)
            for fact in facts[:_MOST_EDGES]:
                if is_alias(fact):
                    continue
                ends = ((fact.subject, fact.object), (fact.object, fact.subject))
                other = next((end for one, end in ends if names.key(one) == own), None)
                if other is None or (key := names.key(other)) in seen:
                    continue
                seen.add(key)
                further.append((other, (*way, fact)))
                found.append(Neighbour(name=other, depth=step, facts=(*way, fact)))
                if len(found) == _MOST:
                    return found
        near = further
    return found
