"""What a long JSON holds, in few words: its keys, types, lengths and ranges."""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["outline"]

_MOST_KEYS = 30  # of an object that are named
_MOST_SEEN = 200  # items of a list that are looked at
_DEEPEST = 6
_SHORT = 40  # characters of a text that is shown itself
_MOST_VALUES = 4  # different short texts that are shown themselves


def outline(value: Any, depth: int = 6) -> str:
    """Return the schema of a JSON value, such as ``{"id": int 1..90, "tags": [text] x 3}``.

    Objects name their keys, lists how many items they have and what these have in common,
    numbers their range, texts their lengths or, where they are few and short, themselves. At most
    ``depth`` levels are described.
    """
    return _of([value], min(depth, _DEEPEST))


def _of(values: Sequence[Any], depth: int) -> str:
    """Describe what several values at the same place have in common."""
    kinds: dict[str, list[Any]] = {}
    for value in values:
        kinds.setdefault(_kind(value), []).append(value)
    return " | ".join(_described(kind, found, depth) for kind, found in kinds.items())


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float"
        case str():
            return "text"
        case Mapping():
            return "object"
    return "list"


def _described(kind: str, values: Sequence[Any], depth: int) -> str:
    match kind:
        case "int" | "float":
            low, high = min(values), max(values)
            return f"{kind} {low}" if low == high else f"{kind} {low}..{high}"
        case "text":
            return _texts(values)
        case "object":
            return _objects(values, depth)
        case "list":
            return _lists(values, depth)
    return kind


def _texts(values: Sequence[str]) -> str:
    different = list(dict.fromkeys(values))
    few = len(different) <= _MOST_VALUES and all(len(value) <= _SHORT for value in different)
    if few and (len(values) > len(different) or len(values) == 1):
        return " | ".join(f'"{value}"' for value in different)
    lengths = [len(value) for value in values]
    low, high = min(lengths), max(lengths)
    return f"text of {low}" if low == high else f"text of {low}..{high}"


def _objects(values: Sequence[Mapping[str, Any]], depth: int) -> str:
    keys = list(dict.fromkeys(key for value in values for key in value))
    if depth <= 0:
        return f"{{{len(keys)} keys}}"
    parts = []
    for key in keys[:_MOST_KEYS]:
        found = [value[key] for value in values if key in value]
        rare = "?" if len(found) < len(values) else ""
        parts.append(f'"{key}"{rare}: {_of(found, depth - 1)}')
    if len(keys) > _MOST_KEYS:
        parts.append(f"… {len(keys) - _MOST_KEYS} more keys")
    return "{" + ", ".join(parts) + "}"


def _lists(values: Sequence[Sequence[Any]], depth: int) -> str:
    lengths = [len(value) for value in values]
    size = str(lengths[0]) if min(lengths) == max(lengths) else f"{min(lengths)}..{max(lengths)}"
    items = [item for value in values for item in value[:_MOST_SEEN]][:_MOST_SEEN]
    inner = _of(items, depth - 1) if items and depth > 0 else "…" if items else ""
    return f"[{inner}] x {size}"
