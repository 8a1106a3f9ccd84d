"""A real HTTP server that answers as it is told, and keeps what it was asked."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from jiyi.wire import MARK


@dataclass
class Scripted:
    """What it answers, the last again and again: status, headers, body, and how much of it is sent."""

    answers: list[tuple] = field(default_factory=lambda: [(200, {}, b'{"message": 1}')])
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""
    is_jiyi: bool = True  # says so


@pytest.fixture
def scripted():
    script = Scripted()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            said = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            script.asked.append((self.command, self.path, headers, said))
            answer = script.answers.pop(0) if len(script.answers) > 1 else script.answers[0]
            if isinstance(answer, Callable):
                answer = answer()
            status, headers, body, *cut = answer
            if not status:
                self.close_connection = True
                return
            self.send_response(status)
            own = {MARK: "1"} if script.is_jiyi else {}
            for name, value in {"content-length": str(len(body)), **own, **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body[: cut[0]] if cut else body)
            self.close_connection = bool(cut)

        do_GET = do_POST = do_PATCH = do_DELETE = answer

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield script
    server.shutdown()
    thread.join()
    server.server_close()
