"""Linear algebra on one thread: on busy cores a second one costs more than it gains."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

from jiyi.forks import free_after_fork, quiet

# The limit is of the whole process, and only the thread that set it can remove it.
_lock = free_after_fork(threading.RLock())


@cache
def _libraries() -> Any:
    return ThreadpoolController().select(user_api="blas").lib_controllers


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread inside the block; blocks of several threads run one after another."""
    with quiet, _lock:  # a fork would copy BLAS's own lock
        # `ThreadpoolController.limit` describes all libraries at each call, which takes 50 microseconds.
        several = [(library, library.num_threads) for library in _libraries() if library.num_threads != 1]
        try:
            for library, _ in several:
                library.set_num_threads(1)
            yield
        finally:
            for library, threads in several:
                library.set_num_threads(threads)
