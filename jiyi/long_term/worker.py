"""A thread that does pending work repeatedly, and pauses longer after failures."""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field

from jiyi.errors import DatabaseMoved, JiyiError

__all__ = ["Worker"]

_LONGEST_PAUSE = 60.0  # seconds between tries while it fails

_log = logging.getLogger("jiyi")


@dataclass(eq=False, repr=False)
class Worker(ABC):
    """Works in the background: at once while there is work, after a growing pause if that fails."""

    name: str  # of the thread, in the log
    _: KW_ONLY
    poll: float  # seconds until it looks for work it was not notified of, as another process's
    failed: Callable[[Exception], JiyiError]  # turns any other exception of a try into one of jiyi's
    final: tuple[type[JiyiError], ...] = ()  # errors after which it stops, as where the file is gone
    last_error: JiyiError | None = field(default=None, init=False)  # of the last try; None if it succeeded
    _wake: threading.Event = field(default_factory=threading.Event, init=False)
    _stopping: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    @abstractmethod
    def _turn(self) -> bool:
        """Do a piece of the work; return whether there was any."""

    def start(self) -> None:
        """Start the thread, once; it never keeps the process alive."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"jiyi-{self.name}", daemon=True)
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
                over = gone or isinstance(error, self.final) or self._stopping.is_set()
                self._note(error, "stopped" if gone else "" if over else f"next try in {pause:.0f} s")
                if over:
                    return
                continue
            pause = 0.0
            if busy:
                self.last_error = None
            else:
                self._wake.wait(self.poll)
                self._wake.clear()

    def _note(self, error: Exception, what: str) -> None:
        """Keep an error; log what it means, if anything, where the last try did not fail in the same way."""
        before = self.last_error
        self.last_error = error if isinstance(error, JiyiError) else self.failed(error)
        if what and str(before) != str(self.last_error):
            _log.warning("%s: %s: %s", self.name, what, error)
