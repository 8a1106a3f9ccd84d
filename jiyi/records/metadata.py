"""Metadata of a message: labels of the caller's own, kept with it and never sent to a model."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from jiyi.errors import BadMessage, BadQuery
from jiyi.records.checks import plain

__all__ = ["Label", "Labels", "check_metadata", "has_labels", "read_labels"]

Label = str | int | float | bool | None
"""A value that metadata can be filtered by."""

Labels = tuple[tuple[str, Label], ...]
"""Keys of metadata, each with the value it must have."""

_MOST_BYTES = 16_384
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def check_metadata(value: object) -> dict[str, Any]:
    """Return a copy of a message's metadata.

    Raises:
        BadMessage: it is no dict with text keys, holds what is no JSON or a character that
            databases cannot filter by, or takes more than 16,384 bytes as JSON.
    """
    if not isinstance(value, Mapping):
        raise BadMessage(
            f'metadata must be a dict such as {{"channel": "slack"}}, not {type(value).__name__}'
        )
    copied = cast("dict[str, Any]", plain(value, "metadata", BadMessage))
    if any(map(_UNSTORABLE.search, _texts(copied))):
        raise BadMessage("metadata holds a zero character or half of a surrogate pair; use plain text")
    size = len(json.dumps(copied, ensure_ascii=False).encode())
    if size > _MOST_BYTES:
        raise BadMessage(
            f"metadata takes {size:,} bytes as JSON, at most {_MOST_BYTES:,} are kept with a message; "
            "keep large data elsewhere and its id here"
        )
    return copied


def read_labels(value: object) -> Labels:
    """Return what a filter asks of metadata, in the order of its keys.

    Raises:
        BadQuery: it is no dict of text keys and texts, numbers, true, false or null.
    """
    if isinstance(value, tuple):
        value = dict(value)
    if not isinstance(value, Mapping):
        raise BadQuery(f'metadata must be a dict such as {{"channel": "slack"}}, not {type(value).__name__}')
    for key, label in value.items():
        if not isinstance(key, str):
            raise BadQuery(f"metadata has the key {key!r}; keys must be text")
        if not isinstance(label, Label):
            raise BadQuery(
                f"metadata is filtered by text, numbers, true, false or null; {key} is {type(label).__name__}"
            )
        if any(map(_UNSTORABLE.search, _texts({key: label}))):
            raise BadQuery("metadata holds a zero character or half of a surrogate pair; use plain text")
        plain(label, f"metadata.{key}", BadQuery)
    return tuple(sorted(value.items()))


def has_labels(metadata: Mapping[str, Any], labels: Labels) -> bool:
    """Say whether metadata has each of these keys with an equal JSON value; 1 and 1.0 are equal."""
    return all(key in metadata and _same(metadata[key], label) for key, label in labels)


def _same(value: object, label: Label) -> bool:
    return isinstance(value, bool) == isinstance(label, bool) and value == label


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
