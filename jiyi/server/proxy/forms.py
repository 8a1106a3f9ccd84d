"""The two forms of request and answer of OpenAI's API: Chat Completions and Responses.

A conversation is read as messages of words and tool calls, without system prompts, pictures and
thoughts: what a memory keeps, and what a message is known by when the client sends it again.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jiyi.errors import BadMessage
from jiyi.integrations.recalling import digest
from jiyi.llm import put_together, read_turn, spoken
from jiyi.records import Message, new_id

__all__ = ["CHAT", "RESPONSES", "Form", "items_of", "session_of", "with_recalled"]

_CALLS: Mapping[str, str] = {"function_call": "arguments", "custom_tool_call": "input"}
_RESULTS = ("function_call_output", "custom_tool_call_output")
_WHOLE = ("response.completed", "response.incomplete")


@dataclass(frozen=True, slots=True)
class Form:
    """How one of the two speaks."""

    path: str  # below the upstream's base URL
    items: str  # the field of a request that has the conversation
    read: Callable[[Iterable[Any]], list[Message]]  # the messages of these items
    reply: Callable[[bytes, bool], list[Message]]  # of an answer and whether it is a stream; ValueError: none


def items_of(body: Mapping[str, Any], form: Form) -> list[Any]:
    """Return the items of a request's conversation; a text is an item of the user."""
    found = body.get(form.items)
    if isinstance(found, str):
        return [{"role": "user", "content": found}]
    return found if isinstance(found, list) else []


def session_of(items: Iterable[Any]) -> str:
    """Return a session id: made from the first user message, which clients send each time, else a new one."""
    for item in items:
        if isinstance(item, dict) and item.get("role") == "user":
            content = item.get("content")
            return f"openai:{digest(_words(content).strip() or json.dumps(content))}"
    return f"openai:{new_id()}"


def with_recalled(body: Mapping[str, Any], form: Form, text: str) -> bytes:
    """Return a request with ``text`` as a message directly before the user's newest one.

    All before it stays as it was, in the same order, so that it is the same from turn to turn.
    """
    items = items_of(body, form)
    at = max(i for i, item in enumerate(items) if isinstance(item, dict) and item.get("role") == "user")
    recalled = {"role": "user", "content": text}  # what was said once has no authority now
    return json.dumps({**body, form.items: [*items[:at], recalled, *items[at:]]}).encode()


def _read_chat(items: Iterable[Any]) -> list[Message]:
    return [message for item in items if isinstance(item, dict) for message in _message(item)]


def _chat_reply(answer: bytes, streamed: bool) -> list[Message]:
    turn = read_turn(put_together(answer) if streamed else answer)
    calls = [call.to_openai() for call in turn.tool_calls]
    return list(_message({"role": "assistant", "content": turn.text, "tool_calls": calls}))


def _read_responses(items: Iterable[Any]) -> list[Message]:
    """Return messages; what the model said and called without a break is one of them."""
    out: list[Message] = []
    said: list[str] = []
    calls: list[dict[str, Any]] = []

    def turn_ends() -> None:
        content = "\n".join(said)
        out.extend(_message({"role": "assistant", "content": content, "tool_calls": [*calls]}))
        said.clear()
        calls.clear()

    for item in items:
        kind = str(item.get("type") or "message") if isinstance(item, dict) else ""
        if kind in _CALLS:
            body = {"name": item.get("name"), _CALLS[kind]: item.get(_CALLS[kind])}
            call = {"type": "custom", "custom": body} if "custom" in kind else {"function": body}
            calls.append({"id": item.get("call_id"), **call})
        elif kind == "message" and item.get("role") == "assistant":
            said.append(_words(item.get("content")))
        elif kind in _RESULTS or kind == "message":
            turn_ends()
            result = {"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")}
            out.extend(_message(item if kind == "message" else result))
    turn_ends()
    return out


def _responses_reply(answer: bytes, streamed: bool) -> list[Message]:
    whole = _ended(answer) if streamed else json.loads(answer)
    output = whole.get("output") if isinstance(whole, dict) else None
    if not isinstance(output, list):
        raise ValueError("it has no output")
    return _read_responses(output)


def _ended(stream: bytes) -> Any:
    """Return the response that a stream's last event has."""
    for line in reversed(stream.split(b"\n")):
        if line.startswith(b"data:") and b"response." in line:
            event = json.loads(line[len(b"data:") :])
            if isinstance(event, dict) and event.get("type") in _WHOLE:
                return event.get("response")
    raise ValueError("it ended without an end")


def _message(item: Mapping[str, Any]) -> Iterator[Message]:
    """Yield the message that an item is, in its words and calls; nothing where it is none to be kept."""
    role, calls, text = item.get("role"), item.get("tool_calls") or [], _words(item.get("content"))
    try:
        text = spoken(text) if role == "assistant" else text
        if role == "tool" or (role in ("user", "assistant") and (text.strip() or calls)):
            given = {"role": role, "content": text, "tool_calls": calls}
            fields = {name: item[name] for name in ("name", "tool_call_id") if item.get(name)}
            yield Message.from_openai({name: value for name, value in given.items() if value != []} | fields)
    except BadMessage:  # the upstream may know what to make of it
        return


def _words(content: Any) -> str:
    """Return the words of what may be text or parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


CHAT = Form("/chat/completions", "messages", _read_chat, _chat_reply)
RESPONSES = Form("/responses", "input", _read_responses, _responses_reply)
