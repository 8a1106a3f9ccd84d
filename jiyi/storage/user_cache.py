"""What was read of users, held in memory within one number of bytes. No I/O of its own."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

__all__ = ["Extend", "Held", "UserCache", "with_room"]


class Held(Protocol):
    """A part of a user's memory that is read once and extended."""

    generation: int  # of the user's removals and changes, when it was read

    def __init__(self, generation: int) -> None:
        """Begin empty."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        ...

    def view(self) -> Self:
        """Return it as it is now; what is added later does not show."""
        ...


def with_room(array: NDArray[Any], used: int, room: int) -> NDArray[Any]:
    """Return an array with at least ``room`` elements, of which the first ``used`` are kept."""
    if room <= len(array):
        return array
    grown = np.empty((room, *array.shape[1:]), array.dtype)
    grown[:used] = array[:used]
    return grown


_H = TypeVar("_H", bound=Held)
Extend = Callable[[_H], None]  # reads what a part lacks


@dataclass(slots=True, eq=False)
class _User:
    lock: threading.Lock = field(default_factory=threading.Lock)  # one thread reads, others wait for it
    parts: dict[type[Any], Any] = field(default_factory=dict)
    nbytes: int = 0


class UserCache:
    """Keeps parts of users; those of the users asked least recently leave when room is needed.

    Guarantees: threads that ask for one user at once read its rows once; who asks for
    another user does not wait for them; the user asked last stays, whatever it takes.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._users: OrderedDict[str, _User] = OrderedDict()
        self._bytes = 0

    def use(
        self, user_id: str, part: type[_H], generation: int, extend: Extend[_H], *, keep: bool = True
    ) -> _H:
        """Return a view of a user's part after ``extend`` brought it up to date.

        It is begun again where it is not of this ``generation``, and forgotten where ``extend``
        raises. Unless it is to be kept, for a transaction may undo it, it is read apart.
        """
        if not keep:
            fresh = part(generation)
            extend(fresh)
            return fresh.view()
        with self._lock:
            user = self._users.setdefault(user_id, _User())
            self._users.move_to_end(user_id)
        with user.lock:
            held: _H | None = user.parts.pop(part, None)
            if held is None or held.generation != generation:
                held = part(generation)
            extend(held)
            user.parts[part] = held
            view = held.view()
            nbytes = sum([part.nbytes for part in user.parts.values()])
        self._settle(user_id, user, nbytes)
        return view

    def peek(self, user_id: str, part: type[_H]) -> _H | None:
        """Return a user's part as it was left by the last `use`, None where there is none."""
        with self._lock:
            user = self._users.get(user_id)
        if user is None:
            return None
        with user.lock:
            held = user.parts.get(part)
            return None if held is None else cast("_H", held.view())

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._users.clear()
            self._bytes = 0

    def _settle(self, user_id: str, user: _User, nbytes: int) -> None:
        with self._lock:
            if self._users.get(user_id) is not user:  # it had to leave meanwhile
                return
            self._bytes += nbytes - user.nbytes
            user.nbytes = nbytes
            while len(self._users) > 1 and self._bytes > self._most_bytes:
                _, oldest = self._users.popitem(last=False)
                self._bytes -= oldest.nbytes
