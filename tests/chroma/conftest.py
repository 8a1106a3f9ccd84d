"""A memory with its vectors in Chroma: a folder by default, or a server."""

from pathlib import Path
from typing import Any

import pytest
from chroma_server import ABSENT, ChromaProcess, chroma_server  # noqa: F401

import jiyi
from jiyi.testing import HashEmbedder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs chromadb where it is not installed, and say why."""
    for item in items:
        if ABSENT and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=ABSENT))


@pytest.fixture
def own_server(tmp_path):
    """A server of this test alone, which may be killed."""
    (tmp_path / "served").mkdir()
    server = ChromaProcess(tmp_path / "served")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def open_chroma(path):
    """Open memories on one file with their vectors in a folder beside it; all are closed in the end."""
    opened: list[jiyi.MemoryManager] = []

    def make(url: Path | str = path, **options: Any) -> jiyi.MemoryManager:
        chosen = {"user_id": "ana", "embedder": HashEmbedder(), "background": False}
        opened.append(jiyi.open(url, **chosen | {"vector_index": "chroma"} | options))
        return opened[-1]

    yield make
    for memory in opened:
        memory.close()


@pytest.fixture
def folder(path):
    """Where Chroma's files are by default."""
    return path.with_name(f"{path.name}.chroma")
