"""The nine tools of the official memory server over the same facts: ``--compat server-memory``.

An entity is a subject with its type, an observation a note about it, and a relation a fact whose predicate
is the kind of relation. Facts of other tools show in the graph, too. Each observation and relation is a
separate record with its own transaction, so processes that share a memory lose nothing.
"""

import json
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from jiyi.errors import NotFound
from jiyi.importers.graph_words import NOTE, SPEAKER, TYPE
from jiyi.mcp.caller import Hosted, Right

if TYPE_CHECKING:  # loaded when the memory is opened, after the handshake
    from jiyi.records import Fact, FactStatus

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


class Added(TypedDict):
    """Observations for one entity."""

    entityName: str
    contents: list[str]


class Removed(TypedDict):
    """Observations to be deleted."""

    entityName: str
    observations: list[str]


class Done(TypedDict):
    """What was added to one entity."""

    entityName: str
    addedObservations: list[str]


class Entities(TypedDict):
    """Entities that are new."""

    entities: list[Entity]


class Relations(TypedDict):
    """Relations that are new."""

    relations: list[Relation]


class Results(TypedDict):
    """What was added, by entity."""

    results: list[Done]


class Success(TypedDict):
    """A deletion that was carried out."""

    success: bool
    message: str


class GraphTools(Hosted):
    """The tools, with the names, arguments and structured answers of the official server."""

    def create_entities(self, entities: list[Entity]) -> Entities:
        """Add the entities whose names are new."""
        nodes = self._read_view().nodes
        new = list({entity["name"]: entity for entity in entities if entity["name"] not in nodes}.values())
        for entity in new:
            self._keep(entity["name"], TYPE, entity["entityType"] or "entity", "attribute")
            for text in dict.fromkeys(entity["observations"]):
                self._keep(entity["name"], NOTE, text, "note")
        return {"entities": new}

    def create_relations(self, relations: list[Relation]) -> Relations:
        """Add the relations that are new."""
        existing = self._read_view().relations
        keys = {_key_of(relation): relation for relation in relations}
        new = {key: relation for key, relation in keys.items() if key not in existing}
        for start, end, kind in new:
            self._keep(start, kind, end, "note")  # a note supersedes no other
        return {"relations": list(new.values())}

    def add_observations(self, observations: list[Added]) -> Results:
        """Add new observations to entities; if one of these does not exist, nothing is added."""
        nodes = self._read_view().nodes
        for addition in observations:
            if addition["entityName"] not in nodes:
                raise NotFound(self._words.notes["unknown_entity"].format(name=addition["entityName"]))
        results: list[Done] = []
        for addition in observations:
            name = addition["entityName"]
            existing = nodes[name].observations
            new = [text for text in dict.fromkeys(addition["contents"]) if text not in existing]
            for text in new:
                self._keep(name, NOTE, text, "note")
                existing[text] = []
            results.append({"entityName": name, "addedObservations": new})
        return {"results": results}

    def delete_entities(self, entityNames: list[str]) -> Success:
        """Delete entities with their relations."""
        view, names = self._read_view(), set(entityNames)
        ids = [id_ for name in entityNames for id_ in view.nodes.get(name, _Node()).ids]
        relations = [ids for key, ids in view.relations.items() if names & set(key[:2])]
        return self._delete([*ids, *(id_ for ids in relations for id_ in ids)], "Entities")

    def delete_observations(self, deletions: list[Removed]) -> Success:
        """Delete observations of entities."""
        nodes = self._read_view().nodes
        ids: list[str] = []
        for deletion in deletions:
            existing = nodes.get(deletion["entityName"], _Node()).observations
            ids += [id_ for text in deletion["observations"] for id_ in existing.get(text, ())]
        return self._delete(ids, "Observations")

    def delete_relations(self, relations: list[Relation]) -> Success:
        """Delete relations."""
        existing = self._read_view().relations
        ids = (id_ for relation in relations for id_ in existing.get(_key_of(relation), ()))
        return self._delete(ids, "Relations")

    def read_graph(self) -> Graph:
        """Return everything."""
        return self._read_view().graph()

    def search_nodes(self, query: str) -> Graph:
        """Return entities that say something, with their relations."""
        view = self._read_view()
        names = view.find(query)
        if not names and query.strip():
            hits = self._memory.search(query, kinds="fact", **self._scope)
            subjects = {str(getattr(hit.record, "subject", "")) for hit in hits} - {""}
            names = set() if hits.doubtful else subjects & set(view.nodes)
        return view.graph(names)

    def open_nodes(self, names: list[str]) -> Graph:
        """Return entities by name, with their relations."""
        return self._read_view().graph(set(names))

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self.read_graph(), ensure_ascii=False, indent=2)

    def _read_view(self) -> "_View":
        """Return the current graph of the newest 10,000 facts."""
        shown: Sequence[FactStatus] = ("active", "unsure", "superseded")
        return _build_view(self._memory.facts(status=shown, limit=10_000, **self._scope))

    def _keep(self, subject: str, predicate: str, value: str, category: str) -> None:
        fields: Any = {"subject": subject, "predicate": predicate, "object": value, "category": category}
        self._memory.remember(**fields, speaker=SPEAKER, **self._scope)

    def _delete(self, ids: Iterable[str], what: str) -> Success:
        """Forget facts; `jiyi restore` brings them back."""
        if unique_ids := list(dict.fromkeys(ids)):
            self._memory.forget(ids=unique_ids, reason="deleted from the graph", **self._scope)
        return {"success": True, "message": f"{what} deleted successfully"}


def _key_of(relation: Relation) -> tuple[str, str, str]:
    return relation["from"], relation["to"], relation["relationType"]


@dataclass(slots=True)
class _Node:
    """One entity, with the facts it is made of."""

    kind: str = _UNTYPED
    observations: dict[str, list[str]] = field(default_factory=dict)  # ids by text
    typed_by: list[str] = field(default_factory=list)  # ids

    @property
    def ids(self) -> list[str]:
        """The ids of its facts."""
        return [*self.typed_by, *(id_ for ids in self.observations.values() for id_ in ids)]


@dataclass(frozen=True, slots=True)
class _View:
    """A graph with the ids of its facts."""

    nodes: dict[str, _Node]
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


def _build_view(facts: Iterable["Fact"]) -> _View:
    """Return facts as a graph.

    Facts of the graph tools stay until they are deleted there; other facts only while they are in force.
    """
    view, all_facts = _View({}, {}), list(facts)
    others = [fact for fact in all_facts if fact.speaker != SPEAKER and fact.status != "superseded"]
    for fact in all_facts:
        if fact.speaker != SPEAKER:
            continue
        if fact.predicate == TYPE:
            node = view.nodes.setdefault(fact.subject, _Node())
            node.kind = node.kind if node.typed_by else fact.object
            node.typed_by.append(fact.id)
        elif fact.predicate == NOTE:
            _add_observation(view, fact, fact.object)
        else:
            _add_relation(view, fact)
    subjects = {*view.nodes, *(fact.subject for fact in others)}
    for fact in others:
        if fact.object in subjects and fact.object != fact.subject:
            view.nodes.setdefault(fact.subject, _Node())
            _add_relation(view, fact)
        else:
            text = fact.object if fact.predicate == NOTE else f"{fact.predicate}: {fact.object}"
            _add_observation(view, fact, text)
    return view


def _add_observation(view: _View, fact: "Fact", text: str) -> None:
    view.nodes.setdefault(fact.subject, _Node()).observations.setdefault(text, []).append(fact.id)


def _add_relation(view: _View, fact: "Fact") -> None:
    view.relations.setdefault((fact.subject, fact.object, fact.predicate), []).append(fact.id)


GRAPH_TOOLS: dict[str, Right] = {
    "create_entities": "write",
    "create_relations": "write",
    "add_observations": "write",
    "delete_entities": "forget",
    "delete_observations": "forget",
    "delete_relations": "forget",
    "read_graph": "read",
    "search_nodes": "read",
    "open_nodes": "read",
}
