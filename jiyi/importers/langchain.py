"""Messages of LangChain, as dicts, as messages of Chat Completions."""

from collections.abc import Mapping
from typing import Any

from jiyi.importers.blocks import messages_of
from jiyi.importers.entries import call_of, items, mapping

__all__ = ["chat_body"]

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}


def chat_body(message: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a message, and what was left out of it. ``type`` says whose it is."""
    kind = str(message.get("type")).lower().removesuffix("messagechunk").removesuffix("message")
    role = _ROLES.get(kind) or str(message.get("role") or kind)
    bodies, left = messages_of(role, message.get("content"))
    words = [body["content"] for body in bodies if body.get("role") == role and body.get("content")]
    body: dict[str, Any] = {"role": role, "content": "\n".join(map(str, words)) or None}
    calls = items(message.get("tool_calls"))
    older = items(mapping(message.get("additional_kwargs")).get("tool_calls"))
    if role == "assistant" and (calls or older):
        body["tool_calls"] = [
            call_of(call.get("id"), call.get("name"), call.get("args")) for call in map(mapping, calls)
        ] or list(older)
    if role == "tool":
        body["tool_call_id"] = message.get("tool_call_id")
        body["content"] = body["content"] or ""
    if isinstance(message.get("name"), str) and message["name"]:
        body["name"] = message["name"]
    return body, left
