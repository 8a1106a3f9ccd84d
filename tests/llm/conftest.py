"""Language models for the tests: one that is told what to say, and a real one."""

from collections.abc import Callable
from functools import partial

import pytest
from local_llm import local_llm

from jiyi.llm import OpenAILLM

__all__ = ["local_llm"]

KEY = "sk-very-secret-0123456789"


@pytest.fixture
def make(llm_at: Callable[..., OpenAILLM]) -> Callable[..., OpenAILLM]:
    """Makes models on a server, and closes them."""
    return partial(llm_at, key=KEY, retries=2)
