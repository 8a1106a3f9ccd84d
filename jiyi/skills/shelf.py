"""The skills of a memory: one registry, and what each session has opened of it."""

import threading
from collections import OrderedDict

from jiyi.records import Scope
from jiyi.skills.disclosure import Disclosure
from jiyi.skills.registry import SkillRegistry
from jiyi.skills.route import Router

__all__ = ["SkillShelf"]

_MOST = 10_000  # sessions whose opened skills are remembered


class SkillShelf:
    """Hands out the `Disclosure` of each session.

    A session that is new, and so sees nothing yet that could be cached, looks at the folders
    again; so new and changed skills need no restart.

    What is open lives in this process: of more than 10,000 sessions those not used for the
    longest time begin with cards again, and so do all of them after a restart.
    """

    def __init__(self, registry: SkillRegistry, router: Router | None = None) -> None:
        self._registry = registry
        self._router = router or Router(registry)
        self._sessions: OrderedDict[tuple[str, str | None], Disclosure] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def registry(self) -> SkillRegistry:
        """The skills there are."""
        return self._registry

    def of(self, scope: Scope) -> Disclosure:
        """Return what a session sees; a new one sees cards."""
        key = scope.user_id, scope.session_id
        if key not in self._sessions:
            self._registry.reload()
        with self._lock:
            found = self._sessions.get(key)
            if found is None:
                found = self._sessions[key] = Disclosure(self._registry, router=self._router)
                if len(self._sessions) > _MOST:
                    self._sessions.popitem(last=False)
            self._sessions.move_to_end(key)
            return found
