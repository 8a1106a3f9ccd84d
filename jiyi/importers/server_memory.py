"""The file of the official MCP memory server: entities and relations as JSON lines."""

from collections.abc import Iterator, Mapping
from typing import Any

from jiyi.importers.entries import Entry, RecordMaker, as_dict
from jiyi.importers.files import Files, iter_json_values
from jiyi.importers.graph_words import NOTE, SPEAKER, TYPE
from jiyi.storage.transfer.lines import Rejected

__all__ = ["read_server_memory"]

_TRIPLE_KEYS = ("from", "relationType", "to")


def _parse_line(value: object) -> Mapping[str, Any]:
    """Return a valid entity or relation, with only the observations that are text.

    Raises:
        ValueError: it is neither.
    """
    line = as_dict(value)
    if line.get("type") not in ("entity", "relation"):
        raise ValueError("neither an entity nor a relation")
    for name in ("name",) if line["type"] == "entity" else _TRIPLE_KEYS:
        if not isinstance(line.get(name), str) or not line[name].strip():
            raise ValueError(f"{name} is missing")
    texts = line.get("observations") or []
    if not isinstance(texts, list):
        raise ValueError("observations is no list")
    observations = [text for text in texts if isinstance(text, str) and text.strip()]
    return {**line, "observations": observations, "entityType": str(line.get("entityType") or "")}


def read_server_memory(files: Files, make: RecordMaker) -> Iterator[Entry]:
    """Read entities, observations and relations as the facts that the tools of `jiyi mcp` keep."""
    for name in files.matching("*.json*"):
        for where, value in iter_json_values(files, name):
            if isinstance(value, Rejected):
                yield value
                continue
            try:
                yield from _facts(where, _parse_line(value), make)
            except ValueError as error:
                yield Rejected.because(where, error)


def _facts(where: str, line: Mapping[str, Any], make: RecordMaker) -> Iterator[Entry]:
    if line["type"] == "relation":
        triples = [tuple(line[end] for end in _TRIPLE_KEYS)]
    else:
        triples = [(line["name"], TYPE, line["entityType"] or "entity")]
        triples += [(line["name"], NOTE, text) for text in line["observations"]]
    for triple in triples:
        category: Any = "attribute" if triple[1] == TYPE else "note"
        yield make.fact(
            where, triple, id=make.hash_id(*triple), origin="memory.jsonl", category=category, speaker=SPEAKER
        )
