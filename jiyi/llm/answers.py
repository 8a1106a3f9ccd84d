"""Reads answers of OpenAI-compatible /chat/completions endpoints; checks every field."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from jiyi.llm.llm import Reply, Turn
from jiyi.records import ToolCall
from jiyi.records.checks import new_id

__all__ = ["WithoutThoughts", "first_choice", "read_reply", "read_turn", "strip_thoughts", "text_of"]

_THOUGHT_START, _THOUGHT_END = "<think>", "</think>"
_UNNAMED_TOOL = "unnamed"  # endpoints refuse a call without a name when it is sent back


def read_reply(body: bytes) -> Reply:
    """Return the reply in an answer, without thoughts; a ValueError says why it is no answer."""
    return Reply(**_read_answer(body)[0])


def read_turn(body: bytes) -> Turn:
    """Return the turn in an answer: text without thoughts, and tool calls; ValueError: it is no answer.

    A call without an id, or with another one's, gets one of its own; arguments that are no text become JSON.
    """
    fields, message = _read_answer(body)
    return Turn(**fields, tool_calls=tuple(_read_calls(message.get("tool_calls"))))


def text_of(content: Any) -> str:
    """Return the text of a message, given as text, as parts, or as None; ValueError otherwise."""
    if content is None:
        return ""
    if isinstance(content, list):
        texts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(text for text in texts if isinstance(text, str))
    if not isinstance(content, str):
        raise ValueError(f"its message holds no text but {type(content).__name__}")
    return content


def strip_thoughts(content: Any) -> str:
    """Return the text of a message without its thoughts; raises as `text_of`."""
    thought_filter = WithoutThoughts()
    return thought_filter(text_of(content)) + thought_filter.rest()


class WithoutThoughts:
    """Passes text on as it comes, without the thoughts that some models put in front of it."""

    def __init__(self) -> None:
        self._buffer = ""  # text that may still belong to the thoughts
        self._is_past_thoughts = False  # from here on text is passed on at once

    def __call__(self, piece: str) -> str:
        """Return what of the text so far can be passed on now."""
        if self._is_past_thoughts:
            return piece
        self._buffer += piece
        if self._is_thinking():
            text = self._buffer.partition(_THOUGHT_END)[2].lstrip()
        else:
            may_become_one = _THOUGHT_START.startswith(self._buffer.lstrip())
            text = "" if may_become_one else self._buffer
        self._is_past_thoughts = bool(text)
        return text

    def rest(self) -> str:
        """Return the text still held back, once there is no more to come."""
        return "" if self._is_past_thoughts or self._is_thinking() else self._buffer

    def _is_thinking(self) -> bool:
        return self._buffer.lstrip().startswith(_THOUGHT_START)


def first_choice(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first object under "choices", empty if there is none."""
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, dict) else {}


def _read_answer(body: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    choice = first_choice(answer) if isinstance(answer, dict) else {}
    message = choice.get("message")
    if not isinstance(message, dict):
        raise ValueError("it has no message under 'choices'")
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        raise ValueError(f"the model declined, saying: {message['refusal']}")
    usage = answer["usage"] if isinstance(answer.get("usage"), dict) else {}
    finish = choice.get("finish_reason")
    return {
        "text": strip_thoughts(message.get("content")),
        "input_tokens": _read_count(usage.get("prompt_tokens")),
        "output_tokens": _read_count(usage.get("completion_tokens")),
        "model": str(answer.get("model") or ""),
        "finish": finish if isinstance(finish, str) else "stop",
    }, message


def _read_count(tokens: Any) -> int | None:
    return tokens if type(tokens) is int and tokens >= 0 else None


def _read_calls(calls: Any) -> Iterator[ToolCall]:
    used_ids: set[str] = set()
    for call in calls if isinstance(calls, list) else ():
        if not isinstance(call, dict):
            continue
        body = call.get("function")
        body = body if isinstance(body, dict) else call
        id, name, arguments = call.get("id"), body.get("name"), body.get("arguments")
        if not isinstance(id, str) or not id or id in used_ids:
            id = f"call_{new_id()}"
        used_ids.add(id)
        if not isinstance(arguments, str):
            arguments = "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
        valid_name = name if isinstance(name, str) and name.strip() else _UNNAMED_TOOL
        yield ToolCall(id=id, name=valid_name.strip(), arguments=arguments)
