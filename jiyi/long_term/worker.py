"""A thread that does pending work repeatedly, and pauses longer after failures."""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from jiyi.errors import DatabaseMoved, JiyiError

__all__ = ["Worker"]

_LONGEST_PAUSE = 60.0  # seconds between tries while it fails

_log = logging.getLogger("jiyi")


class Worker(ABC):
    """Works in the background: at once while there is work, after a growing pause if that fails.

    ``last_error`` is what the last try raised, None if it succeeded.

    Args:
        name: of the thread, in the log.
        poll: seconds after which it looks for work it was not notified of, such as another process's.
        failed: turns any other exception of a try into one of jiyi's errors.
        final: errors after which it stops, besides a file that no longer exists.
    """

    def __init__(
        self,
        name: str,
        *,
        poll: float,
        failed: Callable[[Exception], JiyiError],
        final: tuple[type[JiyiError], ...] = (),
    ) -> None:
        self._name = name
        self._poll = poll
        self._error_of = failed
        self._final = final
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.last_error: JiyiError | None = None

    @abstractmethod
    def _turn(self) -> bool:
        """Do a piece of the work; return whether there was any."""

    def start(self) -> None:
        """Start the thread, once; it never keeps the process alive."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"jiyi-{self._name}", daemon=True)
            self._thread.start()

    def notify(self) -> None:
        """Say that there is work."""
        self._wake.set()

    def close(self, timeout: float = 5.0) -> None:
        """Stop after the current piece; wait for it at most ``timeout`` seconds."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        pause = 0.0
        while not self._stopping.wait(pause):
            try:
                busy = self._turn()
            except Exception as error:  # parts from outside may raise anything
                pause = min(max(1.0, 2 * pause), _LONGEST_PAUSE)
                gone = isinstance(error, DatabaseMoved)
                over = gone or isinstance(error, self._final) or self._stopping.is_set()
                self._note(error, "stopped" if gone else "" if over else f"next try in {pause:.0f} s")
                if over:
                    return
                continue
            pause = 0.0
            if busy:
                self.last_error = None
            else:
                self._wake.wait(self._poll)
                self._wake.clear()

    def _note(self, error: Exception, what: str) -> None:
        """Keep an error; log what it means, if anything, where the last try did not fail in the same way."""
        before = self.last_error
        self.last_error = error if isinstance(error, JiyiError) else self._error_of(error)
        if what and str(before) != str(self.last_error):
            _log.warning("%s: %s: %s", self._name, what, error)
