"""Linear algebra on one thread: on busy cores a second one costs more than it brings."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

from jiyi.forks import free_after_fork

__all__ = ["one_blas_thread"]

_lock = free_after_fork(threading.RLock())
_libraries = cache(lambda: ThreadpoolController().select(user_api="blas").lib_controllers)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread: of the whole process, so blocks of several threads run one after another."""
    with _lock:
        limited = [(one, threads) for one in _libraries() if (threads := one.num_threads or 1) > 1]
        try:
            for one, _ in limited:
                one.set_num_threads(1)
            yield
        finally:
            for one, threads in limited:
                one.set_num_threads(threads)
