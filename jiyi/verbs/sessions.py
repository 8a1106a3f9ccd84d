"""Verbs about one session: summary, full tool outputs, health, and handover to the next one."""

from functools import partial
from typing import cast

from jiyi.compression.tool_output import Page, page
from jiyi.context import Advice, Health, advise, handover, health, shorten_tool_results
from jiyi.errors import NotFound
from jiyi.records import SHARES, Message, Query, Scope, Step, Summary, Task
from jiyi.verbs.base import Verbs
from jiyi.verbs.checks import Id
from jiyi.verbs.context import shorten_output


class SessionVerbs(Verbs):
    """Summarise a session, look at how it is doing, and hand it over to the next."""

    def summarize_session(
        self, session_id: str, *, user_id: Id = None, agent_id: Id = None
    ) -> Summary | None:
        """Fold all but the last turns of a conversation into its summary now, and return that, if any.

        `build_context` does this by itself when it is due. After an `LLMError` the summary is as it was.
        """
        state = self._summaries.fold(self._scope(user_id, agent_id, session_id))
        if state.error is not None:
            raise state.error
        return state.summary

    def summary(self, session_id: str, *, user_id: Id = None, agent_id: Id = None) -> Summary | None:
        """Return the running summary of a conversation, None if nothing was folded yet."""
        return self._summaries.current_state(self._scope(user_id, agent_id, session_id)).summary

    def open_output(
        self,
        output_id: str,
        offset: int = 0,
        *,
        max_tokens: int = 1_000,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Page:
        """Return a page of a message's or a step's text: what a shortened tool output left out.

        ``offset`` are the characters to skip, ``max_tokens`` those of the page, which says where the next one
        begins. Raises `NotFound` if the user has no such message or step, `InputError` for impossible
        numbers.
        """
        scope = self._scope(user_id, agent_id)
        found = self._store.find(Query(scope=scope, kinds=("message", "step"), ids=(output_id,), limit=1))
        if not found:
            raise NotFound(f"user {scope.user_id!r} has no message and no step with the id {output_id!r}")
        text = found[0].text if isinstance(found[0], Message) else cast("Step", found[0]).result or ""
        return page(text, offset, max_tokens, self._counter)

    def session_health(
        self, session_id: str, max_tokens: int | None = None, *, user_id: Id = None, agent_id: Id = None
    ) -> Health:
        """Return how full, stale, repetitive and off its goal a session is; see `jiyi.context.health`.

        Looks at what a window of ``max_tokens``, by default the settings', shows: the messages after its
        summary, large tool outputs shortened; with ``monitor`` also at recalled texts that no reply used.
        """
        scope = self._scope(user_id, agent_id, session_id)
        recent = self._short_term.window(scope).kept
        said = self._summaries.current_state(scope).uncovered(recent)
        most = self._settings.limits[0] if max_tokens is None else max_tokens
        shorten = partial(shorten_output, counter=self._counter)
        shown, _ = shorten_tool_results(said, int(most * SHARES["history"]), shorten, counter=self._counter)
        goal = self._goal(scope, self._working.current(scope))
        hit_rate = self._monitor.gauges().hit_rate if self._monitor else None
        return health(shown, most, goal=goal, hit_rate=hit_rate, counter=self._counter)

    def session_advice(
        self, session_id: str, max_tokens: int | None = None, *, user_id: Id = None, agent_id: Id = None
    ) -> Advice:
        """Return what to do with a session: continue, summarise, restart or split; and why."""
        return advise(self.session_health(session_id, max_tokens, user_id=user_id, agent_id=agent_id))

    def handover(
        self, session_id: str, max_tokens: int = 800, *, user_id: Id = None, agent_id: Id = None
    ) -> str:
        """Return a text to begin the next session with, "" if nothing was said; see `jiyi.context.handover`.

        It holds the goal, decisions, the state of the task, open to-dos, the summary and the last turns, in
        at most ``max_tokens``. Raises `BudgetTooSmall` if not even the beginning of the goal fits.
        """
        scope = self._scope(user_id, agent_id, session_id)
        summary, task = self._summaries.current_state(scope).summary, self._working.current(scope)
        recent, text = self._short_term.window(scope).kept, summary.text if summary else ""
        goal, counter = self._goal(scope, task), self._counter
        return handover(recent, summary=text, task=task, goal=goal, max_tokens=max_tokens, counter=counter)

    def _goal(self, scope: Scope, task: Task | None) -> str:
        """Return the goal of a session: the current task, else the first user message."""
        if task is not None:
            return task.request
        first = self._store.find(Query(scope=scope, kinds=("message",), roles=("user",), limit=1))
        return cast("Message", first[0]).text if first else ""
