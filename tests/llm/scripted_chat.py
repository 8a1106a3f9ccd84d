"""A real local /chat/completions server that says what it is told to, whole or as a stream."""

import json
from typing import Any

from scripted_endpoint import Reply, ScriptedEndpoint

SOON = {"Retry-After": "0.02"}
USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


def answer(text: str | None, **changes: Any) -> dict[str, Any]:
    """An honest answer that says `text`; `changes` replace fields of its message."""
    message = {"role": "assistant", "content": text} | changes
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": "m-2026",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": USAGE,
    }


def says(text: str | None, **changes: Any) -> Reply:
    """A reply that says `text`."""
    return Reply(body=answer(text, **changes))


def refuses(message: str, *, status: int = 400, **fields: Any) -> Reply:
    """A reply that is an error as OpenAI writes them."""
    return Reply(status=status, body={"error": {"message": message} | fields}, headers=SOON)


def call(name: str, arguments: Any = "{}", id: str | None = "c1", **more: Any) -> dict[str, Any]:
    """A tool call, or a piece of one; what is no text among the arguments is written as JSON."""
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": written}} | more


def calls(*some: dict[str, Any], text: str | None = None) -> Reply:
    """A reply that calls tools, in one piece or as a stream, as it is asked for."""
    return turn(text, tool_calls=list(some))


def turn(text: str | None, **changes: Any) -> Reply:
    """A reply in one piece, or as a stream where that is asked for."""
    return Reply(body=lambda asked: either(asked, text, **changes))


def either(asked: dict[str, Any], text: str | None, **changes: Any) -> Any:
    """The body of an honest answer in the form that was asked for."""
    if not asked.get("stream"):
        return answer(text, **changes)
    words = [] if text is None else [text[i : i + 4] for i in range(0, len(text), 4)]
    pieces = [delta(content=word) for word in words]
    for index, one in enumerate(changes.get("tool_calls", ())):
        function = one["function"]
        half = len(function["arguments"]) // 2
        first, second = function["arguments"][:half], function["arguments"][half:]
        pieces.append(delta(tool_calls=[one | {"index": index, "function": function | {"arguments": first}}]))
        pieces.append(delta(tool_calls=[{"index": index, "function": {"arguments": second}}]))
    return sse(*pieces, END, {"choices": [], "usage": USAGE, "model": "m-2026"}, "[DONE]")


def delta(**fields: Any) -> dict[str, Any]:
    """One event of a stream, with a piece of a message."""
    return {"model": "m-2026", "choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def sse(*events: Any) -> bytes:
    """Events as they go over the wire; text goes as it is."""
    lines = (event if isinstance(event, str) else json.dumps(event, ensure_ascii=False) for event in events)
    return "".join(f"data: {line}\n\n" for line in lines).encode("utf-8", "surrogatepass")


def streams(*events: Any, **how: Any) -> Reply:
    """A reply that is a stream of these events."""
    return Reply(body=sse(*events), headers={"Content-Type": "text/event-stream"}, **how)


class ScriptedChat(ScriptedEndpoint):
    """Says what its replies are, "ok" afterwards."""

    honest = staticmethod(lambda asked: either(asked, "ok"))


def assert_recalled_before(asked: list[dict[str, Any]], question: str, words: str) -> None:
    """Assert that a run with a tool call was shown these words before its question, and the next run not."""
    first, second, third = (request["messages"] for request in asked)
    system, recalled, said = first
    assert words in recalled["content"]
    assert said["content"] == question
    assert second[:3] == first, "the same while a run goes on"
    assert third[:1] == [system]
    assert [m["role"] for m in third[1:]] == ["user", "assistant", "tool", "assistant", "user"]
