"""A real local /chat/completions server that says what it is told to."""

from typing import Any

from scripted_endpoint import Reply, ScriptedEndpoint

SOON = {"Retry-After": "0.02"}


def answer(text: str | None, **changes: Any) -> dict[str, Any]:
    """An honest answer that says `text`; `changes` replace fields of its message."""
    message = {"role": "assistant", "content": text} | changes
    return {
        "object": "chat.completion",
        "model": "m-2026",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }


def says(text: str | None, **changes: Any) -> Reply:
    """A reply that says `text`."""
    return Reply(body=answer(text, **changes))


def refuses(message: str, *, status: int = 400, **fields: Any) -> Reply:
    """A reply that is an error as OpenAI writes them."""
    return Reply(status=status, body={"error": {"message": message} | fields}, headers=SOON)


class ScriptedChat(ScriptedEndpoint):
    """Says what its replies are, "ok" afterwards."""

    honest = staticmethod(lambda asked: answer("ok"))
