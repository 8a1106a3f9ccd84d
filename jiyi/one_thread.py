"""Linear algebra on one thread: on busy cores a second one costs more than it gains."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

from jiyi.forks import free_after_fork, quiet

__all__ = ["one_blas_thread"]

# The limit is of the whole process, and only the thread that set it can remove it.
_lock = free_after_fork(threading.RLock())
_controller = cache(ThreadpoolController)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread inside the block; blocks of several threads run one after another."""
    with quiet, _lock, _controller().limit(limits=1, user_api="blas"):  # a fork would copy BLAS's own lock
        yield
