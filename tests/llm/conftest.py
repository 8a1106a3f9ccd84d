"""Language models for the tests: one that is told what to say, and a real one."""

from functools import partial

import pytest

KEY = "sk-very-secret-0123456789"


@pytest.fixture
def make(llm_at):
    """Makes models on a server, and closes them."""
    return partial(llm_at, key=KEY, retries=2)
