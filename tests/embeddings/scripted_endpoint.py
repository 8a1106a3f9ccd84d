"""A real local server that misbehaves as told; honest, it is an /embeddings endpoint."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


def vector_of(text: str, size: int = 4) -> list[float]:
    """An honest vector: nonzero, and different for texts of different length."""
    return [float(len(text)) + 1.0, *[1.0] * (size - 1)]


def answer_to(asked: dict[str, Any]) -> dict[str, Any]:
    """An honest answer, honouring `dimensions`."""
    size = asked.get("dimensions", 4)
    data = [{"index": i, "embedding": vector_of(text, size)} for i, text in enumerate(asked["input"])]
    return {"object": "list", "model": asked["model"], "data": data}


def changed(
    change: Callable[[list[dict[str, Any]]], Any],
    *,
    honest: Callable[[dict[str, Any]], dict[str, Any]] = answer_to,
    under: str = "data",
) -> Callable[[dict[str, Any]], Any]:
    """An honest answer whose items went through `change`, in place or returned."""

    def body(asked: dict[str, Any]) -> Any:
        answer = honest(asked)
        answer[under] = change(answer[under]) or answer[under]
        return answer

    return body


@dataclass
class Reply:
    """What to answer one request with, instead of an honest answer."""

    status: int = 200
    body: Any = None  # bytes go out as they are, a function gets the request, the rest as JSON
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False  # promise more bytes than are sent, then hang up
    silent: bool = False  # never answer
    drip: float = 0  # seconds between single bytes of the answer


class ScriptedEndpoint:
    """Answers with the given replies in turn, honestly afterwards; notes what it was asked."""

    honest = staticmethod(answer_to)  # another endpoint answers otherwise
    protocol = "HTTP/1.0"

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.closing = threading.Event()
        self.lock = threading.Lock()

    def __enter__(self) -> Self:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.serve(self)

            do_GET = do_PATCH = do_DELETE = do_POST
            protocol_version = self.protocol

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: object, client_address: object) -> None:
                pass  # clients that gave up waiting are part of the tests

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.closing.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def usual(self, asked: dict[str, Any]) -> Reply:
        """What a request is answered with once no reply is left."""
        return Reply()

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        try:
            asked = json.loads(body)
        except ValueError:
            asked = {}
        with self.lock:
            self.asked.append(asked)
            self.bodies.append(body)
            self.headers.append({name.lower(): value for name, value in handler.headers.items()})
            self.keys.append(handler.headers["Authorization"])
            self.paths.append(handler.path)
            reply = self.replies.pop(0) if self.replies else self.usual(asked)
        if reply.silent:
            self.closing.wait(10)
            return
        body = reply.body
        if callable(body):
            body = body(asked)
        elif body is None and reply.status == 200:
            body = self.honest(asked)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(reply.status)
        headers = {"Content-Type": "application/json", "Content-Length": str(len(data) + 100 * reply.cut)}
        for name, value in (headers | reply.headers).items():
            handler.send_header(name, value)
        handler.end_headers()
        if not reply.drip:
            handler.wfile.write(data)
            return
        for byte in data:
            handler.wfile.write(bytes([byte]))
            if self.closing.wait(reply.drip):
                return
