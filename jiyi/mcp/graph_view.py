"""A view of facts as a graph of entities and relations."""

from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from jiyi.importers.graph_words import NOTE, SPEAKER, TYPE

if TYPE_CHECKING:  # loaded when the memory is opened, after the handshake
    from jiyi.records import Fact

__all__ = ["NOTE", "SPEAKER", "TYPE", "Entity", "Graph", "Node", "Relation", "View", "build_view"]

_UNTYPED = "memory"  # type of entities that other tools created


class Entity(TypedDict):
    """A thing or person, with what is known of it."""

    name: str
    entityType: str
    observations: list[str]


Relation = TypedDict("Relation", {"from": str, "to": str, "relationType": str})  # "from" is a keyword


class Graph(TypedDict):
    """Entities and relations, oldest first."""

    entities: list[Entity]
    relations: list[Relation]


@dataclass(slots=True)
class Node:
    """One entity, with the facts it is made of."""

    kind: str = _UNTYPED
    observations: dict[str, list[str]] = field(default_factory=dict)  # ids by text
    typed_by: list[str] = field(default_factory=list)  # ids

    @property
    def ids(self) -> list[str]:
        """The ids of its facts."""
        return [*self.typed_by, *(id_ for ids in self.observations.values() for id_ in ids)]


@dataclass(frozen=True, slots=True)
class View:
    """A graph with the ids of its facts."""

    nodes: dict[str, Node]
    relations: dict[tuple[str, str, str], list[str]]  # ids by start, end and kind

    def graph(self, names: Set[str] | None = None) -> Graph:
        """Return everything, or the named entities with all their relations."""
        shown = self.nodes if names is None else {n: node for n, node in self.nodes.items() if n in names}
        return {
            "entities": [
                {"name": name, "entityType": node.kind, "observations": list(node.observations)}
                for name, node in shown.items()
            ],
            "relations": [
                {"from": start, "to": end, "relationType": kind}
                for start, end, kind in self.relations
                if names is None or start in shown or end in shown
            ],
        }

    def find(self, query: str) -> set[str]:
        """Return the entities whose name, type or observations contain the query, or all of its words."""
        from jiyi.text import analyse, query_terms

        needle, terms = query.lower(), set(query_terms(query))
        found = set[str]()
        for name, node in self.nodes.items():
            texts = [name, node.kind, *node.observations]
            known = {term for text in texts for term in analyse(text)} if terms else set()
            if any(needle in text.lower() for text in texts) or (terms and terms <= known):
                found.add(name)
        return found


def build_view(facts: Iterable["Fact"]) -> View:
    """Return facts as a graph.

    Facts of the graph tools stay until they are deleted there; other facts only while they are in force.
    """
    view, all_facts = View({}, {}), list(facts)
    others = [fact for fact in all_facts if fact.speaker != SPEAKER and fact.status != "superseded"]
    for fact in all_facts:
        if fact.speaker != SPEAKER:
            continue
        if fact.predicate == TYPE:
            node = view.nodes.setdefault(fact.subject, Node())
            node.kind = node.kind if node.typed_by else fact.object
            node.typed_by.append(fact.id)
        elif fact.predicate == NOTE:
            _add_observation(view, fact, fact.object)
        else:
            _add_relation(view, fact)
    subjects = {*view.nodes, *(fact.subject for fact in others)}
    for fact in others:
        if fact.object in subjects and fact.object != fact.subject:
            view.nodes.setdefault(fact.subject, Node())
            _add_relation(view, fact)
        else:
            text = fact.object if fact.predicate == NOTE else f"{fact.predicate}: {fact.object}"
            _add_observation(view, fact, text)
    return view


def _add_observation(view: View, fact: "Fact", text: str) -> None:
    view.nodes.setdefault(fact.subject, Node()).observations.setdefault(text, []).append(fact.id)


def _add_relation(view: View, fact: "Fact") -> None:
    view.relations.setdefault((fact.subject, fact.object, fact.predicate), []).append(fact.id)
