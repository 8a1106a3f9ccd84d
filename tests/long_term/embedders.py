"""Embedders that fail, wait or count, around the instant one."""

import threading
import time

from jiyi.errors import EndpointUnreachable
from jiyi.testing import HashEmbedder


class Moody(HashEmbedder):
    """Fails while ``error`` is set, waits while ``gate`` is closed, takes ``seconds``, notes its texts."""

    def __init__(self, error=None):
        super().__init__()
        self.error = error
        self.gate = threading.Event()
        self.gate.set()
        self.asked = []
        self.seconds = 0.0

    def embed(self, texts, kind):
        assert self.gate.wait(30)
        self.asked.append((kind, list(texts)))
        time.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        return super().embed(texts, kind)


def unreachable():
    return EndpointUnreachable("http://localhost:9/v1 refused the connection; start the server")
