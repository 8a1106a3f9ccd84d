"""What the tests of several rerankers need."""

from local_llm import local_llm, local_reranker

__all__ = ["local_llm", "local_reranker"]
