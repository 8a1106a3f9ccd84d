"""Content as Anthropic and LangChain write it, as messages of Chat Completions."""

from collections.abc import Mapping, Sequence
from typing import Any

from jiyi.importers.entries import call_of, items, mapping, text

__all__ = ["chat_body", "messages_of"]

_Body = dict[str, Any]
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_THOUGHTS = ("thinking", "redacted_thinking", "reasoning", "redacted_reasoning")


def messages_of(role: str, content: object) -> tuple[list[_Body], list[str]]:
    """Return the messages that one turn becomes, and what was left out of it.

    Words and the calls after them are one message; each result of a tool is one of its own, and
    words after it begin the next one.
    """
    if isinstance(content, str):
        return [{"role": role, "content": content}], []
    bodies, left = list[_Body](), list[str]()
    said: _Body = {}
    for block in map(mapping, items(content)):
        kind = block.get("type")
        if kind == "tool_result" or str(kind).endswith("_tool_result"):
            bodies += [said] if said else []
            said = {}
            bodies.append(
                {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": _result(block)}
            )
        elif kind in _CALLS:
            said = said or {"role": role, "content": None}
            call = call_of(block.get("id"), block.get("name"), block.get("input"))
            said["tool_calls"] = [*said.get("tool_calls", ()), call]
        elif kind in _THOUGHTS:
            left.append("thoughts")
        elif kind in ("text", "image", "document"):
            words = text([block]) if kind == "text" else f"[{kind}]"
            if said.get("tool_calls"):
                bodies.append(said)
                said = {}
            said = {"role": role, "content": "\n".join(filter(None, [said.get("content"), words]))}
        else:
            left.append(f"blocks of type {str(kind)[:40]}")
    return [*bodies, *([said] if said else [])], left


def _result(block: Mapping[str, Any]) -> str:
    content: Sequence[Any] | str = block.get("content") or ""
    return content if isinstance(content, str) else text(content) or "[image]" * bool(content)


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
