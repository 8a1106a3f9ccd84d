"""Verbs about facts: what is known of somebody or something, now or at another time."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, get_args

from jiyi.clock import to_micros
from jiyi.errors import BadQuery
from jiyi.long_term import Learned, Neighbour, neighbours, profile_of
from jiyi.long_term.finding import newest_messages
from jiyi.records import MAX_LIMIT, Fact, FactCategory, FactStatus, Listing, check_limit, read_filter
from jiyi.records.checks import check_choice
from jiyi.verbs.base import Verbs
from jiyi.verbs.checks import Filters, Id, as_utc, check_text
from jiyi.verbs.cursors import BEFORE_NEWEST, SortKey, make_listing, read_cursor, sort_key


class FactVerbs(Verbs):
    """State facts, ask for them, follow them through time."""

    def remember(
        self,
        text: str | None = None,
        *,
        subject: str | None = None,
        predicate: str | None = None,
        object: str | None = None,
        category: FactCategory | None = None,
        speaker: str | None = None,
        valid_from: datetime | None = None,
        valid_to: datetime | None = None,
        pinned: bool = False,
        metadata: Mapping[str, Any] | None = None,
        session_id: Id = None,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Learned:
        """Keep a text, ``remember("I prefer tea", speaker="Ana")``, or a subject, predicate and object.

        None of it is lost: the receipt says what was read from it, and in ``kept`` which fact has all of its
        words. A newer value replaces an older one, which stays in `history`. What is ``pinned`` is in every
        window, see `profile`, and never fades. ``metadata`` are labels of your own, as in `save_message`. See
        `FactMemory.remember`.

        Raises:
            BadQuery: neither a text nor all three parts; more than 1,000,000 characters; a range that ends
                before it begins; an unknown category.
            InputError, NaiveDatetime: metadata that cannot be kept; a time without a zone.
        """
        words: dict[str, Any] = {"subject": subject, "predicate": predicate, "object": object}
        check_text(text=text, **words, speaker=speaker)
        if category is not None:
            check_choice("category", category, get_args(FactCategory), BadQuery)
        words |= {"category": category, "speaker": speaker, "metadata": metadata}
        words |= {"valid_from": as_utc(valid_from, "valid_from"), "valid_to": as_utc(valid_to, "valid_to")}

        def keep() -> Learned:
            scope = self._scope(user_id, agent_id, session_id)
            learned = self._long_term.facts.remember(scope, text, **words)
            if pinned and learned.kept:
                self._long_term.forgetting.pin(self._scope(user_id, agent_id), [learned.kept])
            return learned

        return self._indexed(self._store.together(keep))

    def profile(self, *, user_id: Id = None, agent_id: Id = None) -> list[Fact]:
        """Return what every window of the user shows, whatever is asked, oldest first.

        Rules the user gave ("always answer in German"), their name and language, and pinned facts.
        `remember` adds to it, with ``category="rule"`` or ``pinned=True``; a newer value replaces an older
        one; `unpin` and `forget` remove. It takes at most ``Budget.profile_share`` of a window.
        """
        return profile_of(self._store, self._scope(user_id, agent_id), self._clock())

    def learn_facts(
        self, session_id: str, limit: int = 50, *, user_id: Id = None, agent_id: Id = None
    ) -> Learned:
        """Read the newest messages of a session for facts, with the language model if there is one.

        Messages are read without a model as they are saved; a model finds more. If it fails
        they are read without it again, which changes nothing, and the receipt says why.
        """
        scope = self._scope(user_id, agent_id, session_id)
        messages = newest_messages(self._store, scope, limit)
        return self._indexed(self._long_term.facts.learn_with_llm(scope, messages))

    def facts(
        self,
        subject: str | None = None,
        *,
        as_of: datetime | None = None,
        status: FactStatus | Sequence[FactStatus] | None = None,
        filters: Filters = None,
        limit: int = 100,
        after: str | None = None,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Listing[Fact]:
        """Return the newest ``limit`` active facts, oldest first; with ``as_of`` those that held then.

        ``subject`` narrows to one thing or person, by any of its names; ``status`` asks for unsure,
        superseded, retracted or expired ones, ``filters`` narrow as in `search`; ``after`` is the `next` of a
        page and brings older ones, again oldest first. Raises `BadQuery`: an empty subject, an unknown
        status, a limit outside 1..10,000, an impossible filter, a cursor of another list.
        """
        scope = self._scope(user_id, agent_id)
        check_text(subject=subject)
        check_limit(limit)
        if status is not None and not isinstance(status, Iterable):
            raise BadQuery(f"status is a status or a list of them, not {type(status).__name__}")
        where = read_filter(filters) if filters else None
        states = status if status is None or isinstance(status, str) else tuple(status)
        list_name = repr(("facts", scope, subject, as_utc(as_of, "as_of"), states, where))
        before = read_cursor(after, 1, list_name) or BEFORE_NEWEST
        found = self._long_term.facts.facts(
            scope, subject, as_of=as_of, status=states, where=where, limit=limit + 1, before=before
        )
        more = len(found) > limit or len(found) == MAX_LIMIT
        part = make_listing(found[-limit:][::-1], more, sort_key, list_name)
        part.reverse()
        return part

    def history(
        self,
        subject: str,
        predicate: str | None = None,
        *,
        limit: int = 10_000,
        after: str | None = None,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Listing[Fact]:
        """Return everything ever known about something, oldest first, whatever its status.

        Raises `BadQuery`: an empty subject or predicate, a limit outside 1..10,000, a cursor of another list.
        """
        scope = self._scope(user_id, agent_id)
        check_text(subject=subject if subject is not None else "", predicate=predicate)
        check_limit(limit)
        list_name = repr(("history", scope, subject, predicate))
        place = read_cursor(after, 2, list_name)
        known = self._long_term.facts.history(scope, subject, predicate)
        found = known if place is None else [fact for fact in known if _validity_key(fact) > place]
        return make_listing(found[:limit], len(found) > limit, _validity_key, list_name)

    def neighbours(
        self, entity: str, depth: int = 1, *, user_id: Id = None, agent_id: Id = None
    ) -> list[Neighbour]:
        """Return what something is connected with by active facts, nearest first; ``depth`` is at most 5."""
        scope = self._scope(user_id, agent_id)
        check_text(entity=entity if entity is not None else "")
        return neighbours(self._store, scope, entity, depth)


def _validity_key(fact: Fact) -> SortKey:
    return to_micros(fact.valid_from or fact.created_at), *sort_key(fact)
