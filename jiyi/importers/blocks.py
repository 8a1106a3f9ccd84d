"""Content blocks as Anthropic writes them, as messages of Chat Completions."""

from collections.abc import Mapping, Sequence
from typing import Any

from jiyi.importers.entries import call_of, items, mapping, text

__all__ = ["messages_of"]

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
