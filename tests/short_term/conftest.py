import pytest
from tiny_store import TinyStore


@pytest.fixture
def store():
    return TinyStore()
