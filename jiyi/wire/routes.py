"""The table of routes, from routes.toml: which verb answers where, and who may ask.

The parameters of a request are those of the verb's signature: in the path if it names them, else in the
query of GET and DELETE, else in a JSON object.
"""

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, Literal, get_args, get_type_hints

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Json, create_model
from pydantic_core import PydanticCustomError

from jiyi.manager import MemoryManager
from jiyi.text.lexicon import read_toml
from jiyi.wire.codec import message_of

__all__ = ["MARK", "PREFIX", "ROUTES", "Access", "Call", "Route", "call_of"]

PREFIX = "/v1"
MARK = "x-jiyi-api"  # the header of all answers of a server below /v1, with the version of what it speaks

Access = Literal["read", "write", "forget", "admin"]
"""What a key must allow; admin is for what concerns more than one user."""

_TABLES = read_toml(__package__, "routes")
_MessageInput = Annotated[dict[str, Any], AfterValidator(message_of)]
_LOCAL_PARAMETERS = ("progress", "policy", "compress", "path")


def _read_json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


_JSON_TYPES: Mapping[str, Any] = {  # parameters that are of another type in JSON
    "message": _MessageInput | None,
    "messages": list[_MessageInput],
    "scratch": list[_MessageInput],
    "filters": Annotated[Mapping[str, Any] | None, BeforeValidator(_read_json)],
}


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """One row of the table."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str  # below /v1
    verb: str  # of `MemoryManager`
    access: Access
    how: Literal["answer", "job"] = "answer"  # whether it waits for the verb, or gets a job to poll

    def notes(self, kind: Literal["examples", "links"]) -> Mapping[str, Any]:
        """Return an example of a request, or OpenAPI's links to what may be asked next, by verb."""
        return dict(_TABLES[kind].get(self.verb, {}))

    @property
    def writes(self) -> bool:
        """Whether a request may carry an idempotency key."""
        return self.method != "GET" and self.access != "read"


@dataclass(frozen=True, slots=True)
class Call:
    """The parameters and the result of a route's verb."""

    in_path: tuple[str, ...]
    request: type[BaseModel]  # all other parameters, in the query or the body
    left_out: tuple[str, ...]  # parameters that cannot travel, such as a policy
    result: Any  # the annotation of what is returned
    summary: str  # the first line of the verb's docstring
    description: str  # the rest of it


ROUTES: Sequence[Route] = tuple(Route(*row) for row in _TABLES["routes"])


def _read_date(value: Any) -> Any:
    """Read a date as ISO 8601 alone: pydantic takes seconds since 1970 too."""
    if not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise PydanticCustomError("date", "use ISO 8601: 2026-01-31T09:00:00Z; + in a query is %2B") from None


@lru_cache(maxsize=256)
def call_of(route: Route) -> Call:
    """Return the parameters and the result of a route's verb."""
    verb = getattr(MemoryManager, route.verb)
    hints = get_type_hints(verb)
    in_path = tuple(part[1:-1] for part in route.path.split("/") if part.startswith("{"))
    parameters = inspect.signature(verb).parameters
    left_out = tuple(name for name in parameters if name in _LOCAL_PARAMETERS)
    shapes, fields = _TABLES["shapes"], dict[str, Any]()
    for name, parameter in parameters.items():
        if name in ("self", *in_path, *left_out):
            continue
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        annotation = _JSON_TYPES.get(name, hints[name])
        if name == "filters" and route.method == "GET":  # a query has no dicts: they are JSON in a text
            annotation = Json[dict[str, Any]] | None
        if datetime in get_args(annotation) and float not in get_args(annotation):
            annotation = Annotated[annotation, BeforeValidator(_read_date)]
        shape = shapes.get(f"{route.verb}.{name}", shapes.get(name, {}))
        fields[name] = (annotation, Field(default, json_schema_extra=dict(shape)))
    summary, _, description = inspect.cleandoc(verb.__doc__ or "").partition("\n\n")
    title = "".join(part.capitalize() for part in route.verb.split("_")) + "Request"
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    request = create_model(title, __config__=config, **fields)
    summary = summary.replace("\n", " ")
    return Call(in_path, request, left_out, hints["return"], summary, description)
