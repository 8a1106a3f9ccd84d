"""Verbs that bring back: search, and the window for a question."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from jiyi.context import Arranged, Materials, arrange, build_window
from jiyi.errors import BadBudget, BadQuery, NotFound
from jiyi.long_term import recall_blocks
from jiyi.records import (
    SEARCHABLE,
    Block,
    Budget,
    Episode,
    Hits,
    Kind,
    Knowledge,
    Message,
    Query,
    Scope,
    Searchable,
    Session,
    Task,
    Window,
)
from jiyi.short_term import Policy
from jiyi.text import language
from jiyi.verbs.base import Verbs
from jiyi.working import task_block

__all__ = ["RecallVerbs"]

_EXCERPTS = 4  # one excerpt takes at most this part of the recalled section


class RecallVerbs(Verbs):
    """Search the memory, and build the window for a question."""

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        kinds: Sequence[Kind] | Kind = SEARCHABLE,
        session_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
        asked_at: datetime | None = None,
        around: int = 0,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Hits:
        """Return what the memory holds about ``query``, best first.

        ``hit.why`` says what each feature added to a hit's score (with a reranker its score is
        ``why["reranker"]``, and the rest is why it was a candidate); ``hits.nothing_relevant``
        is the probability that the memory holds no answer at all.

        Args:
            query: words or a question, Chinese or English.
            limit: how many hits at most.
            kinds: "message", "episode", "knowledge", "fact"; all by default.
            session_id: only this conversation.
            filters: ``role``, ``since``, ``until`` (aware datetimes), ``pinned``.
            asked_at: when the question is asked, now by default: what "yesterday" in it means;
                what was said more than a day later counts for little.
            around: how many messages before and behind a message come with it, as
                ``hit.around``, at most 1,000; one that another hit shows already is not repeated.
            user_id, agent_id: whose, where `jiyi.open` did not say.

        Raises:
            BadQuery: an empty query, an unknown kind, an impossible limit.
            UnknownFilter: a filter that does not exist.
        """
        scope = self._scope(user_id, agent_id, session_id)
        names = (kinds,) if isinstance(kinds, str) else tuple(kinds)
        if not set(names) <= set(SEARCHABLE):
            odd = ", ".join(repr(name) for name in names if name not in SEARCHABLE)
            raise BadQuery(f"no kind named {odd} to search; there are {', '.join(SEARCHABLE)}")
        asked = Query(scope=scope, text=query, kinds=names, limit=limit, asked_at=asked_at or self._clock())
        return self._long_term.recall.search(asked.with_filters(filters), around=around)

    def search_episodes(
        self,
        query: str,
        limit: int = 5,
        *,
        session_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Hits:
        """Search finished tasks only; see `search`."""
        return self.search(
            query,
            limit=limit,
            kinds="episode",
            session_id=session_id,
            filters=filters,
            user_id=user_id,
            agent_id=agent_id,
        )

    def search_knowledge(
        self,
        query: str,
        limit: int = 3,
        *,
        session_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Hits:
        """Search knowledge only; see `search`."""
        return self.search(
            query,
            limit=limit,
            kinds="knowledge",
            session_id=session_id,
            filters=filters,
            user_id=user_id,
            agent_id=agent_id,
        )

    def episodes(
        self, limit: int = 100, *, user_id: str | None = None, agent_id: str | None = None
    ) -> list[Episode]:
        """Return the user's finished tasks, newest first."""
        scope = self._scope(user_id, agent_id)
        query = Query(scope=scope, kinds=("episode",), newest_first=True, limit=limit)
        return cast("list[Episode]", self._store.find(query))

    def knowledge(
        self, limit: int = 100, *, user_id: str | None = None, agent_id: str | None = None
    ) -> list[Knowledge]:
        """Return what the user's episodes taught, newest first."""
        scope = self._scope(user_id, agent_id)
        query = Query(scope=scope, kinds=("knowledge",), newest_first=True, limit=limit)
        return cast("list[Knowledge]", self._store.find(query))

    def get(
        self, record_id: str, *, user_id: str | None = None, agent_id: str | None = None
    ) -> Searchable | Task:
        """Return the message, episode, knowledge, fact or task of this id.

        Raises:
            NotFound: the user has no such record.
        """
        scope = self._scope(user_id, agent_id)
        query = Query(scope=scope, kinds=(*SEARCHABLE, "task"), ids=(record_id,), limit=1)
        found = self._store.find(query)
        if not found:
            raise NotFound(f"user {scope.user_id!r} has nothing with the id {record_id!r}")
        return cast("Searchable | Task", found[0])

    def build_context(
        self,
        session_id: str,
        query: str | None = None,
        budget: int | Budget | None = None,
        *,
        system: str | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        policy: Policy | None = None,
        asked_at: datetime | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Window:
        """Return what the model should see now, and the account of it.

        Recent messages, the task in hand and what the memory recalls about the question
        share the budget. The window ends with the question, or with what followed it.

        Args:
            session_id: the conversation; a new one is fine.
            query: the question; the session's newest user message where it is left out.
            budget: input tokens, or a `Budget`; from the settings by default.
            system: a system prompt to put in front of the session's own.
            tools: tool definitions that will be sent along; their tokens count.
            policy: looks at the history first, such as `SlidingWindow`; then
                `TokenBudget` keeps what fits.
            asked_at: when the question is asked, now by default: what "yesterday" in it means.
            user_id, agent_id: whose, where `jiyi.open` did not say.

        Raises:
            BudgetTooSmall: system, pinned and current messages and tools alone are larger.
            BadBudget: the budget is not a positive number of tokens.
        """
        if not isinstance(query, str | None):
            raise BadQuery(f"the question must be text, not {type(query).__name__}")
        scope = self._scope(user_id, agent_id, session_id)
        limits = self._budget(budget)
        session = self._short_term.window(scope)
        prompt = [Message(role="system", content=system)] if system else []
        arranged = arrange([*prompt, *session.kept], query)
        question = query or (arranged.current.text if arranged.current else "")
        tongue = self._settings.language if self._settings.language != "auto" else language(question)
        asked = Query(
            scope=replace(scope, session_id=None), text=question, asked_at=asked_at or self._clock()
        )
        blocks, notes = self._blocks(scope, asked, arranged, limits, tongue)
        notes += self._older(scope, len(session.kept) + len(session.dropped))
        materials = Materials(
            system=arranged.system,
            history=arranged.history,
            current=arranged.current,
            tail=arranged.tail,
            tools=tools,
            broken=session.dropped,
            blocks=blocks,
            left_out=arranged.repeated,
            notes=notes,
        )
        return build_window(materials, limits, counter=self._counter, language=tongue, policy=policy)

    def _older(self, scope: Scope, seen: int) -> list[str]:
        """Say how many messages the session has beside those it was asked for."""
        older = self._saved(scope) - seen
        turns = self._settings.max_turns
        said = f"{older} older messages lie behind the session's last {turns} turns; search finds them"
        return [said] if older > 0 else []

    def _saved(self, scope: Scope) -> int:
        """Return how many messages of a session are stored; the whole session's number is kept ready."""
        if scope.agent_id is not None:
            return self._store.count(Query(scope=scope, kinds=("message",)))["message"]
        found = self._store.find(Query(scope=scope, kinds=("session",), limit=1))
        return cast("Session", found[0]).messages if found else 0

    def _budget(self, budget: int | Budget | None) -> Budget:
        if isinstance(budget, Budget):
            return budget
        if budget is None:
            reserve = self._settings.max_output_tokens
            return Budget(max_input_tokens=self._settings.max_input_tokens, max_output_tokens=reserve)
        if not isinstance(budget, int):
            raise BadBudget(f"a budget is a number of tokens or a Budget, not {type(budget).__name__}")
        return Budget(max_input_tokens=budget)

    def _blocks(
        self, scope: Scope, asked: Query, arranged: Arranged, budget: Budget, tongue: str
    ) -> tuple[list[Block], list[str]]:
        """Ask working and long-term memory what they have for the context message."""
        task = self._working.current(scope)
        blocks = [task_block(task, self._counter, tongue)] if task else []
        recalled, notes = recall_blocks(
            self._long_term.recall,
            asked,
            without=arranged.current.id if arranged.current else "",
            counter=self._counter,
            language=tongue,
            longest=int(budget.max_input_tokens * budget.shares.get("recalled", 0.0) / _EXCERPTS),
            zone=self._settings.zone,
        )
        return blocks + recalled, notes
