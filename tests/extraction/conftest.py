"""A real local model for the tests, and no keys or proxies of this machine."""

from local_llm import local_llm

__all__ = ["local_llm"]
