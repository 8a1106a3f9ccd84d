"""Items of OpenAI's Responses API as messages of Chat Completions."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from jiyi.importers.entries import as_dict, as_list, join_text

_ARGUMENTS = {"function_call": "arguments", "custom_tool_call": "input"}
_RESULT_TYPES = ("function_call_output", "custom_tool_call_output")
_ROLES = ("user", "assistant", "system", "developer")

_Item = Mapping[str, Any]


def to_chat_message(item: _Item) -> dict[str, Any]:
    """Return the text and calls of an item as a Chat Completions message; of any other item, an empty one."""
    type_, role = str(item.get("type") or "message"), item.get("role")
    if type_ in _RESULT_TYPES and isinstance(item.get("call_id"), str):
        return {"role": "tool", "tool_call_id": item["call_id"], "content": join_text(item.get("output"))}
    if type_ in _ARGUMENTS and item.get("call_id") and isinstance(item.get("name"), str):
        body = {"name": item["name"], _ARGUMENTS[type_]: str(item.get(_ARGUMENTS[type_]) or "")}
        call = {"type": "custom", "custom": body} if "custom" in type_ else {"function": body}
        return {"role": "assistant", "content": "", "tool_calls": [{"id": item["call_id"], **call}]}
    if type_ == "message" and role in _ROLES:
        return {"role": role, "content": join_text(item.get("content"))}
    return {"role": "assistant", "content": ""}


def group_items(items: Sequence[_Item]) -> list[list[Any]]:
    """Return the items that belong together: the model's thoughts, words and calls without a break.

    They are shown or left out together: an API refuses a thought without what follows.
    """
    roles = [to_chat_message(item)["role"] for item in items]
    keys = [-1 if role == "assistant" else index for index, role in enumerate(roles)]
    groups = groupby(zip(items, keys, strict=True), lambda pair: pair[1])
    return [[item for item, _ in group] for _, group in groups]


def join_items(items: Iterable[_Item]) -> dict[str, Any]:
    """Return the text and calls of a group of items as one Chat Completions message."""
    bodies = [to_chat_message(item) for item in items]
    texts = [body["content"] for body in bodies if body["content"]]
    calls = [call for body in bodies for call in body.get("tool_calls", ())]
    return {**bodies[0], "content": "\n".join(texts), **({"tool_calls": calls} if calls else {})}


def find_other_parts(item: _Item) -> list[dict[str, Any]]:
    """Return what an item has beyond its text and calls, such as images and thoughts."""
    is_message = item.get("role") in _ROLES and "content" in item
    if not is_message and item.get("type") not in (*_ARGUMENTS, *_RESULT_TYPES):
        return [{"type": "item", **item}]
    parts = as_list(item.get("content", item.get("output")))
    return [{"type": "part", **as_dict(part)} for part in parts if not join_text([part])]
