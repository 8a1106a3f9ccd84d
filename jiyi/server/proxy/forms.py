"""The two forms of request and answer of OpenAI's API: Chat Completions and Responses.

A conversation is read as messages of words and tool calls, without system prompts, pictures and
thoughts: what a memory saves, and what identifies a message that the client sends again.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jiyi.errors import BadMessage
from jiyi.importers.entries import join_text
from jiyi.integrations.recalling import hash_text
from jiyi.integrations.responses import group_items, join_items
from jiyi.llm import assemble_stream, read_turn, strip_thoughts
from jiyi.records import Message, new_id

__all__ = ["CHAT", "RESPONSES", "Form", "items_of", "session_of", "with_recalled"]

_FINAL_EVENTS = ("response.completed", "response.incomplete")


@dataclass(frozen=True, slots=True)
class Form:
    """One of the two forms."""

    path: str  # below the upstream's base URL
    items: str  # the field of a request that has the conversation
    read: Callable[[Iterable[Any]], list[Message]]  # the messages of these items
    reply: Callable[[bytes, bool], list[Message]]  # of an answer and whether it is a stream; ValueError: none


def items_of(body: Mapping[str, Any], form: Form) -> list[Any]:
    """Return the items of a request's conversation; a text is an item of the user."""
    items = body.get(form.items)
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    return items if isinstance(items, list) else []


def session_of(items: Iterable[Any]) -> str:
    """Return a session id: made from the first user message, which clients send each time, else a new one."""
    for item in items:
        if isinstance(item, dict) and item.get("role") == "user":
            content = item.get("content")
            return f"openai:{hash_text(join_text(content).strip() or json.dumps(content))}"
    return f"openai:{new_id()}"


def with_recalled(body: Mapping[str, Any], form: Form, text: str) -> bytes:
    """Return a request with ``text`` as a message directly before the user's newest one.

    All before it stays as it was, in the same order, so that it is the same from turn to turn.
    """
    items = items_of(body, form)
    index = max(i for i, item in enumerate(items) if isinstance(item, dict) and item.get("role") == "user")
    recalled = {"role": "user", "content": text}  # not a system message: recalled text has no authority
    return json.dumps({**body, form.items: [*items[:index], recalled, *items[index:]]}).encode()


def _read_chat(items: Iterable[Any]) -> list[Message]:
    return [message for item in items if isinstance(item, dict) for message in _to_message(item)]


def _read_chat_reply(answer: bytes, streamed: bool) -> list[Message]:
    turn = read_turn(assemble_stream(answer) if streamed else answer)
    calls = [call.to_openai() for call in turn.tool_calls]
    return list(_to_message({"role": "assistant", "content": turn.text, "tool_calls": calls}))


def _read_responses(items: Iterable[Any]) -> list[Message]:
    """Return messages; consecutive texts and calls of the model are one message."""
    groups = group_items([item for item in items if isinstance(item, dict)])
    return [message for group in groups for message in _to_message(join_items(group))]


def _read_responses_reply(answer: bytes, streamed: bool) -> list[Message]:
    response = _read_final_response(answer) if streamed else json.loads(answer)
    output = response.get("output") if isinstance(response, dict) else None
    if not isinstance(output, list):
        raise ValueError("it has no output")
    return _read_responses(output)


def _read_final_response(stream: bytes) -> Any:
    """Return the response in a stream's last event."""
    for line in reversed(stream.split(b"\n")):
        if line.startswith(b"data:") and b"response." in line:
            event = json.loads(line[len(b"data:") :])
            if isinstance(event, dict) and event.get("type") in _FINAL_EVENTS:
                return event.get("response")
    raise ValueError("it ended without an end")


def _to_message(item: Mapping[str, Any]) -> Iterator[Message]:
    """Yield the message of an item, with its text and calls; nothing if it is not to be saved."""
    role, calls, text = item.get("role"), item.get("tool_calls") or [], join_text(item.get("content"))
    try:
        text = strip_thoughts(text) if role == "assistant" else text
        if role == "tool" or (role in ("user", "assistant") and (text.strip() or calls)):
            given = {"role": role, "content": text, "tool_calls": calls}
            fields = {name: item[name] for name in ("name", "tool_call_id") if item.get(name)}
            yield Message.from_openai({name: value for name, value in given.items() if value != []} | fields)
    except BadMessage:  # the upstream may understand it
        return


CHAT = Form("/chat/completions", "messages", _read_chat, _read_chat_reply)
RESPONSES = Form("/responses", "input", _read_responses, _read_responses_reply)
