"""A real local model's server that says what it is told to, and what it was asked."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from scripted_endpoint import Reply, ScriptedEndpoint


def says(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}


def calls(name: str, call_id: str, **arguments: Any) -> dict[str, Any]:
    written = json.dumps(arguments, ensure_ascii=False)
    one = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name}
    return {**one, "arguments": written, "status": "completed"}


def response(number: int, output: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"resp_{number}", "object": "response", "created_at": 0, "model": "gpt-4o",
        "status": "completed", "output": output, "tools": [], "tool_choice": "auto",
        "parallel_tool_calls": True, "usage": None,
    }  # fmt: skip


@contextmanager
def model(
    *answers: Sequence[dict[str, Any]],
    body: Callable[[int, Sequence[dict[str, Any]]], dict[str, Any]] = response,
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Give the base URL of a model that answers so, one after another, and the list of what it is asked."""
    replies = [Reply(body=body(number, answer)) for number, answer in enumerate(answers, 1)]
    with ScriptedEndpoint(*replies) as server:
        server.usual = lambda asked: Reply(status=500, body={})  # more is asked than was to be
        yield server.url, server.asked
