"""The nine tools of the official memory server over the same facts: ``--compat server-memory``.

An entity is a subject with its type, an observation a note about it, and a relation a fact whose predicate
is the kind of relation. Facts of other tools show in the graph, too. Each observation and relation is a
separate record with its own transaction, so processes that share a memory lose nothing.
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from jiyi.errors import NotFound
from jiyi.mcp.caller import MemoryHost, Right, current_caller
from jiyi.mcp.graph_view import NOTE, SPEAKER, TYPE, Entity, Graph, Relation, View, build_view
from jiyi.mcp.words import Words

if TYPE_CHECKING:  # loaded when the memory is opened, after the handshake
    from jiyi.manager import MemoryManager

__all__ = [
    "GRAPH_TOOLS",
    "Added",
    "Done",
    "Entities",
    "GraphTools",
    "Keeper",
    "Relations",
    "Removed",
    "Results",
    "Success",
]


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


class Keeper:
    """The graph of one user; ``scope`` are the arguments of verbs that name the user."""

    def __init__(self, memory: "MemoryManager", scope: dict[str, Any]) -> None:
        self._memory = memory
        self._scope = scope

    def view(self) -> View:
        """Return the current graph of the newest 10,000 facts."""
        facts = self._memory.facts(status=("active", "unsure", "superseded"), limit=10_000, **self._scope)
        return build_view(facts)

    def create_entities(self, entities: Iterable[Entity]) -> list[Entity]:
        """Add the entities whose names are new, and return them."""
        existing = self.view().nodes
        new = list({entity["name"]: entity for entity in entities if entity["name"] not in existing}.values())
        for entity in new:
            self._keep(entity["name"], TYPE, entity["entityType"] or "entity", "attribute")
            self._add_observations(entity["name"], dict.fromkeys(entity["observations"]))
        return new

    def create_relations(self, relations: Iterable[Relation]) -> list[Relation]:
        """Add the relations that are new, and return them."""
        existing = self.view().relations
        keys = {_key(relation): relation for relation in relations}
        new = {key: relation for key, relation in keys.items() if key not in existing}
        for start, end, kind in new:
            self._keep(start, kind, end, "note")  # a note supersedes no other
        return list(new.values())

    def add_observations(self, observations: Iterable[Added], missing: str) -> list[Done]:
        """Add new observations to existing entities; return those added.

        Raises:
            NotFound: an entity does not exist; nothing was added. ``missing`` is the message for its name.
        """
        nodes, additions = self.view().nodes, list(observations)
        for addition in additions:
            if addition["entityName"] not in nodes:
                raise NotFound(missing.format(name=addition["entityName"]))
        done = list[Done]()
        for addition in additions:
            existing = nodes[addition["entityName"]].observations
            new = [text for text in dict.fromkeys(addition["contents"]) if text not in existing]
            self._add_observations(addition["entityName"], new)
            existing.update((text, []) for text in new)
            done.append({"entityName": addition["entityName"], "addedObservations": new})
        return done

    def forget(self, ids: Iterable[str]) -> None:
        """Forget facts; `jiyi restore` brings them back."""
        if names := list(dict.fromkeys(ids)):
            self._memory.forget(ids=names, reason="deleted from the graph", **self._scope)

    def find_subjects(self, query: str) -> set[str]:
        """Return the subjects of the facts that a search finds, none if it is doubtful."""
        hits = self._memory.search(query, kinds="fact", **self._scope)
        return set() if hits.doubtful else {hit.record.subject for hit in hits if hit.kind == "fact"}  # type: ignore[union-attr]

    def _add_observations(self, name: str, texts: Iterable[str]) -> None:
        for text in texts:
            self._keep(name, NOTE, text, "note")

    def _keep(self, subject: str, predicate: str, value: str, category: str) -> None:
        fields: Any = {"subject": subject, "predicate": predicate, "object": value, "category": category}
        self._memory.remember(**fields, speaker=SPEAKER, **self._scope)


def _key(relation: Relation) -> tuple[str, str, str]:
    return relation["from"], relation["to"], relation["relationType"]


class GraphTools:
    """The tools, with the names, arguments and structured answers of the official server."""

    def __init__(self, host: MemoryHost, words: Words) -> None:
        self._host = host
        self._words = words

    def create_entities(self, entities: list[Entity]) -> Entities:
        """Add entities."""
        return {"entities": self._keeper("write").create_entities(entities)}

    def create_relations(self, relations: list[Relation]) -> Relations:
        """Add relations."""
        return {"relations": self._keeper("write").create_relations(relations)}

    def add_observations(self, observations: list[Added]) -> Results:
        """Add observations to entities."""
        missing = self._words.note_template("unknown_entity")
        return {"results": self._keeper("write").add_observations(observations, missing)}

    def delete_entities(self, entityNames: list[str]) -> Success:
        """Delete entities with their relations."""
        keeper, names = self._keeper("forget"), set(entityNames)
        graph = keeper.view()
        keeper.forget(
            [
                *(id_ for name in entityNames if name in graph.nodes for id_ in graph.nodes[name].ids),
                *(id_ for key, ids in graph.relations.items() if names & set(key[:2]) for id_ in ids),
            ]
        )
        return {"success": True, "message": "Entities deleted successfully"}

    def delete_observations(self, deletions: list[Removed]) -> Success:
        """Delete observations of entities."""
        keeper = self._keeper("forget")
        nodes = keeper.view().nodes
        ids = [
            id_
            for deletion in deletions
            if deletion["entityName"] in nodes
            for text in deletion["observations"]
            for id_ in nodes[deletion["entityName"]].observations.get(text, ())
        ]
        keeper.forget(ids)
        return {"success": True, "message": "Observations deleted successfully"}

    def delete_relations(self, relations: list[Relation]) -> Success:
        """Delete relations."""
        keeper = self._keeper("forget")
        existing = keeper.view().relations
        keeper.forget(id_ for relation in relations for id_ in existing.get(_key(relation), ()))
        return {"success": True, "message": "Relations deleted successfully"}

    def read_graph(self) -> Graph:
        """Return everything."""
        return self._keeper("read").view().graph()

    def search_nodes(self, query: str) -> Graph:
        """Return entities that say something, with their relations."""
        keeper = self._keeper("read")
        view = keeper.view()
        names = view.find(query)
        if not names and query.strip():
            names = keeper.find_subjects(query) & set(view.nodes)
        return view.graph(names)

    def open_nodes(self, names: list[str]) -> Graph:
        """Return entities by name, with their relations."""
        return self._keeper("read").view().graph(set(names))

    def resource(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self.read_graph(), ensure_ascii=False, indent=2)

    def _keeper(self, right: Right) -> Keeper:
        scope = current_caller(self._host).scope(right)
        return Keeper(self._host.memory, scope)


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
