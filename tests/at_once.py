"""Calls made side by side, in a thread each."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

__all__ = ["at_once"]


def at_once(call: Callable[[Any], Any], given: Iterable[Any]) -> list[Any]:
    """Call with each of these; return what the calls returned in their order, or raise what one raised."""
    each = list(given)
    with ThreadPoolExecutor(len(each)) as pool:
        return list(pool.map(call, each))
