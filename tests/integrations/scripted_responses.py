"""A real local model's server that says what it is told to, and what it was asked."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


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
    asked: list[dict[str, Any]] = []
    waiting = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            data = json.dumps(body(len(asked), waiting.pop(0))).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
