"""How verbs' arguments, results and errors travel as JSON, and whose users they are about.

Every result of a verb is a dataclass or is made of some; pydantic reads their annotations. Two
have a form of their own: a message is an envelope around its OpenAI dict, so that no field of the
dict can be mistaken for one of the record, and a scope shows its user as their tenant knows them.

Tenants share a database, and no two of them share a user: the user "ana" of the tenant "acme" is stored as
"acme//ana". A tenant's name has no slash, so each stored id is read in one way; users without a tenant
may not have ids of that form.

Errors are RFC 9457 problems, written from the classes of `jiyi.errors` and read back. ``type`` is an anchor
of the page ``/errors`` that the server itself shows; ``detail`` is the error's message; its attributes
travel as members of their own.
"""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache, lru_cache, partial
from inspect import get_annotations
from typing import Any, Literal, NotRequired, cast

from pydantic import GetCoreSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema, PydanticSerializationError, core_schema
from typing_extensions import TypedDict

from jiyi import errors
from jiyi.errors import BadMessage, BadScope, JiyiError
from jiyi.records import Message, Scope
from jiyi.text import without_surrogates
from jiyi.text.lexicon import read_toml

__all__ = [
    "adapter", "check_tenant", "error_of", "message_of", "problem_of", "shown_text",
    "shown_user", "stored_user", "to_json",
]  # fmt: skip


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
        return without_surrogates(text).encode()


def message_of(data: Mapping[str, Any]) -> Message | Mapping[str, Any]:
    """Return the `Message` in an envelope; an OpenAI dict is returned unchanged."""
    if data.get("kind") != "message" or "message" not in data:
        return data
    try:
        return cast("Message", adapter(Message).validate_python(data))
    except ValueError as error:
        raise BadMessage(f"the message cannot be read: {error}") from error


def _write_scope(scope: Scope) -> _Scope:
    return {"user_id": shown_user(scope.user_id), "agent_id": scope.agent_id, "session_id": scope.session_id}


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

_TENANT_NAME = r"[a-z0-9][a-z0-9-]{0,62}"
_TENANT_PREFIX = re.compile(rf"\A{_TENANT_NAME}//")


def check_tenant(name: str) -> str:
    """Return the name of a tenant; BadScope: it cannot be one."""
    if not re.fullmatch(_TENANT_NAME, name):
        raise BadScope(f"the tenant {name[:80]!r} is not 1 to 63 lower-case letters, digits and hyphens")
    return name


def stored_user(tenant: str, user: str) -> str:
    """Return the id under which a tenant's user is stored; BadScope: without a tenant it has such a form."""
    if tenant:
        return f"{tenant}//{user}"
    if _TENANT_PREFIX.match(user):
        raise BadScope("this user_id begins like that of a tenant's user, name//; use another one")
    return user


def shown_user(stored: str) -> str:
    """Return the id of a user as their tenant knows it."""
    return _TENANT_PREFIX.sub("", stored)


def shown_text(text: str, tenant: str) -> str:
    """Return a text about a tenant's users with their ids as the tenant knows them."""
    return text.replace(f"{tenant}//", "") if tenant else text


_ERRORS_PAGE = "/errors#"  # what the ``type`` of each problem begins with; the name of its class follows
_MEMBER_NAMES = {  # what each is called in a problem
    "needed": "needed",
    "available": "available",
    "status": "endpoint_status",  # of an endpoint asked by the server
    "retry_after": "retry_after",
}
_load_statuses = cache(partial(read_toml, __package__, "statuses"))


def problem_of(error: JiyiError, detail: str | None = None) -> dict[str, Any]:
    """Return an error as a problem's JSON object; ``detail`` replaces its message.

    ``title`` says what its class means, ``status`` is that of HTTP.
    """
    cls = next(c for c in type(error).__mro__ if c.__name__ in errors.__all__)  # what is public of it
    statuses = _load_statuses()
    status = next((statuses[c.__name__] for c in cls.__mro__ if c.__name__ in statuses), 500)
    members = {member: getattr(error, name) for name, member in _MEMBER_NAMES.items() if hasattr(error, name)}
    title, detail = (cls.__doc__ or "").partition("\n")[0], str(error) if detail is None else detail
    kind = _ERRORS_PAGE + cls.__name__
    return {**members, "type": kind, "title": title, "status": status, "detail": detail}


def error_of(data: Mapping[str, Any]) -> JiyiError:
    """Return the error of a problem's JSON object; a `ServerError` if its class is unknown."""
    name = str(data.get("type", "")).rpartition("#")[2]
    cls: type[JiyiError] = getattr(errors, name) if name in errors.__all__ else errors.ServerError
    detail = str(data.get("detail") or data.get("title") or f"the server answered {data.get('status')}")
    return cls(detail, **{name: data[_MEMBER_NAMES[name]] for name in get_annotations(cls)})
