"""The JSON form of what verbs take and return.

Every result of a verb is a dataclass or is made of some; pydantic reads their annotations. Two
have a form of their own: a message is an envelope around its OpenAI dict, so that no field of the
dict can be mistaken for one of the record, and a scope shows its user as their tenant knows them.
"""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, NotRequired, cast

from pydantic import GetCoreSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema, PydanticSerializationError, core_schema
from typing_extensions import TypedDict

from jiyi.errors import BadMessage
from jiyi.records import Message, Scope
from jiyi.wire.tenants import shown_user

__all__ = ["adapter", "message_of", "to_json"]


class _Scope(TypedDict):
    user_id: str
    agent_id: NotRequired[str | None]
    session_id: NotRequired[str | None]


class _Message(TypedDict):
    """A stored message: the OpenAI dict under `message`, with the fields of its record around it."""

    kind: Literal["message"]
    id: str
    scope: NotRequired[_Scope | None]
    seq: NotRequired[int | None]
    created_at: NotRequired[datetime | None]
    importance: NotRequired[float | None]
    pinned: NotRequired[bool]
    tokens: NotRequired[int | None]
    tokens_by: NotRequired[str | None]
    message: dict[str, Any]


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_RECORD_FIELDS = ("id", "seq", "created_at", "importance", "pinned", "tokens", "tokens_by")


@lru_cache(maxsize=512)
def adapter(of: Any) -> TypeAdapter[Any]:
    """Return an adapter that reads and writes values of a type, such as the result of a verb."""
    return TypeAdapter(of)


def to_json(value: Any, of: Any) -> bytes:
    """Return a value as JSON in UTF-8; a lone surrogate, which UTF-8 cannot carry, becomes U+FFFD."""
    try:
        return adapter(of).dump_json(value)
    except PydanticSerializationError:
        text = json.dumps(adapter(of).dump_python(value, mode="json"), ensure_ascii=False)
        return _LONE_SURROGATE.sub("\ufffd", text).encode()


def message_of(data: Mapping[str, Any]) -> Message | Mapping[str, Any]:
    """Return the `Message` in an envelope; an OpenAI dict is returned unchanged.

    Raises:
        BadMessage: it is an envelope with a field of a wrong type.
    """
    if data.get("kind") != "message" or "message" not in data:
        return data
    try:
        return cast("Message", adapter(Message).validate_python(data))
    except ValueError as error:
        raise BadMessage(f"the message cannot be read: {error}") from error


def _write_scope(scope: Scope) -> _Scope:
    return {
        "user_id": shown_user(scope.user_id),
        "agent_id": scope.agent_id,
        "session_id": scope.session_id,
    }


def _write_message(message: Message) -> dict[str, Any]:
    fields = {name: getattr(message, name) for name in _RECORD_FIELDS}
    scope = None if message.scope is None else _write_scope(message.scope)
    return {"kind": "message", **fields, "scope": scope, "message": message.to_dict()}


def _read_message(data: dict[str, Any]) -> Message:
    scope = data.get("scope")
    fields = {name: data[name] for name in _RECORD_FIELDS if name in data}
    return Message.from_openai(data["message"], scope=None if scope is None else Scope(**scope), **fields)


def _set_json_form(of: type, form: Any, write: Any, read: Any) -> None:
    """Tell pydantic how values of a class are written and read."""

    def schema(_source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        written = handler.generate_schema(form)
        return core_schema.no_info_wrap_validator_function(
            lambda value, inner: value if isinstance(value, of) else read(inner(value)),
            written,
            serialization=core_schema.plain_serializer_function_ser_schema(write, return_schema=written),
        )

    setattr(of, "__get_pydantic_core_schema__", staticmethod(schema))  # noqa: B010


_set_json_form(Scope, _Scope, _write_scope, lambda data: Scope(**data))
_set_json_form(Message, _Message, _write_message, _read_message)
