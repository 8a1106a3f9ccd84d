"""The file of the official MCP memory server: entities and relations as JSON lines."""

from collections.abc import Iterator, Mapping
from typing import Any

from jiyi.importers.entries import Entry, Maker
from jiyi.importers.files import Files, values
from jiyi.importers.graph_words import NOTE, SPEAKER, TYPE
from jiyi.storage.transfer.lines import Rejected

__all__ = ["read_server_memory"]

_ENDS = ("from", "relationType", "to")


def _line(value: object) -> Mapping[str, Any]:
    """Return what a line says, an entity or a relation, with its observations cleaned.

    Raises:
        ValueError: it is neither; says why.
    """
    kind = value.get("type") if isinstance(value, Mapping) else None
    if kind not in ("entity", "relation"):
        raise ValueError("neither an entity nor a relation")
    assert isinstance(value, Mapping)
    for name in ("name",) if kind == "entity" else _ENDS:
        if not isinstance(value.get(name), str) or not value[name].strip():
            raise ValueError(f"{name} is missing")
    texts = value.get("observations") or []
    if not isinstance(texts, list):
        raise ValueError("observations is no list")
    kept = [one for one in texts if isinstance(one, str) and one.strip()]
    return {**value, "observations": kept, "entityType": str(value.get("entityType") or "")}


def read_server_memory(files: Files, make: Maker) -> Iterator[Entry]:
    """Read entities, observations and relations as the facts that the tools of `jiyi mcp` keep."""
    for name in files.named("*.json*"):
        for where, value in values(files, name):
            if isinstance(value, Rejected):
                yield value
                continue
            try:
                yield from _facts(where, _line(value), make)
            except ValueError as error:
                yield Rejected.because(where, error)


def _facts(where: str, line: Mapping[str, Any], make: Maker) -> Iterator[Entry]:
    if line["type"] == "relation":
        said = [tuple(line[end] for end in _ENDS)]
    else:
        said = [(line["name"], TYPE, line["entityType"] or "entity")]
        said += [(line["name"], NOTE, text) for text in line["observations"]]
    for one in said:
        category: Any = "attribute" if one[1] == TYPE else "note"
        yield make.fact(
            where, one, id=make.hashed(*one), origin="memory.jsonl", category=category, speaker=SPEAKER
        )
