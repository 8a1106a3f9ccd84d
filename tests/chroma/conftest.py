"""A memory with its vectors in Chroma: a folder by default, or a server."""

from functools import partial
from pathlib import Path

import pytest
from chroma_server import ABSENT, ChromaProcess, chroma_server  # noqa: F401


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
def open_chroma(open_memory):
    """Open memories with their vectors in a folder beside their file, unless told otherwise."""
    return partial(open_memory, vector_index="chroma")


@pytest.fixture
def folder(path):
    """Where Chroma's files are by default."""
    return path.with_name(f"{path.name}.chroma")
