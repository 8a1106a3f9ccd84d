"""Hands text over from the thread that reads a stream to the one that waits for it."""

import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from typing import Generic, TypeVar

__all__ = ["GivenUp", "Relay", "relayed"]

_T = TypeVar("_T")


class GivenUp(Exception):
    """Nobody waits for the text any more."""


class Relay:
    """What the reader of a stream tells its text to.

    Attributes:
        told: whether any text was handed over; asking again would say it twice.
    """

    def __init__(self) -> None:
        self.told = False
        self._pieces: SimpleQueue[str | None] = SimpleQueue()
        self._given_up = threading.Event()

    def __call__(self, piece: str) -> None:
        """Hand over a piece of text.

        Raises:
            GivenUp: nobody waits for it any more.
        """
        self.check()
        if piece:
            self.told = True
            self._pieces.put(piece)

    def check(self) -> None:
        """Raise `GivenUp` where nobody waits any more."""
        if self._given_up.is_set():
            raise GivenUp

    def end(self) -> None:
        """Say that no more will come."""
        self._pieces.put(None)

    def give_up(self) -> None:
        """Wait no more."""
        self._given_up.set()

    def drain(self, on_text: Callable[[str], object]) -> None:
        """Pass on every piece, in this thread, until the end."""
        while (piece := self._pieces.get()) is not None:
            on_text(piece)


class _Outcome(Generic[_T]):
    """What came of a call in another thread."""

    def __init__(self, call: Callable[[], _T], relay: Relay) -> None:
        self._call = call
        self._relay = relay
        self._answer: list[_T] = []
        self._error: BaseException | None = None

    def work(self) -> None:
        try:
            self._answer.append(self._call())
        except BaseException as error:  # whatever it is, it is the caller's
            self._error = error
        finally:
            self._relay.give_up()  # a reader that is late has nobody to tell
            self._relay.end()

    def get(self) -> _T:
        if self._error is not None:
            raise self._error
        return self._answer[0]


def relayed(call: Callable[[Relay], _T], on_text: Callable[[str], object]) -> _T:
    """Return what `call` returns, passing on in this thread what it tells the relay meanwhile.

    `call` runs in a daemon thread and must come back by itself. An error of `on_text`, or
    Ctrl-C, is raised at once; the relay tells the reader to stop.
    """
    relay = Relay()
    outcome = _Outcome(lambda: call(relay), relay)
    thread = threading.Thread(
        target=copy_context().run, args=(outcome.work,), name="jiyi-relayed", daemon=True
    )
    thread.start()
    try:
        relay.drain(on_text)
    finally:
        relay.give_up()
    return outcome.get()
