"""Whole memories on a server that things happen to."""

import threading
import time
from typing import Any

import pytest
from postgres_faults.agreement import wait_until_alone
from postgres_faults.proxy import Proxy

import jiyi
from jiyi.testing import HashEmbedder

CLOSING = 12  # seconds that closing may take, whatever happened


@pytest.fixture
def no_trace(postgres_server, postgres_url):
    """Afterwards no thread and no connection is left of the memories that were closed."""
    before = set(threading.enumerate())
    yield
    until = time.monotonic() + 30
    while left := [t.name for t in threading.enumerate() if t not in before]:
        assert time.monotonic() < until, f"threads are left: {left}"
        time.sleep(0.02)
    postgres_server.start()
    wait_until_alone(postgres_server.superuser_url, postgres_url)


@pytest.fixture
def wire(postgres_url):
    """A way to the database that can be silenced and cut."""
    with Proxy(postgres_url) as proxy:
        yield proxy


@pytest.fixture
def open_memory(no_trace, postgres_url):
    """Open memories on the database, for "ana"; closing them never takes long."""
    opened: list[jiyi.MemoryManager] = []

    def make(url: str = postgres_url, **options: Any) -> jiyi.MemoryManager:
        chosen = {"user_id": "ana", "embedder": HashEmbedder(256), "background": False} | options
        opened.append(jiyi.open(url, **chosen))
        return opened[-1]

    yield make
    for memory in opened:
        began = time.monotonic()
        memory.close()
        assert time.monotonic() - began < CLOSING
