"""A Chroma server for tests: one a run, on loopback, with its data in a temporary folder."""

import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest

ABSENT = (
    None if find_spec("chromadb") else 'chromadb is not installed; to run these: pip install "jiyi[chroma]"'
)


class ChromaProcess:
    """A server on a port of loopback, which can be killed and started again on its data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        command = [str(Path(sys.executable).with_name("chroma")), "run", "--host", "127.0.0.1"]
        # Its own file of settings and the like must not come from whoever runs the tests.
        self._process = subprocess.Popen(
            [*command, "--port", str(self._port), "--path", str(self.folder / "data")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            env={"HOME": str(self.folder), "PATH": "/usr/bin:/bin"},
        )
        until = time.monotonic() + 30
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/api/v2/heartbeat", timeout=1):
                    return
            except OSError:
                if time.monotonic() > until or self._process.poll() is not None:
                    raise
                time.sleep(0.05)

    def kill(self) -> None:
        """End it at once, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@pytest.fixture(scope="session")
def chroma_server():
    """A running server; every test takes a collection of its own."""
    folder = Path(tempfile.mkdtemp(prefix="jiyi-chroma-"))
    server = ChromaProcess(folder)
    server.start()
    yield server
    server.kill()
    shutil.rmtree(folder, ignore_errors=True)


def chroma_place(where: str | Path, database: str) -> str:
    """Return the place of a database with its vectors in a fresh collection of a folder or server."""
    return f"chroma {where} t{secrets.token_hex(6)} {database}"
