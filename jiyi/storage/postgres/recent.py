"""Whom this process wrote to lately: who can be asked when a search through all users fails."""

import threading
from collections import OrderedDict

__all__ = ["RecentUsers"]

_MOST = 1_000  # users


class RecentUsers:
    """A bounded list of users, safe for many threads."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._users: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, user_id: str) -> None:
        """Put a user in front; the one at the end goes where there are too many."""
        with self._lock:
            self._users[user_id] = None
            self._users.move_to_end(user_id)
            if len(self._users) > self._most:
                self._users.popitem(last=False)

    def newest_first(self) -> list[str]:
        """Return the users as they are now."""
        with self._lock:
            return list(reversed(self._users))
