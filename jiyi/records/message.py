"""One message of a conversation, converted to and from OpenAI Chat Completions dicts without loss."""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, cast, get_args, runtime_checkable

from jiyi.errors import BadMessage
from jiyi.records.checks import check_id, copy_json, new_id, set_utc, short_repr
from jiyi.records.session import Scope

__all__ = ["SENT_EXTRAS", "ContentPart", "Given", "HasModelDump", "Message", "Role", "ToolCall", "as_mapping"]

Role = Literal["system", "user", "assistant", "tool"]
ContentPart = Mapping[str, Any]
"""One part of a message's content as OpenAI writes it: a dict with a ``type``."""

_ROLES = get_args(Role)
_API_FIELDS = ("role", "content", "name", "tool_calls", "tool_call_id")
SENT_EXTRAS = ("refusal", "audio", "function_call")
"""Fields in `Message.extra` that are sent because the API knows them."""


@runtime_checkable
class HasModelDump(Protocol):
    """A message of another library, such as openai's ``completion.choices[0].message``."""

    def model_dump(self) -> dict[str, Any]:
        """Return the Chat Completions dict."""


Given = Mapping[str, Any] | HasModelDump
"""A message as callers pass it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call inside an assistant message."""

    id: str  # the result refers to it
    name: str  # the tool
    arguments: str  # as the model wrote them, usually JSON
    type: str = "function"  # "function" or "custom"
    extra: Mapping[str, Any] = field(default_factory=dict)  # fields jiyi does not know

    @classmethod
    def from_openai(cls, call: Mapping[str, Any], where: str = "tool_calls") -> "ToolCall":
        """Read one entry of ``tool_calls``; raise `BadMessage` if it has no id or no function with a name."""
        if not isinstance(call, Mapping):
            raise BadMessage(f"{where} must be a dict, not {type(call).__name__}")
        kind = call.get("type") or "function"
        if not isinstance(kind, str):
            raise BadMessage(f"{where} has the type {kind!r}; it must be text such as function")
        body = call.get(kind)
        if not isinstance(call.get("id"), str) or not call["id"]:
            raise BadMessage(f"{where} has no id; a result could never be joined to it")
        if not isinstance(body, Mapping) or not isinstance(body.get("name"), str):
            raise BadMessage(f"{where} ({call['id']}) needs {kind}: {{name, arguments}}")
        text_key = "input" if kind == "custom" else "arguments"
        written = body.get(text_key)
        body = copy_json(body, f"{where}.{kind}", BadMessage)
        inner = {k: v for k, v in body.items() if k not in ("name", text_key)}
        if not isinstance(written, str):
            if text_key in body:
                inner[text_key] = body[text_key]
            written = json.dumps(written, ensure_ascii=False) if written is not None else ""
        known = ("id", "type", kind)
        extra = {k: copy_json(v, f"{where}.{k}", BadMessage) for k, v in call.items() if k not in known}
        if inner:
            extra[kind] = inner
        return cls(id=call["id"], name=body["name"], arguments=written, type=kind, extra=extra)

    def to_openai(self) -> dict[str, Any]:
        """Return the Chat Completions dict of this call."""
        text_key = "input" if self.type == "custom" else "arguments"
        extra = deepcopy(dict(self.extra))
        body = {"name": self.name, text_key: self.arguments, **extra.pop(self.type, {})}
        return {"id": self.id, "type": self.type, self.type: body, **extra}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation; `BadMessage` for what breaks the Chat Completions form.

    ``Message.from_openai(d).to_dict() == d`` for every valid Chat Completions dict; unknown fields are kept
    in ``extra``, and `to_openai` leaves them out. The role "developer" is read as "system" and written back
    as it was.
    """

    role: Role  # who speaks
    content: str | tuple[ContentPart, ...] | None = None  # text, or parts (text, image_url, ...)
    tool_calls: tuple[ToolCall, ...] = ()  # of an assistant message
    tool_call_id: str | None = None  # the call a tool message answers
    name: str | None = None  # the speaker's or tool's name
    extra: Mapping[str, Any] = field(default_factory=dict)  # unknown fields, as they came
    id: str = field(default_factory=new_id)  # unique within the user
    scope: Scope | None = None  # whose; None until saved
    seq: int | None = None  # place in its session, assigned by the store
    importance: float | None = None  # 0..1 if given
    pinned: bool = False  # always in the window, never forgotten
    created_at: datetime | None = None  # when it was said, UTC; None until saved
    tokens: int | None = None  # including the message's overhead; None until counted
    tokens_by: str | None = None  # the counter that counted them

    def __post_init__(self) -> None:
        if self.role not in _ROLES:
            raise BadMessage(f"role {short_repr(self.role)} is not one of system, user, assistant, tool")
        check_id("id", self.id, BadMessage)
        if self.content is not None and not isinstance(self.content, str):
            _check_content(self.content)
        importance = 0 if self.importance is None else self.importance
        if not isinstance(importance, int | float) or not 0 <= importance <= 1:
            raise BadMessage(f"importance={short_repr(importance)} is not a number from 0 to 1")
        if not isinstance(self.pinned, bool):
            raise BadMessage(f"pinned must be True or False, not {short_repr(self.pinned)}")
        if self.tool_calls and self.role != "assistant":
            raise BadMessage(f"only assistant messages carry tool_calls, not {self.role}")
        if self.created_at is not None:
            set_utc(self, "created_at")

    @classmethod
    def from_openai(cls, message: Given, **fields: Any) -> "Message":
        """Read a Chat Completions dict; ``fields`` set the rest (id, pinned, created_at, ...).

        The dict is copied. An object with ``model_dump`` is read as the dict it returns, without
        the fields that are None.
        """
        message = as_mapping(message)
        role = message.get("role")
        if role == "function":
            raise BadMessage('role "function" is retired; send the result with role "tool" and tool_call_id')
        unknown = {k: v for k, v in message.items() if k not in _API_FIELDS}
        extra = copy_json(unknown, "message", BadMessage) if unknown else {}
        extra.update((k, None) for k in _API_FIELDS[1:] if k in message and message[k] is None)
        if role == "developer":
            extra["role"], role = role, "system"
        content: Any = message.get("content")
        if isinstance(content, Sequence) and not isinstance(content, str | bytes | bytearray):
            content = tuple(copy_json(part, f"content[{i}]", BadMessage) for i, part in enumerate(content))
        calls = message.get("tool_calls") or ()
        if not isinstance(calls, Sequence) or isinstance(calls, str):
            raise BadMessage(f"tool_calls must be a list, not {type(calls).__name__}")
        if message.get("tool_calls") == []:
            extra["tool_calls"] = []
        for key in ("name", "tool_call_id"):
            if not isinstance(message.get(key), str | None):
                raise BadMessage(f"{key} must be text, not {type(message[key]).__name__}")
        return cls(
            role=cast("Role", role),
            content=content,
            tool_calls=tuple(ToolCall.from_openai(call, f"tool_calls[{i}]") for i, call in enumerate(calls)),
            tool_call_id=message.get("tool_call_id"),
            name=message.get("name"),
            extra=extra,
            **fields,
        )

    def to_openai(self) -> dict[str, Any]:
        """Return the Chat Completions dict to send, with the fields of the API only."""
        stored = self.to_dict()
        sent = {name: stored[name] for name in _API_FIELDS if stored.get(name) not in (None, [])}
        sent |= {name: stored[name] for name in SENT_EXTRAS if stored.get(name) is not None}
        if "content" in stored:
            sent["content"] = stored["content"]
        return sent

    def to_dict(self) -> dict[str, Any]:
        """Return the Chat Completions dict with all fields, known and unknown."""
        fields: dict[str, Any] = {"role": self.role}
        if isinstance(self.content, str):
            fields["content"] = self.content
        elif self.content is not None:
            fields["content"] = [deepcopy(dict(part)) for part in self.content]
        if self.name is not None:
            fields["name"] = self.name
        if self.tool_calls:
            fields["tool_calls"] = [call.to_openai() for call in self.tool_calls]
        if self.tool_call_id is not None:
            fields["tool_call_id"] = self.tool_call_id
        for key, value in self.extra.items():
            if key == "role" or key not in fields:
                fields[key] = deepcopy(value)
        return fields

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The caller's own labels, stored with the message and never sent; {} by default."""
        metadata = self.extra.get("metadata")
        return metadata if isinstance(metadata, Mapping) else {}

    @property
    def speaker(self) -> str:
        """Who speaks: the name, or without one the role."""
        return self.name or self.role

    @property
    def text(self) -> str:
        """The text of its content, without images, audio or tool calls."""
        if isinstance(self.content, str) or self.content is None:
            return self.content or ""
        words = (part.get("text") or part.get("refusal") for part in self.content)
        return "\n".join(w for w in words if isinstance(w, str))

    @property
    def search_text(self) -> str:
        """What search reads: the text, and the tool calls with their arguments."""
        if not self.tool_calls:
            return self.content if isinstance(self.content, str) else self.text
        calls = [f"{call.name} {call.arguments}" for call in self.tool_calls]
        return "\n".join(filter(None, [self.text, *calls]))


def as_mapping(message: object) -> Mapping[str, Any]:
    """Return a message that a caller passed as a mapping; `BadMessage` if it neither is one nor dumps one."""
    if isinstance(message, Mapping):
        return message
    dump = getattr(message, "model_dump", None)
    dumped = dump() if callable(dump) and not isinstance(message, type) else None
    if not isinstance(dumped, Mapping):
        raise BadMessage(f"a message is a dict with role and content, not {type(message).__name__}")
    return {key: value for key, value in dumped.items() if value is not None or key == "content"}


def _check_content(content: object) -> None:
    if not isinstance(content, Sequence) or isinstance(content, bytes | bytearray):
        raise BadMessage(f"content must be text or a list of parts, not {type(content).__name__}")
    for i, part in enumerate(content):
        if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
            raise BadMessage(f'content[{i}] must be a dict with a "type", such as {{"type": "text", ...}}')
