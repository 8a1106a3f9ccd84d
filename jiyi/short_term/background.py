"""Work of sessions in a thread of its own: one piece for each session at a time."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from jiyi.forks import leave_at_fork

__all__ = ["Background"]

_MOST_RESULTS = 500  # that wait to be taken

_Key = TypeVar("_Key", bound=Hashable)
_Result = TypeVar("_Result")


class Background(Generic[_Key, _Result]):
    """Does pieces of work one after the other, in a thread that starts with the first.

    - Of a key one piece waits or is done at a time; another one is not taken meanwhile.
    - What a piece returned waits for whoever asks under its key; of more than 500 the oldest go.
    - A forked process begins with nothing: its parent goes on with what was there.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._left_behind()
        leave_at_fork(self)

    def _left_behind(self, quiet: bool = True) -> None:  # noqa: ARG002 - nothing here has to be closed
        """See `jiyi.forks.Left`."""
        self._changed = threading.Condition()
        self._pending: OrderedDict[_Key, Callable[[], _Result]] = OrderedDict()
        self._results: OrderedDict[_Key, _Result] = OrderedDict()
        self._thread: threading.Thread | None = None
        self._closed = False

    def put(self, key: _Key, work: Callable[[], _Result]) -> bool:
        """Have a piece of work done, which must not raise; return whether it was taken."""
        with self._changed:
            if self._closed or key in self._pending:
                return False
            self._pending[key] = work
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"jiyi-{self._name}", daemon=True)
                self._thread.start()
            self._changed.notify_all()
            return True

    def take(self, key: _Key) -> _Result | None:
        """Return what the last piece of a key returned, once."""
        with self._changed:
            return self._results.pop(key, None)

    def wait(self, key: _Key | None = None) -> None:
        """Wait until the piece of a key is done, or all that were put before this call."""
        with self._changed:
            keys = [*self._pending] if key is None else [key]
            works = {one: self._pending[one] for one in keys if one in self._pending}
            self._changed.wait_for(
                lambda: self._closed or not any(self._pending.get(one) is work for one, work in works.items())
            )

    def close(self, timeout: float = 5.0) -> None:
        """Take nothing more, drop what waits, and wait ``timeout`` seconds for the piece in hand."""
        with self._changed:
            self._closed = True
            thread = self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join(timeout)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._pending)
                if self._closed:
                    return
                key, work = next(iter(self._pending.items()))
            result = work()
            with self._changed:
                self._results[key] = result
                if len(self._results) > _MOST_RESULTS:
                    self._results.popitem(last=False)
                del self._pending[key]
                self._changed.notify_all()
