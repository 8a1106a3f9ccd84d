"""Verbs for reading: search, and lists of records."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from jiyi.errors import BadQuery
from jiyi.long_term.finding import find_record
from jiyi.records import SEARCHABLE, Hit, Hits, Item, Kind, Listing, Query, Searchable
from jiyi.records.experience import Episode, Knowledge, Task
from jiyi.text import secrets
from jiyi.verbs.base import Verbs
from jiyi.verbs.checks import Filters, Id, Names, as_labels


class RecallVerbs(Verbs):
    """Search the memory, and list what it holds."""

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        kinds: Sequence[Kind] | Kind = SEARCHABLE,
        session_id: Id = None,
        namespace: Names | None = None,
        filters: Filters = None,
        asked_at: datetime | None = None,
        around: int = 0,
        min_score: float = 0.0,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Hits:
        """Return what the memory holds about ``query``, best first.

        ``hit.why`` says what each feature added to a hit's score (with a reranker its score is
        ``why["reranker"]``, and the rest is why it was a candidate); ``hit.secrets`` names the kinds of
        secrets in its text, which is returned unchanged; ``hits.nothing_relevant`` is the probability that
        the memory holds no answer at all. ``hit.relevance`` of the best hit is the probability that there is
        an answer, 1 - ``nothing_relevant``; for others it falls to 1/e with each 3 points of score below the
        best. Unlike scores it can be compared between questions, and a reranker does not change it.

        Args:
            query: words or a question, Chinese or English.
            kinds: "message", "episode", "knowledge", "fact", "item"; all by default.
            namespace: only items below these labels, matched whole.
            filters: conditions on fields and metadata, such as ``{"role": "user", "metadata.channel":
                ["slack", "mail"], "created_at": {"gte": ...}}``, joined by ``and``, ``or``, ``not``; see
                `jiyi.records.read_filter`.
            asked_at: when the question is asked, now by default; decides what "yesterday" means. What was
                said more than a day later counts for little.
            around: how many messages before and after a message to return with it, as ``hit.around``, at most
                1,000; none is shown with two hits.
            min_score: 0 to 1; hits with a lower ``relevance`` are left out.

        Raises `BadQuery`: an empty query, an unknown kind or filter, an impossible limit or ``min_score``.
        """
        scope = self._scope(user_id, agent_id, session_id)
        names = (kinds,) if isinstance(kinds, str) else tuple(kinds)
        if odd := ", ".join(repr(name) for name in names if name not in SEARCHABLE):
            raise BadQuery(f"no kind named {odd} to search; there are {', '.join(SEARCHABLE)}")
        labels, now = None if namespace is None else as_labels(namespace), asked_at or self._clock()
        asked = Query(scope=scope, text=query, kinds=names, namespace=labels, limit=limit, asked_at=now)
        found = self._long_term.recall.search(asked.with_filters(filters), around=around, min_score=min_score)
        return replace(found, hits=tuple(map(_with_secrets, found)))

    def search_episodes(
        self,
        query: str,
        limit: int = 5,
        *,
        session_id: Id = None,
        filters: Filters = None,
        min_score: float = 0.0,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Hits:
        """Search finished tasks only; see `search`."""
        ids: dict[str, Any] = {"session_id": session_id, "user_id": user_id, "agent_id": agent_id}
        return self.search(query, limit=limit, kinds="episode", filters=filters, min_score=min_score, **ids)

    def search_knowledge(
        self,
        query: str,
        limit: int = 3,
        *,
        session_id: Id = None,
        filters: Filters = None,
        min_score: float = 0.0,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Hits:
        """Search knowledge only; see `search`."""
        ids: dict[str, Any] = {"session_id": session_id, "user_id": user_id, "agent_id": agent_id}
        return self.search(query, limit=limit, kinds="knowledge", filters=filters, min_score=min_score, **ids)

    def episodes(
        self,
        limit: int = 100,
        *,
        filters: Filters = None,
        after: str | None = None,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Listing[Episode]:
        """Return finished tasks, newest first; ``filters`` and ``after`` as in `session_messages`."""
        return self._list_page("episode", self._scope(user_id, agent_id), limit, after, filters)

    def knowledge(
        self,
        limit: int = 100,
        *,
        filters: Filters = None,
        after: str | None = None,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Listing[Knowledge]:
        """Return the user's knowledge, newest first; ``filters``, ``after`` as in `episodes`."""
        return self._list_page("knowledge", self._scope(user_id, agent_id), limit, after, filters)

    def get(self, record_id: str, *, user_id: Id = None, agent_id: Id = None) -> Searchable | Task:
        """Return the message, episode, knowledge, fact, item or task with this id, or raise `NotFound`."""
        record = find_record(self._store, self._scope(user_id, agent_id), record_id)
        return record.without_history() if isinstance(record, Item) else record


def _with_secrets(hit: Hit) -> Hit:
    """Return the hit with the kinds of secrets in its text, and an item without its history."""
    if isinstance(hit.record, Item):
        hit = replace(hit, record=hit.record.without_history())
    kinds = tuple(dict.fromkeys(secret.kind for secret in secrets(*hit.wordings)))
    return replace(hit, secrets=kinds) if kinds else hit
