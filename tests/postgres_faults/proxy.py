"""A wire between a program and its server that can be silenced, cut, and made to lose an answer."""

import selectors
import socket
import threading
from typing import Self
from urllib.parse import urlsplit, urlunsplit

COMMITTED = b"C\x00\x00\x00\x0bCOMMIT\x00"  # CommandComplete of PostgreSQL's protocol, version 3


class Proxy:
    """Forwards what comes to a port of its own on 127.0.0.1 to a server, until it is told otherwise.

    Attributes:
        url: the server's URL by way of this port.
        lost: how many answers to a COMMIT it has kept back.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        port = self._listener.getsockname()[1]
        self.url = urlunsplit(parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@127.0.0.1:{port}"))
        self.lost = 0
        self._to_lose = 0
        self._silently = False
        self._speaks = threading.Event()
        self._speaks.set()
        self._ended = threading.Event()
        self._ways: dict[socket.socket, socket.socket] = {}
        self._of_server: set[socket.socket] = set()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="proxy")

    def silence(self) -> None:
        """Forward nothing more and close nothing: the kernel goes on saying that all arrived."""
        self._speaks.clear()

    def speak(self) -> None:
        """Forward again, what was held back first."""
        self._speaks.set()

    def lose_commits(self, count: int, *, silently: bool = False) -> None:
        """Keep back the server's answers to the next COMMITs; cut the connection, or fall silent."""
        self._silently, self._to_lose = silently, count

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for end in (self._listener, *self._ways):
            end.close()
        self._selector.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            if not self._speaks.wait(0.02):
                continue
            for key, _ in self._selector.select(0.02):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj in self._ways and self._speaks.is_set():
                    self._forward(key.fileobj)

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        near.setblocking(True)
        try:
            far = socket.create_connection(self._server, timeout=5)
        except OSError:  # the server is away: so is its port here
            near.close()
            return
        far.settimeout(None)
        self._of_server.add(far)
        for one, other in ((near, far), (far, near)):
            self._ways[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _forward(self, source: socket.socket) -> None:
        try:
            said = source.recv(65_536)
            if source in self._of_server and self._to_lose and COMMITTED in said:
                self._to_lose -= 1
                self.lost += 1
                if self._silently:
                    self._speaks.clear()
                    return
                said = b""
            if said:
                self._ways[source].sendall(said)
        except OSError:
            said = b""
        if not said:
            self._cut(source)

    def _cut(self, source: socket.socket) -> None:
        for end in (source, self._ways[source]):
            self._selector.unregister(end)
            del self._ways[end]
            self._of_server.discard(end)
            end.close()
