"""Calls made side by side, in a thread each; and waiting until something has happened."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def at_once(call: Callable[[Any], Any], given: Iterable[Any]) -> list[Any]:
    """Call with each of these; return what the calls returned in their order, or raise what one raised."""
    each = list(given)
    with ThreadPoolExecutor(len(each)) as pool:
        return list(pool.map(call, each))


def wait_until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
