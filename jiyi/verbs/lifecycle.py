"""Verbs about the life of a session: how it is doing, and what to take into the next one."""

from typing import cast

from jiyi.context import Advice, Health, advise, handover, health
from jiyi.records import Message, Query, Scope, Task
from jiyi.verbs.base import Verbs

__all__ = ["LifecycleVerbs"]


class LifecycleVerbs(Verbs):
    """Look at a session, and hand it over to the next."""

    def session_health(
        self,
        session_id: str,
        max_tokens: int | None = None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Health:
        """Return how full, stale, repetitive and astray a session is; see `jiyi.context.health`.

        Looks at what a window shows of it: the messages behind its summary. With the setting
        ``monitor`` the recalled texts that replies did not use are in it, too.

        Args:
            session_id: the conversation.
            max_tokens: size of its windows; the settings' by default.
            user_id, agent_id: whose, where `jiyi.open` did not say.
        """
        scope = self._scope(user_id, agent_id, session_id)
        recent = self._short_term.window(scope).kept
        return health(
            self._folding.standing(scope).uncovered(recent),
            self._settings.limits[0] if max_tokens is None else max_tokens,
            goal=self._goal(scope, self._working.current(scope)),
            hit_rate=self._monitor.gauges().hit_rate if self._monitor else None,
            counter=self._counter,
        )

    def session_advice(
        self,
        session_id: str,
        max_tokens: int | None = None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Advice:
        """Return what to do with a session: continue, summarise, restart or split; and why."""
        return advise(self.session_health(session_id, max_tokens, user_id=user_id, agent_id=agent_id))

    def handover(
        self,
        session_id: str,
        max_tokens: int = 800,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> str:
        """Return a text to begin the next session with; see `jiyi.context.handover`.

        It holds the goal, decisions, the state of the task, open to-dos, the summary and the
        last turns, in at most ``max_tokens``.

        Raises:
            BudgetTooSmall: not even the beginning of the goal fits.
        """
        scope = self._scope(user_id, agent_id, session_id)
        summary, task = self._folding.standing(scope).summary, self._working.current(scope)
        return handover(
            self._short_term.window(scope).kept,
            summary=summary.text if summary else "",
            task=task,
            goal=self._goal(scope, task),
            max_tokens=max_tokens,
            counter=self._counter,
        )

    def _goal(self, scope: Scope, task: Task | None) -> str:
        """Return what a session is for: the task in hand, else the first thing the user said."""
        if task is not None:
            return task.request
        first = self._store.find(Query(scope=scope, kinds=("message",), roles=("user",), limit=1))
        return cast("Message", first[0]).text if first else ""
