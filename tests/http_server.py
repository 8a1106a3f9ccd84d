"""An ASGI app on a real socket, in this process."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn


@contextmanager
def serving(app: Any, port: int = 0) -> Iterator[str]:
    """Give the URL at which an app is served until the block ends; then it is shut down."""
    kept: dict[str, Any] = {"timeout_keep_alive": 75}  # as `jiyi serve` does
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_config=None, server_header=False, **kept)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        deadline = time.monotonic() + 20
        while not server.started:
            assert time.monotonic() < deadline
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
