"""An upstream for the proxy that answers with all that it was sent."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

__all__ = ["parrot"]


class Parrot(BaseHTTPRequestHandler):
    """An upstream that answers with all that it was sent."""

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
        told = json.dumps(sent["messages"], ensure_ascii=False)
        reply = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": told}}
        body = json.dumps({"id": "x", "object": "chat.completion", "model": "m", "choices": [reply]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def parrot() -> Iterator[str]:
    """Run the upstream and give its URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Parrot) as upstream:
        thread = Thread(target=upstream.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{upstream.server_address[1]}"
        finally:
            upstream.shutdown()
            thread.join()
