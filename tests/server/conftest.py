"""A server on a real socket in this process, and on both databases where a test asks for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
import pytest
from http_server import serving

import jiyi
from jiyi.server import Keys
from jiyi.server.app import make_app
from jiyi.server.served import Served


@dataclass
class Running:
    """A server that runs, what it serves, and clients for it."""

    url: str
    served: Served
    memory: jiyi.MemoryManager
    clients: list[httpx.Client] = field(default_factory=list)

    @property
    def keys(self) -> Keys:
        return self.served.keys

    def client(self, tenant: str | None = None, **options) -> httpx.Client:
        """Return a client with a new key of a tenant; of nobody where none is named."""
        headers = {}
        if tenant is not None:
            scopes = options.pop("scopes", ("read", "write", "forget"))
            headers["authorization"] = f"Bearer {self.keys.create(tenant or None, scopes, **options)[1]}"
        self.clients.append(httpx.Client(base_url=self.url, headers=headers, timeout=60))
        return self.clients[-1]


@contextmanager
def running(place, *, local: bool = True, **settings) -> Iterator[Running]:
    memory = jiyi.open(place, background=False, **settings)
    app = make_app(memory, local=local)
    with serving(app) as url:
        running = Running(url, app.state.served, memory)
        yield running
        for client in running.clients:
            client.close()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def database(request, tmp_path):
    return tmp_path / "served.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def server(tmp_path):
    with running(tmp_path / "served.db") as server:
        yield server


@pytest.fixture
def client(server):
    """A client of the server that has no key."""
    return server.client()


@pytest.fixture
def serve(database):
    return lambda **options: running(database, **options)


@pytest.fixture
def serve_at():
    """Run a server on a database of one's own."""
    return running
