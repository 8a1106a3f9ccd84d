"""Language models for the tests: one that is told what to say, and a real one."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from local_llm import local_llm

from jiyi.embeddings import Endpoint
from jiyi.llm import OpenAILLM

__all__ = ["local_llm"]

KEY = "sk-very-secret-0123456789"


@pytest.fixture
def make() -> Iterator[Callable[..., OpenAILLM]]:
    """Makes models on a server, and closes them."""
    made: list[OpenAILLM] = []

    def build(url: str, *, timeout: float = 10.0, retries: int = 2, **options: Any) -> OpenAILLM:
        endpoint = Endpoint(base_url=url, api_key=KEY, timeout=timeout, retries=retries)
        made.append(OpenAILLM("m", endpoint=endpoint, **options))
        return made[-1]

    yield build
    for llm in made:
        llm.close()
