"""A real local /v1/messages server."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import anthropic
import scripted_responses


def says(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text, "citations": None}


def uses(name: str, id_: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": name, "input": arguments}


def message(number: int, content: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5",
        "content": content, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
        "stop_reason": "tool_use" if content[-1]["type"] == "tool_use" else "end_turn",
    }  # fmt: skip


@contextmanager
def model(*answers: Sequence[dict[str, Any]]) -> Iterator[tuple[anthropic.Anthropic, list[dict[str, Any]]]]:
    """Give a client of a model that answers so, one after another, and the list of what it is asked."""
    with scripted_responses.model(*answers, body=message) as (url, asked):
        yield anthropic.Anthropic(base_url=url.removesuffix("/v1"), api_key="none", max_retries=0), asked
