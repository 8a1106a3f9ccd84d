"""JSON schemas: compiled once, checked often, bound to nothing outside themselves."""

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from jiyi.errors import InputError

__all__ = ["Unfit", "checker"]


class Unfit(ValueError):
    """Why a value does not fit, in words for the model."""


def checker(schema: Mapping[str, Any]) -> Callable[[Any], None]:
    """Return a function that raises `Unfit` for what does not fit an object's schema.

    Drafts 4, 6 and 7. Defaults are not filled in, and ``$ref`` reach nothing outside.

    Raises:
        InputError: `schema` is no JSON schema of an object.
    """
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise InputError('the schema must describe an object: {"type": "object", "properties": {...}}')
    try:
        return _compiled(json.dumps(schema))
    except (TypeError, ValueError) as error:
        raise InputError(f"the schema cannot be used: {error}") from error


@lru_cache(maxsize=64)
def _compiled(schema: str) -> Callable[[Any], None]:
    import fastjsonschema

    def refuse(uri: str) -> None:
        raise ValueError(f"it refers to {uri}, outside itself")

    outside = dict.fromkeys(("http", "https", "ftp", "file", "data"), refuse)
    try:
        # The defaults of a schema are the caller's business, its formats the model's.
        passes = fastjsonschema.compile(json.loads(schema), handlers=outside, use_default=False)
    except Exception as error:  # what a schema that is none raises is not documented
        raise ValueError(str(error)) from error

    def check(found: Any) -> None:
        try:
            passes(found)
        except fastjsonschema.JsonSchemaValueException as error:
            raise Unfit(error.message) from None

    return check
