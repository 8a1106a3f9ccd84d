"""The file of the official memory server, brought into a memory."""

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jiyi.errors import ImportFailed, NotFound
from jiyi.importers.server_memory import graph_line
from jiyi.mcp.graph import Keeper
from jiyi.mcp.graph_view import Entity, Relation

if TYPE_CHECKING:  # loaded when the memory is opened, after the handshake
    from jiyi.manager import MemoryManager

__all__ = ["GraphImport", "import_graph"]

_SESSION = "server-memory"  # where it is written down that a file was imported


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphImport:
    """What an import did."""

    entities: int = 0  # that are new
    observations: int = 0  # that were added to entities that were there
    relations: int = 0
    bad: tuple[str, ...] = ()  # lines that could not be read, each with the reason
    before: bool = False  # this very file was imported already; nothing was done


def import_graph(memory: "MemoryManager", path: Path, whose: dict[str, Any]) -> GraphImport:
    """Bring a ``memory.jsonl`` in: a line is an entity or a relation.

    Bad lines are told and passed over. A file that was imported whole is not imported again while it
    stays the same, so what was deleted since does not come back.

    Raises:
        ImportFailed: the file cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ImportFailed(f"{path} cannot be read: {error.strerror}; nothing was imported") from error
    mark = f"server-memory-{sha256(data).hexdigest()[:32]}"
    try:
        memory.get(mark, **whose)
        return GraphImport(before=True)
    except NotFound:
        pass
    entities, relations, bad = _read(data)
    keeper = Keeper(memory, whose)
    new = keeper.create_entities(entities.values())
    made = {entity["name"] for entity in new}
    more = [
        {"entityName": name, "contents": entity["observations"]}
        for name, entity in entities.items()
        if name not in made
    ]
    added = keeper.add_observations(more, "{name}")  # type: ignore[arg-type]
    related = keeper.create_relations(relations)
    told = f"{path.name}: {len(new)} entities, {len(related)} relations, {len(bad)} bad lines"
    memory.save_message(_SESSION, role="system", content=told, id=mark, **whose)
    return GraphImport(
        entities=len(new),
        observations=sum(len(one["addedObservations"]) for one in added),
        relations=len(related),
        bad=tuple(bad),
    )


def _read(data: bytes) -> tuple[dict[str, Entity], list[Relation], list[str]]:
    entities, relations, bad = dict[str, Entity](), list[Relation](), list[str]()
    for number, line in enumerate(data.decode("utf-8-sig", "replace").split("\n"), 1):
        if not line.strip():
            continue
        try:
            item = graph_line(json.loads(line))
            if item["type"] == "relation":
                ends: Any = {name: item[name] for name in ("from", "to", "relationType")}
                relations.append(ends)
                continue
            empty: Entity = {"name": item["name"], "entityType": "", "observations": []}
            one = entities.setdefault(item["name"], empty)
            one["entityType"] = one["entityType"] or item["entityType"]
            one["observations"] += item["observations"]
        except (ValueError, RecursionError) as error:
            bad.append(f"line {number}: {error}")
    return entities, relations, bad
