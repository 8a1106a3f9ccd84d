"""The OpenAPI 3.1 description: routes from the verbs' signatures, the rest from a file."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from pydantic import TypeAdapter

from jiyi.server.rest import PREFIX, VERSIONED
from jiyi.wire import ROUTES, Route, adapter, call_of

__all__ = ["describe_api"]

_SCHEMA_REF = "#/components/schemas/{model}"
_PATH_PARAMETER = {"in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
_ETAG_HEADER = {"in": "header", "description": "The ETag of an answer.", "schema": {"type": "string"}}
_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The same request with the same key is done once; for a day it is only answered again.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
}


@lru_cache(maxsize=1)
def describe_api() -> Mapping[str, Any]:
    """Return the description of everything below ``/v1``, as JSON values."""
    models: list[tuple[str, Any, TypeAdapter[Any]]] = []
    for route in ROUTES:
        call = call_of(route)
        models.append((f"{route.verb} asked", "validation", TypeAdapter(call.request)))
        models.append((f"{route.verb} answered", "serialization", adapter(call.result)))
    schemas, shared = TypeAdapter.json_schemas(models, ref_template=_SCHEMA_REF)
    by_name = {key: schema for (key, _), schema in schemas.items()}
    document = json.loads(files("jiyi.server").joinpath("openapi.json").read_text("utf-8"))
    paths: dict[str, Any] = document["paths"]
    for route in ROUTES:
        asked, answered = by_name[f"{route.verb} asked"], by_name[f"{route.verb} answered"]
        operations = paths.setdefault(PREFIX + route.path, {})
        resolved = shared["$defs"][asked["$ref"].rpartition("/")[2]] if "$ref" in asked else asked
        operations[route.method.lower()] = _describe_operation(route, resolved, asked, answered)
    document["info"]["version"] = version("jiyi")
    document["components"]["schemas"] |= shared.get("$defs", {})
    return document  # type: ignore[no-any-return]


def _describe_operation(
    route: Route, request: Mapping[str, Any], asked: Mapping[str, Any], answered: Mapping[str, Any]
) -> dict[str, Any]:
    call = call_of(route)
    operation: dict[str, Any] = {
        "operationId": route.verb,
        "summary": call.summary,
        "description": call.description,
        "tags": [route.path.split("/")[1]],
        "security": [{"key": [route.access]}, {"header": [route.access]}],
        "parameters": [{"name": name, **_PATH_PARAMETER} for name in call.in_path],
        "responses": _describe_responses(route, answered),
    }
    if route.method in ("GET", "DELETE"):
        operation["parameters"] += _describe_query(request, route.example)
    else:
        content: dict[str, Any] = {"schema": asked}
        if route.example:
            content["example"] = dict(route.example)
        needed = bool(request.get("required"))
        operation["requestBody"] = {"required": needed, "content": {"application/json": content}}
    if route.writes:
        operation["parameters"].append(_IDEMPOTENCY_KEY)
    if route.verb in VERSIONED:
        names = ("If-Match", "If-None-Match") if route.method == "GET" else ("If-Match",)
        operation["parameters"] += [{"name": name, **_ETAG_HEADER} for name in names]
    return operation


def _describe_query(request: Mapping[str, Any], example: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parameters of a query; optional ones are left out, since a query has no null."""
    parameters = []
    for name, schema in request.get("properties", {}).items():
        options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
        own = schema
        if options:
            rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
            own = {**rest, **options[0]} if len(options) == 1 else {**rest, "anyOf": options}
        parameter = {"name": name, "in": "query", "required": name in request.get("required", ())}
        inner = own.get("contentSchema")
        parameter |= {"schema": own} if inner is None else {"content": _content(inner)}
        if name in example:
            parameter["example"] = example[name]
        parameters.append(parameter)
    return parameters


def _describe_responses(route: Route, answered: Mapping[str, Any]) -> dict[str, Any]:
    if route.how == "job":
        success: dict[str, Any] = {"202": {"$ref": "#/components/responses/Job"}}
    else:
        success = {"200": {"description": "Done.", "content": _content(answered)}}
        if route.links:
            success["200"]["links"] = {verb: {"operationId": verb, **to} for verb, to in route.links.items()}
    problems: Sequence[str] = ("400", "401", "403", "404", "409", "413", "422", "429", "503", "default")
    return {**success, **{status: {"$ref": "#/components/responses/Problem"} for status in problems}}


def _content(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": dict(schema)}}
