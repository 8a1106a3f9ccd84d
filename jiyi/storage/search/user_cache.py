"""A cache of what was read about users, limited to a number of bytes. No I/O of its own."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray


class CachedPart(Protocol):
    """A part of a user's memory that is read once and extended afterwards."""

    generation: int  # of the user's removals and changes when it was read

    def __init__(self, generation: int) -> None:
        """Start empty."""

    @property
    def nbytes(self) -> int:
        """Bytes used."""

    def view(self) -> Self:
        """Return its present content; later additions do not show."""


def grow_array(array: NDArray[Any], used: int, size: int) -> NDArray[Any]:
    """Return an array of at least ``size`` elements, the first ``used`` as they are; it grows by half."""
    if size <= len(array):
        return array
    grown = np.empty((max(size, used + used // 2), *array.shape[1:]), array.dtype)
    grown[:used] = array[:used]
    return grown


_H = TypeVar("_H", bound=CachedPart)
_T = TypeVar("_T")
Extend = Callable[[_H], None]  # brings a part up to date


@dataclass(slots=True, eq=False)
class _UserEntry:
    lock: threading.Lock = field(default_factory=threading.Lock)  # one thread reads, others wait for it
    parts: dict[type[Any], Any] = field(default_factory=dict)
    nbytes: int = 0


class UserCache:
    """Caches parts of users; when it is full, the least recently used users are evicted.

    Guarantees: threads that ask for the same user at once read its rows once; those that ask for
    another user do not wait for them; the most recently used user stays, however large.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._users: OrderedDict[str, _UserEntry] = OrderedDict()
        self._bytes = 0

    def use(
        self, user_id: str, part: type[_H], generation: int, extend: Extend[_H], *, keep: bool = True
    ) -> _H:
        """Return a view of a user's part after ``extend`` brought it up to date.

        A part of another ``generation`` is replaced by an empty one; if ``extend`` raises, the part is
        dropped. With ``keep=False``, for what a transaction may undo, the cache is neither read nor changed.
        """
        if not keep:
            fresh = part(generation)
            extend(fresh)
            return fresh.view()
        with self._lock:
            user = self._users.setdefault(user_id, _UserEntry())
            self._users.move_to_end(user_id)
        with user.lock:
            cached: _H | None = user.parts.pop(part, None)
            if cached is None or cached.generation != generation:
                cached = part(generation)
            extend(cached)
            user.parts[part] = cached
            view = cached.view()
            nbytes = sum([part.nbytes for part in user.parts.values()])
        with self._lock:
            if self._users.get(user_id) is user:  # otherwise it was evicted meanwhile
                self._bytes += nbytes - user.nbytes
                user.nbytes = nbytes
            while len(self._users) > 1 and self._bytes > self._most_bytes:
                _, oldest = self._users.popitem(last=False)
                self._bytes -= oldest.nbytes
        return view

    def peek(self, user_id: str, part: type[_H], look: Callable[[_H], _T]) -> _T | None:
        """Return what ``look`` says of a user's part as the last `use` left it, None if it is not cached."""
        with self._lock:
            user = self._users.get(user_id)
        if user is None:
            return None
        with user.lock:
            cached = user.parts.get(part)
            return None if cached is None else look(cached)

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._users.clear()
            self._bytes = 0
