"""The nine tools of the official memory server over the same facts: ``--compat server-memory``.

An entity is a subject with its type, an observation a note about it, and a relation a fact whose predicate
is the kind of relation. Facts of other tools show in the graph, too. Each observation and relation is a
separate record with its own transaction, so processes that share a memory lose nothing.
"""

import json
from collections.abc import Iterable
from typing import Any

from typing_extensions import TypedDict

from jiyi.errors import NotFound
from jiyi.mcp.caller import Hosted, Right
from jiyi.mcp.graph_view import NOTE, SPEAKER, TYPE, Entity, Graph, Node, Relation, View, build_view

__all__ = [
    "GRAPH_TOOLS", "Added", "Done", "Entities", "GraphTools", "Relations", "Removed", "Results", "Success",
]  # fmt: skip


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
        nodes = self._read_view("write").nodes
        new = list({entity["name"]: entity for entity in entities if entity["name"] not in nodes}.values())
        for entity in new:
            self._keep(entity["name"], TYPE, entity["entityType"] or "entity", "attribute")
            for text in dict.fromkeys(entity["observations"]):
                self._keep(entity["name"], NOTE, text, "note")
        return {"entities": new}

    def create_relations(self, relations: list[Relation]) -> Relations:
        """Add the relations that are new."""
        existing = self._read_view("write").relations
        keys = {_key_of(relation): relation for relation in relations}
        new = {key: relation for key, relation in keys.items() if key not in existing}
        for start, end, kind in new:
            self._keep(start, kind, end, "note")  # a note supersedes no other
        return {"relations": list(new.values())}

    def add_observations(self, observations: list[Added]) -> Results:
        """Add new observations to entities; if one of these does not exist, nothing is added."""
        nodes = self._read_view("write").nodes
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
        view, names = self._read_view("forget"), set(entityNames)
        ids = [id_ for name in entityNames for id_ in view.nodes.get(name, Node()).ids]
        relations = [ids for key, ids in view.relations.items() if names & set(key[:2])]
        return self._delete([*ids, *(id_ for ids in relations for id_ in ids)], "Entities")

    def delete_observations(self, deletions: list[Removed]) -> Success:
        """Delete observations of entities."""
        nodes = self._read_view("forget").nodes
        ids: list[str] = []
        for deletion in deletions:
            existing = nodes.get(deletion["entityName"], Node()).observations
            ids += [id_ for text in deletion["observations"] for id_ in existing.get(text, ())]
        return self._delete(ids, "Observations")

    def delete_relations(self, relations: list[Relation]) -> Success:
        """Delete relations."""
        existing = self._read_view("forget").relations
        ids = (id_ for relation in relations for id_ in existing.get(_key_of(relation), ()))
        return self._delete(ids, "Relations")

    def read_graph(self) -> Graph:
        """Return everything."""
        return self._read_view("read").graph()

    def search_nodes(self, query: str) -> Graph:
        """Return entities that say something, with their relations."""
        view = self._read_view("read")
        names = view.find(query)
        if not names and query.strip():
            scope, memory = self._open("read")
            hits = memory.search(query, kinds="fact", **scope)
            subjects = {str(getattr(hit.record, "subject", "")) for hit in hits} - {""}
            names = set() if hits.doubtful else subjects & set(view.nodes)
        return view.graph(names)

    def open_nodes(self, names: list[str]) -> Graph:
        """Return entities by name, with their relations."""
        return self._read_view("read").graph(set(names))

    def resource(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self.read_graph(), ensure_ascii=False, indent=2)

    def _read_view(self, right: Right) -> View:
        """Return the current graph of the newest 10,000 facts, for a caller with this right."""
        scope, memory = self._open(right)
        return build_view(memory.facts(status=("active", "unsure", "superseded"), limit=10_000, **scope))

    def _keep(self, subject: str, predicate: str, value: str, category: str) -> None:
        scope, memory = self._open("write")
        fields: Any = {"subject": subject, "predicate": predicate, "object": value, "category": category}
        memory.remember(**fields, speaker=SPEAKER, **scope)

    def _delete(self, ids: Iterable[str], what: str) -> Success:
        """Forget facts; `jiyi restore` brings them back."""
        scope, memory = self._open("forget")
        if unique_ids := list(dict.fromkeys(ids)):
            memory.forget(ids=unique_ids, reason="deleted from the graph", **scope)
        return {"success": True, "message": f"{what} deleted successfully"}


def _key_of(relation: Relation) -> tuple[str, str, str]:
    return relation["from"], relation["to"], relation["relationType"]


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
