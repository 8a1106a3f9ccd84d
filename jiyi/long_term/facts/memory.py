"""The memory of facts: what is known, since when, from whom, and what it replaced."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Any, cast

from jiyi.clock import Clock, aware, to_micros, utc_now
from jiyi.errors import BadQuery, InputError
from jiyi.extraction import Reading, Statement, extract, extract_message, extract_with, read_by_llm
from jiyi.llm import LLM
from jiyi.long_term.facts import lookup
from jiyi.long_term.facts.lookup import facts_mentioned, find_facts, find_names, user_scope
from jiyi.long_term.facts.merge import Learned, combine, merge
from jiyi.long_term.facts.slots import NOTE, Names
from jiyi.long_term.facts.succession import Succession, facts_to_restore
from jiyi.long_term.facts.timeline import facts_holding, start_of
from jiyi.long_term.finding import find_by_ids, newest_messages
from jiyi.records import (
    Condition,
    Fact,
    FactCategory,
    FactMethod,
    FactStatus,
    Filter,
    Message,
    Scope,
    check_metadata,
    matches,
)
from jiyi.storage import Store
from jiyi.text import analyse
from jiyi.text.keys import predicate_key

__all__ = ["FactMemory"]

_MAX_FACTS = 10_000
# edge-02, db.main, web1
_IDENTIFIER = re.compile(r"[A-Za-z0-9]{1,60}(?:[-_.:/][A-Za-z0-9]+)+|[A-Za-z]{1,60}\d+")
_MAX_CHARS = 1_000_000  # of a text to remember
_SHORT = 200  # of a message that may answer the previous ones
_CONTEXT_MESSAGES = 3  # messages before it
_CALLER_CONFIDENCE = 0.9  # in what the caller states


@dataclass(frozen=True, slots=True)
class FactMemory:
    """Learns facts from messages and answers what holds now, and what held when.

    Facts of one user (and agent) are compared across sessions; a fact keeps the session it was
    first said in. Every change, including its reads, is one transaction of the store, so that
    processes that learn at the same time have the same result as one after the other.
    """

    store: Store  # of facts and messages
    _: KW_ONLY
    succession: Succession | None = None  # finds replaced facts that name their point differently
    llm: LLM | None = None  # for `learn_with_llm`
    clock: Clock = utc_now
    zone: tzinfo = UTC  # of the days of the calendar

    def learn(self, messages: Sequence[Message]) -> Learned:
        """Read stored messages without a model and keep their facts; joins a running transaction.

        Takes well under a millisecond if nothing is stated. Reading a message again changes
        nothing; the order of messages does not matter.
        """
        read = self.stated(messages).items()
        return combine([self._keep(scope, found, "patterns") for scope, found in read])

    def stated(self, messages: Sequence[Message]) -> dict[Scope, list[Statement]]:
        """Return the statements that `learn` reads in messages, by scope; nothing is kept."""
        read: dict[Scope, list[Statement]] = {}
        for place, message in enumerate(messages):
            if message.scope is None or message.created_at is None:
                continue
            dated, context = lookup.clamp_to_now(message, self.clock()), self._context_of(messages, place)
            if found := extract_message(dated, self.zone, context):
                read.setdefault(message.scope, []).extend(found)
        return read

    def learn_with_llm(self, scope: Scope, messages: Sequence[Message]) -> Learned:
        """Read messages of a conversation with the language model and keep their facts.

        Without a model, or if it fails, they are read without one; the receipt says which way
        was used and why. The model is called outside of any transaction.
        """
        known = facts_mentioned(self.store, scope, messages) if self.llm else []
        return self.keep(messages, extract_with(self.llm, messages, known=known, zone=self.zone))

    def read(self, llm: LLM, messages: Sequence[Message], before: Sequence[Message] = ()) -> Reading:
        """Return the statements of consecutive messages, read by a model, oldest first; nothing is kept.

        Raises:
            LLMError: the model gave no usable answer.
        """
        scope = messages[0].scope
        assert scope is not None, "stored messages have a scope"
        known = facts_mentioned(self.store, scope, messages)
        return read_by_llm(llm, messages, known=known, before=before, zone=self.zone)

    def keep(self, messages: Sequence[Message], reading: Reading) -> Learned:
        """Keep what was read in stored messages, each statement in the scope of its message.

        Statements from a message that was forgotten or changed meanwhile are not kept. Joins a
        running transaction.
        """
        scopes = {message.id: message.scope for message in messages}

        def keep() -> list[Learned]:
            found: dict[Scope, list[Statement]] = {}
            there = self._unchanged_sources(messages, reading.statements)
            for statement in reading.statements:
                scope = scopes.get(statement.source)
                if scope is not None and {statement.source, statement.replies_to} <= {"", *there}:
                    found.setdefault(scope, []).append(statement)
            return [self._keep(scope, said, reading.method) for scope, said in found.items()]

        return combine(self.store.together(keep), method=reading.method, notes=reading.notes)

    def _unchanged_sources(self, read: Iterable[Message], statements: Iterable[Statement]) -> set[str]:
        """Return the ids of the source messages of statements whose text is still the same."""
        texts = {message.id: message.text for message in read}
        user = next((message.scope.user_id for message in read if message.scope), None)
        ids = {id_ for one in statements for id_ in (one.source, one.replies_to) if id_}
        if user is None or not ids:
            return set()
        stored = self.store.find_by_keys(user, [("message", id_) for id_ in ids]).values()
        return {
            one.id for one in cast("Iterable[Message]", stored) if texts.get(one.id, one.text) == one.text
        }

    def remember(
        self,
        scope: Scope,
        text: str | None = None,
        *,
        subject: str | None = None,
        predicate: str | None = None,
        object: str | None = None,
        category: FactCategory | None = None,
        speaker: str | None = None,
        valid_from: datetime | None = None,
        valid_to: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Learned:
        """Keep what the caller states; arguments and errors are those of `FactVerbs.remember`.

        A text is read without a model. Unless one fact read from it has all of its words, the
        whole text is kept as well, as a note about the speaker, so that nothing is lost.
        ``Learned.kept`` is the id of the fact that has it all. ``metadata`` is kept with every fact
        that is new or said again; new values replace those of the same keys.
        """
        now = self.clock()
        begins = aware(valid_from, "valid_from") if valid_from else None
        ends = aware(valid_to, "valid_to") if valid_to else None
        if begins and ends and begins >= ends:
            raise BadQuery(f"valid_from={begins} must lie before valid_to={ends}")
        who = speaker or "user"
        parts = (subject, predicate, object)
        if text is not None and text.strip() and not any(parts):
            words, found = text.strip(), self.read_text(text, who, now, only_rules=category == "rule")
        elif text is None and all(part and part.strip() for part in parts):
            words = " ".join(map(str, parts))
            found = [
                Statement(subject=str(subject), predicate=str(predicate), object=str(object), said_at=now)
            ]
        else:
            raise BadQuery("remember a text, or subject=, predicate= and object= together")
        if len(words) > _MAX_CHARS:
            raise BadQuery(f"{len(words):,} characters are too many for a fact; save_message takes them")
        kind = "rule" if category == "rule" else NOTE
        note = Statement(category="note", subject=who, predicate=kind, object=words, quote=words, said_at=now)
        named = {"category": category, "valid_from": begins, "valid_to": ends}
        given = {name: value for name, value in named.items() if value is not None}
        changed = cast("Mapping[str, Any]", {**given, "speaker": who, "confidence": _CALLER_CONFIDENCE})
        read = [replace(statement, **changed) for statement in found]
        labels = {} if metadata is None else check_metadata(metadata, InputError)
        return self.store.together(
            lambda: self._add_metadata(scope, self._keep_text(scope, read, replace(note, **changed)), labels)
        )

    def _add_metadata(self, scope: Scope, learned: Learned, labels: Mapping[str, Any]) -> Learned:
        if not labels:
            return learned
        said = {*learned.new, *learned.reinforced, learned.kept or ""}
        facts: Iterable[Fact] = find_by_ids(self.store, user_scope(scope), "fact", said)
        changed = {fact.id: replace(fact, metadata={**fact.metadata, **labels}) for fact in facts}
        self.store.put(list(changed.values()))
        return replace(learned, facts=tuple(changed.get(fact.id, fact) for fact in learned.facts))

    def _keep_text(self, scope: Scope, read: Sequence[Statement], note: Statement) -> Learned:
        """Keep what was read, and the whole text unless one fact has all of its words."""
        learned = self._keep(scope, read, "said")
        ids = (*learned.new, *learned.reinforced)
        for fact in find_by_ids(self.store, user_scope(scope), "fact", ids):
            # The words alone do not tell Hunter2 from hunter2.
            if fact.object in note.object and set(analyse(note.object)) <= set(analyse(fact.search_text)):
                return replace(learned, kept=fact.id)
        noted = self._keep(scope, [note], "said")
        return combine([learned, noted], method="said", kept=(*noted.new, *noted.reinforced)[0])

    def facts(
        self,
        scope: Scope,
        subject: str | None = None,
        *,
        as_of: datetime | None = None,
        status: FactStatus | Sequence[FactStatus] | None = None,
        where: Filter | None = None,
        limit: int = 100,
        before: tuple[int, str] | None = None,
    ) -> list[Fact]:
        """Return what is known, oldest first, the newest ``limit`` of it.

        Without ``as_of`` and ``status``: active facts, including plans and what begins later.
        With ``as_of``: what held at that moment, one fact for each point (see `facts_holding`).

        Args:
            scope: whose; with a session only what was first said there.
            subject: only facts about this, by any of its names; if nothing is known by
                these, by the identifiers in it ("the edge-02 gateway": edge-02).
            status: only facts in this state, or one of these.
            where: only facts that meet this filter; with ``as_of``, of what held then.
            before: only what was said before these microseconds since 1970, or then under a smaller id.
        """
        names, _ = find_names(self.store, scope)
        states = "active" if status is None and as_of is None else status
        statuses = (states,) if isinstance(states, str) else states if states is None else tuple(states)
        if as_of is None:
            part = {"where": where, "after": before, "limit": min(limit, _MAX_FACTS)}
            found = self._facts_about(scope, names, subject, fact_status=statuses, **part)
        else:  # what holds is known when all are; a filter would hide what took the place of others
            found = self._facts_about(scope, names, subject, as_of=as_of, fact_status=statuses)
            held = facts_holding(found, aware(as_of, "as_of"), names)
            found = [fact for fact in held if where is None or matches(fact, where)]
        known = sorted(found, key=_sort_key)
        return [fact for fact in known if before is None or _sort_key(fact) < before][-limit:]

    def history(self, scope: Scope, subject: str, predicate: str | None = None) -> list[Fact]:
        """Return everything ever known about something, oldest first, whatever its status.

        Statuses and links (``supersedes``, ``superseded_by``) say what replaced what.
        """
        names, _ = find_names(self.store, scope)
        found = self._facts_about(scope, names, subject)
        if predicate is not None:
            key = predicate_key(predicate)
            found = [fact for fact in found if predicate_key(fact.predicate) == key]
        return sorted(found, key=lambda fact: (start_of(fact), fact.created_at, fact.id))

    def expire(self, scope: Scope, now: datetime | None = None) -> int:
        """End the facts that are over by ``now``, as expired or superseded; return how many."""
        at = aware(now, "now") if now else self.clock()
        return self.store.together(lambda: self._expire(scope, at))

    def _expire(self, scope: Scope, at: datetime) -> int:
        ended = 0
        over: dict[str, Any] = {"fact_status": ("active",), "where": Condition("valid_to", "lte", (at,))}
        while page := find_facts(self.store, scope, newest_first=False, limit=_MAX_FACTS, **over):
            self.store.put(
                [replace(one, status="superseded" if one.superseded_by else "expired") for one in page]
            )
            ended += len(page)
        return ended

    def _context_of(self, messages: Sequence[Message], place: int) -> list[str]:
        """Return the previous texts that a short message may answer, oldest first; none for a long one."""
        message = messages[place]
        if message.scope is None or message.role != "user" or len(message.text) > _SHORT:
            return []
        previous = messages[max(0, place - _CONTEXT_MESSAGES) : place]
        texts = [one.text for one in previous if one.scope == message.scope]
        if texts or message.seq is None:
            return texts
        found = newest_messages(self.store, message.scope, _CONTEXT_MESSAGES + 1, until=message.created_at)
        return [one.text for one in found if one.id != message.id and (one.seq or 0) < message.seq]

    def read_text(self, text: str, who: str, now: datetime, *, only_rules: bool = False) -> list[Statement]:
        """Return the statements of a text about a named point; nothing is kept."""
        found = extract(text, speaker=who, role="user", said_at=now, zone=self.zone)
        wanted = [one for one in found if one.category == "rule"] if only_rules else found
        return [statement for statement in wanted if statement.subject and statement.predicate]

    def _keep(self, scope: Scope, statements: Sequence[Statement], method: FactMethod) -> Learned:
        if not statements:
            return Learned(method=method)
        ordered = sorted(statements, key=lambda statement: statement.said_at)

        def keep() -> Learned:
            known = lookup.facts_to_merge(self.store, scope, ordered)
            said = lookup.source_times(self.store, scope, known)
            learned = merge(ordered, known, self.clock(), scope=scope, method=method, said=said, part=True)
            if learned.facts:
                self.store.put([*learned.facts, *facts_to_restore(self.store, scope, learned.facts)])
                if self.succession:
                    self.succession.note(scope, learned.new)
            return learned

        return self.store.together(keep)

    def _facts_about(self, scope: Scope, names: Names, subject: str | None, **narrowed: Any) -> list[Fact]:
        """Return the facts about something, else about the identifiers in its name."""

        def find(subjects: Iterable[str | None], **more: Any) -> list[Fact]:
            part = {"limit": _MAX_FACTS, **narrowed, **more}
            facts = (f for name in subjects for f in find_facts(self.store, scope, subject=name, **part))
            return list({fact.id: fact for fact in facts}.values())

        if subject is None:
            return find([None])
        own_names = names.of(subject)
        if (found := find(own_names)) or (narrowed.get("after") and find(own_names, after=None)):
            return found
        parts = _IDENTIFIER.findall(subject)
        return find(dict.fromkeys(name for part in parts for name in names.of(part)))


def _sort_key(fact: Fact) -> tuple[int, str]:
    return to_micros(fact.created_at), fact.id
