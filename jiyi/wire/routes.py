"""The table of routes: which verb answers where, and who may ask.

What a request may say follows from the verb's own signature: parameters that stand in the path come
from there, those of GET and DELETE from the query, all others from a JSON object.
"""

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, Literal, get_args, get_type_hints

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Json, create_model
from pydantic_core import PydanticCustomError

from jiyi.manager import MemoryManager
from jiyi.wire.codec import message_of

__all__ = ["ROUTES", "Access", "Call", "Route", "call_of"]

Access = Literal["read", "write", "forget", "admin"]
"""What a key must allow; admin is for what concerns more than one user."""

_How = Literal["answer", "job"]
"""Whether the request waits for the verb, or is given a job to look at."""

_GivenMessage = Annotated[dict[str, Any], AfterValidator(message_of)]
_STAY_HERE = ("self", "progress", "policy", "compress", "path")


def _read_json(given: Any) -> Any:
    """Read what stands in a query as JSON text."""
    return json.loads(given) if isinstance(given, str) else given


_TRAVELS: Mapping[str, Any] = {  # parameters that are of another type in JSON
    "message": _GivenMessage | None,
    "messages": list[_GivenMessage],
    "scratch": list[_GivenMessage],
    "filters": Annotated[Mapping[str, Any] | None, BeforeValidator(_read_json)],
}
_ID = {"minLength": 1, "maxLength": 512, "pattern": r"^[^\x00]*[^\s\x00][^\x00]*$"}
_WORDS = {"pattern": r"\S"}
_SHAPES: Mapping[str, Mapping[str, Any]] = {  # of parameters, told in the schema; the verbs check them
    "user_id": _ID,
    "agent_id": _ID,
    "session_id": _ID,
    **dict.fromkeys(
        ("text", "subject", "predicate", "object", "speaker", "entity", "request", "description"), _WORDS
    ),
    "limit": {"minimum": 1, "maximum": 10_000},
    "around": {"minimum": 0, "maximum": 1_000},
    "episodes": {"minimum": 0, "maximum": 100},
    "knowledge": {"minimum": 0, "maximum": 100},
    "depth": {"minimum": 1, "maximum": 5},
    "namespaces.depth": {"minimum": 1},
    "put_item.text": {},
    "key": {"minLength": 1},
    "ttl": {"exclusiveMinimum": 0},
    "if_version": {"minimum": 0},
    "offset": {"minimum": 0},
    "max_tokens": {"minimum": 1},
    "budget": {"minimum": 1},
    "importance": {"minimum": 0, "maximum": 1},
    "min_score": {"minimum": 0, "maximum": 1},
}


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """One row of the table."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str  # below /v1
    verb: str  # of `MemoryManager`
    access: Access
    how: _How = "answer"
    example: Mapping[str, Any] = field(default_factory=dict)  # of the request, for the documentation

    @property
    def writes(self) -> bool:
        """Whether a request may carry an idempotency key."""
        return self.method != "GET" and self.access != "read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """How a route's verb is called."""

    in_path: tuple[str, ...]
    request: type[BaseModel]  # everything else that may be said, in the query or the body
    left_out: tuple[str, ...]  # parameters that cannot travel, such as a policy
    result: Any  # the annotation of what is returned
    summary: str  # the first line of the verb's docstring
    description: str  # the rest of it


_ITEM = {"namespace": ["users", "ana"], "key": "settings", "value": {"theme": "dark"}}
_TALK = {"role": "user", "content": "I moved to Lisbon. 我喜欢喝茶。"}

ROUTES: Sequence[Route] = (
    Route("GET", "/sessions", "sessions", "read"),
    Route("POST", "/sessions/{session_id}/messages", "save_message", "write", example={"message": _TALK}),
    Route(
        "POST",
        "/sessions/{session_id}/messages/batch",
        "save_messages",
        "write",
        example={"messages": [_TALK, {"role": "assistant", "content": "Noted."}]},
    ),
    Route("GET", "/sessions/{session_id}/messages", "session_messages", "read"),
    Route(
        "PUT", "/sessions/{session_id}/messages", "replace_messages", "forget", example={"messages": [_TALK]}
    ),
    Route("POST", "/sessions/{session_id}/messages/pop", "pop_messages", "forget", example={"limit": 2}),
    Route("GET", "/sessions/{session_id}/window", "recent_messages", "read"),
    Route(
        "POST",
        "/sessions/{session_id}/context",
        "build_context",
        "read",
        example={"query": "Where do I live?", "budget": 2000},
    ),
    Route("GET", "/sessions/{session_id}/summary", "summary", "read"),
    Route("POST", "/sessions/{session_id}/summary", "summarize_session", "write"),
    Route("GET", "/sessions/{session_id}/health", "session_health", "read"),
    Route("GET", "/sessions/{session_id}/advice", "session_advice", "read"),
    Route("GET", "/sessions/{session_id}/handover", "handover", "read"),
    Route("POST", "/sessions/{session_id}/learn", "learn_facts", "write"),
    Route("GET", "/sessions/{session_id}/task", "current_task", "read"),
    Route(
        "POST",
        "/sessions/{session_id}/tasks",
        "start_task",
        "write",
        example={"request": "Renew the certificate of web-01", "tags": ["ops"]},
    ),
    Route("GET", "/sessions/{session_id}/skills", "opened_skills", "read"),
    Route("POST", "/sessions/{session_id}/skills/{name}", "open_skill", "write"),
    Route("DELETE", "/sessions/{session_id}/skills/{name}", "close_skill", "write"),
    Route("GET", "/tasks", "tasks", "read"),
    Route("PATCH", "/tasks/{task_id}", "update_task", "write", example={"summary": "half done"}),
    Route(
        "POST",
        "/tasks/{task_id}/steps",
        "add_step",
        "write",
        example={"description": "Ask for the certificate", "status": "completed"},
    ),
    Route("PATCH", "/steps/{step_id}", "update_step", "write", example={"status": "completed"}),
    Route("POST", "/tasks/{task_id}/complete", "complete_task", "write", example={"summary": "renewed"}),
    Route("POST", "/tasks/{task_id}/fail", "fail_task", "write", example={"reason": "no access"}),
    Route("POST", "/search", "search", "read", example={"query": "where does she live?", "limit": 5}),
    Route("GET", "/episodes", "episodes", "read"),
    Route("GET", "/knowledge", "knowledge", "read"),
    Route("GET", "/facts", "facts", "read"),
    Route(
        "POST",
        "/facts",
        "remember",
        "write",
        example={"text": "I prefer tea to coffee", "speaker": "Ana"},
    ),
    Route("GET", "/history", "history", "read", example={"subject": "Ana"}),
    Route("GET", "/neighbours", "neighbours", "read", example={"entity": "Ana"}),
    Route("GET", "/profile", "profile", "read"),
    Route("GET", "/items", "items", "read", example={"namespace": ["users", "ana"]}),
    Route("PUT", "/items", "put_item", "write", example=_ITEM),
    Route("POST", "/items/batch", "put_items", "write", example={"items": [_ITEM]}),
    Route("GET", "/item", "get_item", "read", example={"namespace": ["users", "ana"], "key": "settings"}),
    Route(
        "POST",
        "/items/read",
        "get_items",
        "read",
        example={"namespace": ["users", "ana"], "keys": ["settings"]},
    ),
    Route(
        "GET",
        "/item/history",
        "item_history",
        "read",
        example={"namespace": ["users", "ana"], "key": "settings"},
    ),
    Route("GET", "/namespaces", "namespaces", "read"),
    Route("GET", "/records/{record_id}", "get", "read"),
    Route("PATCH", "/records/{record_id}", "update", "write", example={"text": "I prefer coffee"}),
    Route("GET", "/outputs/{output_id}", "open_output", "read"),
    Route("POST", "/pin", "pin", "write", example={"ids": []}),
    Route("POST", "/unpin", "unpin", "write", example={"ids": []}),
    Route("POST", "/forget", "forget", "forget", example={"query": "tea", "dry_run": True}),
    Route("POST", "/restore", "restore", "forget"),
    Route("POST", "/forget-gate", "run_forget_gate", "forget", "job", example={"dry_run": True}),
    Route("POST", "/consolidation", "run_consolidation", "write", "job"),
    Route("POST", "/maintenance", "maintain", "forget", "job", example={"dry_run": True}),
    Route("GET", "/skills", "skills", "read"),
    Route("GET", "/stats", "stats", "read"),
    Route("GET", "/reading", "reading", "admin"),
    Route("POST", "/flush", "flush", "admin", "job"),
    Route("POST", "/reembed", "reembed", "admin", "job"),
)


def _read_date(given: Any) -> Any:
    """Read a date as ISO 8601 alone: pydantic takes seconds since 1970 too."""
    if not isinstance(given, str):
        return given
    try:
        return datetime.fromisoformat(given)
    except ValueError:
        raise PydanticCustomError("date", "a date is ISO 8601, such as 2026-01-31T09:00:00Z") from None


@lru_cache(maxsize=256)
def call_of(route: Route) -> Call:
    """Return how a route's verb is called."""
    verb = getattr(MemoryManager, route.verb)
    hints = get_type_hints(verb)
    in_path = tuple(part[1:-1] for part in route.path.split("/") if part.startswith("{"))
    fields, left_out = dict[str, Any](), list[str]()
    for name, parameter in inspect.signature(verb).parameters.items():
        if name in in_path:
            continue
        if name in _STAY_HERE:
            left_out.append(name)
            continue
        given = ... if parameter.default is inspect.Parameter.empty else parameter.default
        of = _TRAVELS.get(name, hints[name])
        if name == "filters" and route.method == "GET":  # a query has no dicts: they are JSON in a text
            of = Json[dict[str, Any]] | None
        if datetime in get_args(of) and float not in get_args(of):
            of = Annotated[of, BeforeValidator(_read_date)]
        shape = _SHAPES.get(f"{route.verb}.{name}", _SHAPES.get(name, {}))
        fields[name] = (of, Field(given, json_schema_extra=dict(shape)))
    summary, _, description = inspect.cleandoc(verb.__doc__ or "").partition("\n\n")
    return Call(
        in_path=in_path,
        request=create_model(
            "".join(part.capitalize() for part in route.verb.split("_")) + "Request",
            __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=True),
            **fields,
        ),
        left_out=tuple(name for name in left_out if name != "self"),
        result=hints["return"],
        summary=summary.replace("\n", " "),
        description=description,
    )
