"""Background workers: threads that retry with growing pauses."""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field

from jiyi.errors import DatabaseMoved, JiyiError

__all__ = ["Worker"]

_MAX_PAUSE = 60.0  # seconds between retries

_log = logging.getLogger("jiyi")


@dataclass(eq=False, repr=False)
class Worker(ABC):
    """A daemon thread that repeats a piece of work while there is any, and retries failures after a pause."""

    name: str  # in the thread's name and the log
    _: KW_ONLY
    poll_seconds: float  # between checks for work that `notify` was not called for, such as another process's
    wrap_error: Callable[[Exception], JiyiError]  # makes a JiyiError of any other exception
    fatal_errors: tuple[type[JiyiError], ...] = ()  # errors after which the thread ends
    last_error: JiyiError | None = field(default=None, init=False)  # None if the last try succeeded
    _wake: threading.Event = field(default_factory=threading.Event, init=False)
    _stopping: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    @abstractmethod
    def _run_once(self) -> bool:
        """Do one piece of work; return whether there was any."""

    def start(self) -> None:
        """Start the thread unless it was started before; it does not keep the process alive."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"jiyi-{self.name}", daemon=True)
            self._thread.start()

    def notify(self) -> None:
        """Wake the thread because there is work."""
        self._wake.set()

    def close(self, timeout: float = 5.0) -> None:
        """Stop after the current piece of work; wait for it at most ``timeout`` seconds."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        pause = 0.0
        while not self._stopping.wait(pause):
            try:
                worked = self._run_once()
            except Exception as error:  # third-party embedders and models may raise anything
                pause = min(max(1.0, 2 * pause), _MAX_PAUSE)
                moved = isinstance(error, DatabaseMoved)
                fatal = moved or isinstance(error, self.fatal_errors) or self._stopping.is_set()
                self._record_error(
                    error, "stopped" if moved else "" if fatal else f"next try in {pause:.0f} s"
                )
                if fatal:
                    return
                continue
            pause = 0.0
            if worked:
                self.last_error = None
            else:
                self._wake.wait(self.poll_seconds)
                self._wake.clear()

    def _record_error(self, error: Exception, consequence: str) -> None:
        """Set `last_error`; log it with its consequence, if any, unless the last try failed the same way."""
        before = self.last_error
        self.last_error = error if isinstance(error, JiyiError) else self.wrap_error(error)
        if consequence and str(before) != str(self.last_error):
            _log.warning("%s: %s: %s", self.name, consequence, error)
