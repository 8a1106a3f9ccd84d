"""The nine tools of the official memory server over the same facts: ``--compat server-memory``.

An entity is a subject with its type, an observation a note about it, a relation a fact whose predicate is
the kind of relation. What other tools kept shows in the graph, too. Each observation and relation is a
record of its own, written in one transaction, so processes that share a memory lose nothing.
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from jiyi.errors import NotFound
from jiyi.mcp.caller import House, Right, calling
from jiyi.mcp.graph_view import BY, NOTE, TYPE, Entity, Graph, Relation, View, view_of
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
    """The graph of one user; ``whose`` are the arguments of verbs that say whose."""

    def __init__(self, memory: "MemoryManager", whose: dict[str, Any]) -> None:
        self._memory = memory
        self._whose = whose

    def view(self) -> View:
        """Return the graph as it is now, of at most 10,000 facts, the newest."""
        there = self._memory.facts(status=("active", "unsure", "superseded"), limit=10_000, **self._whose)
        return view_of(there)

    def create_entities(self, entities: Iterable[Entity]) -> list[Entity]:
        """Add entities whose names are new; return those."""
        known = self.view().nodes
        new = list({entity["name"]: entity for entity in entities if entity["name"] not in known}.values())
        for entity in new:
            self._keep(entity["name"], TYPE, entity["entityType"] or "entity", "attribute")
            self._observe(entity["name"], dict.fromkeys(entity["observations"]))
        return new

    def create_relations(self, relations: Iterable[Relation]) -> list[Relation]:
        """Add relations that are new; return them."""
        known = self.view().relations
        keys = {(one["from"], one["to"], one["relationType"]): one for one in relations}
        new = {key: relation for key, relation in keys.items() if key not in known}
        for start, end, kind in new:
            self._keep(start, kind, end, "note")  # of this category several values stand side by side
        return list(new.values())

    def add_observations(self, observations: Iterable[Added], missing: str) -> list[Done]:
        """Add what is new to entities that are there; all or none of them must be.

        Raises:
            NotFound: an entity is not there; ``missing`` says so of its name.
        """
        nodes, wanted = self.view().nodes, list(observations)
        for one in wanted:
            if one["entityName"] not in nodes:
                raise NotFound(missing.format(name=one["entityName"]))
        done = list[Done]()
        for one in wanted:
            known = nodes[one["entityName"]].observations
            new = [text for text in dict.fromkeys(one["contents"]) if text not in known]
            self._observe(one["entityName"], new)
            known.update((text, []) for text in new)
            done.append({"entityName": one["entityName"], "addedObservations": new})
        return done

    def forget(self, ids: Iterable[str]) -> None:
        """Forget facts; `jiyi restore` brings them back."""
        if names := list(dict.fromkeys(ids)):
            self._memory.forget(ids=names, reason="deleted from the graph", **self._whose)

    def near(self, query: str) -> set[str]:
        """Return the subjects of facts that are about a question, none where none seems to be."""
        found = self._memory.search(query, kinds="fact", **self._whose)
        return set() if found.doubtful else {hit.record.subject for hit in found if hit.kind == "fact"}  # type: ignore[union-attr]

    def _observe(self, name: str, texts: Iterable[str]) -> None:
        for text in texts:
            self._keep(name, NOTE, text, "note")

    def _keep(self, subject: str, predicate: str, value: str, category: str) -> None:
        said: Any = {"subject": subject, "predicate": predicate, "object": value, "category": category}
        self._memory.remember(**said, speaker=BY, **self._whose)


class GraphTools:
    """The tools, with the names, arguments and structured answers of the official server."""

    def __init__(self, house: House, words: Words) -> None:
        self._house = house
        self._words = words

    def create_entities(self, entities: list[Entity]) -> Entities:
        """Add entities."""
        return {"entities": self._keeper("write").create_entities(entities)}

    def create_relations(self, relations: list[Relation]) -> Relations:
        """Add relations."""
        return {"relations": self._keeper("write").create_relations(relations)}

    def add_observations(self, observations: list[Added]) -> Results:
        """Add observations to entities."""
        missing = self._words.raw_note("unknown_entity")
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
        gone = [
            id_
            for one in deletions
            if one["entityName"] in nodes
            for text in one["observations"]
            for id_ in nodes[one["entityName"]].observations.get(text, ())
        ]
        keeper.forget(gone)
        return {"success": True, "message": "Observations deleted successfully"}

    def delete_relations(self, relations: list[Relation]) -> Success:
        """Delete relations."""
        keeper = self._keeper("forget")
        there = keeper.view().relations
        keys = [(one["from"], one["to"], one["relationType"]) for one in relations]
        keeper.forget(id_ for key in keys for id_ in there.get(key, ()))
        return {"success": True, "message": "Relations deleted successfully"}

    def read_graph(self) -> Graph:
        """Return everything."""
        return self._keeper("read").view().graph()

    def search_nodes(self, query: str) -> Graph:
        """Return entities that say something, with their relations."""
        keeper = self._keeper("read")
        view = keeper.view()
        names = view.saying(query)
        if not names and query.strip():
            names = keeper.near(query) & set(view.nodes)
        return view.graph(names)

    def open_nodes(self, names: list[str]) -> Graph:
        """Return entities by name, with their relations."""
        return self._keeper("read").view().graph(set(names))

    def resource(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self.read_graph(), ensure_ascii=False, indent=2)

    def _keeper(self, right: Right) -> Keeper:
        whose = calling(self._house).scope(right)
        return Keeper(self._house.memory, whose)


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
