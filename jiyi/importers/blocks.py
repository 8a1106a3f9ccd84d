"""Convert content of Anthropic and LangChain into messages of Chat Completions."""

from collections.abc import Mapping, Sequence
from typing import Any

from jiyi.importers.entries import as_dict, as_list, join_text, tool_call

__all__ = ["parse_langchain_message", "split_turn"]

_Body = dict[str, Any]
_TOOL_CALL_TYPES = ("tool_use", "server_tool_use", "mcp_tool_use")
_REASONING_TYPES = ("thinking", "redacted_thinking", "reasoning", "redacted_reasoning")


def split_turn(role: str, content: object) -> tuple[list[_Body], list[str]]:
    """Split a turn into messages, and return them with what was left out.

    Text and the tool calls after it are one message; each tool result is a separate one, and text after
    it begins the next message.
    """
    if isinstance(content, str):
        return [{"role": role, "content": content}], []
    bodies, left_out = list[_Body](), list[str]()
    current: _Body | None = None  # what the next block may go on with
    for block in map(as_dict, as_list(content)):
        kind = block.get("type")
        if kind == "tool_result" or str(kind).endswith("_tool_result"):
            current, call_id = None, block.get("tool_use_id")
            bodies.append({"role": "tool", "tool_call_id": call_id, "content": _result_text(block)})
        elif kind in _TOOL_CALL_TYPES:
            if current is None:
                bodies.append(current := {"role": role, "content": None})
            call = tool_call(block.get("id"), block.get("name"), block.get("input"))
            current.setdefault("tool_calls", []).append(call)
        elif kind in _REASONING_TYPES:
            left_out.append("thoughts")
        elif kind in ("text", "image", "document"):
            text = join_text([block]) if kind == "text" else f"[{kind}]"
            if current is None or "tool_calls" in current:
                bodies.append(current := {"role": role, "content": ""})
            current["content"] = "\n".join(filter(None, [current["content"], text]))
        else:
            left_out.append(f"blocks of type {str(kind)[:40]}")
    return bodies, left_out


def _result_text(block: Mapping[str, Any]) -> str:
    content: Sequence[Any] | str = block.get("content") or ""
    return content if isinstance(content, str) else join_text(content) or "[image]" * bool(content)


_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}


def parse_langchain_message(message: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a message of LangChain, whose ``type`` is its role, and what was left out of it."""
    kind = str(message.get("type")).lower().removesuffix("messagechunk").removesuffix("message")
    role = _ROLES.get(kind) or str(message.get("role") or kind)
    bodies, left_out = split_turn(role, message.get("content"))
    texts = [body["content"] for body in bodies if body.get("role") == role and body.get("content")]
    body: dict[str, Any] = {"role": role, "content": "\n".join(map(str, texts)) or None}
    given_calls = map(as_dict, as_list(message.get("tool_calls")))
    calls = [tool_call(call.get("id"), call.get("name"), call.get("args")) for call in given_calls]
    openai_calls = as_list(as_dict(message.get("additional_kwargs")).get("tool_calls"))
    if role == "assistant" and (calls or openai_calls):
        body["tool_calls"] = calls or list(openai_calls)
    if role == "tool":
        body["tool_call_id"] = message.get("tool_call_id")
        body["content"] = body["content"] or ""
    if isinstance(message.get("name"), str) and message["name"]:
        body["name"] = message["name"]
    return body, left_out
