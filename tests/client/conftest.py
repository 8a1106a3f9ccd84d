"""A real HTTP server that answers as it is told, and keeps what it was asked."""

from http.server import BaseHTTPRequestHandler

import pytest
from scripted_endpoint import ScriptedEndpoint

from jiyi.wire import MARK


class Scripted(ScriptedEndpoint):
    """Its answers, the last again and again: status, 0 for none, headers, body, how much of it is sent."""

    protocol = "HTTP/1.1"

    def __init__(self) -> None:
        super().__init__()
        self.answers = [(200, {}, b'{"message": 1}')]
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.is_jiyi = True  # says so

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        said = handler.rfile.read(int(handler.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.asked.append((handler.command, handler.path, headers, said))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        status, headers, body, *cut = answer() if callable(answer) else answer
        handler.close_connection = bool(cut) or not status
        if status:
            handler.send_response(status)
            own = {"content-length": str(len(body))} | ({MARK: "1"} if self.is_jiyi else {})
            for name, value in (own | headers).items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(body[: cut[0]] if cut else body)


@pytest.fixture
def scripted():
    with Scripted() as server:
        yield server
