"""Verbs about conversations: save, list, import."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

from jiyi.clock import Moment, read_moment
from jiyi.errors import BadMessage, DuplicateId
from jiyi.extraction import extract
from jiyi.importers.mem0_client import Mem0Client
from jiyi.importers.run import import_path, is_remote_source
from jiyi.long_term.finding import newest_messages
from jiyi.long_term.recall.asked_point import find_asked_point
from jiyi.long_term.recall.question import parse_question
from jiyi.records import ContentPart, Given, Message, Role, Scope, Session, as_mapping, check_metadata
from jiyi.records.query import Listing, check_limit
from jiyi.storage import ImportReceipt
from jiyi.storage.store import all_messages
from jiyi.text import TokenCounter, analyse, secrets
from jiyi.text.lexicon import read_toml
from jiyi.text.suspicious import suspicious
from jiyi.verbs.base import Verbs
from jiyi.verbs.checks import Filters, Id, as_path, check_flags

_PAGE_SIZE = 1_000  # messages read at once
_LETTERS = {"en": re.compile("[A-Za-z]"), "zh": re.compile("[\u4e00-\u9fff]")}


class MessageVerbs(Verbs):
    """Save what is said, list it, import it from files."""

    def save_message(
        self,
        session_id: str,
        message: Given | Message | None = None,
        *,
        role: Role | None = None,
        content: str | Sequence[ContentPart] | None = None,
        name: str | None = None,
        id: str | None = None,
        created_at: Moment | None = None,
        importance: float | None = None,
        pinned: bool | None = None,
        metadata: Mapping[str, Any] | None = None,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Message:
        """Save one message and return it as stored.

        When this returns the message is on disk and can be found by its words; its vector follows in the
        background. Saving the same message under the same id again changes nothing.

        Args:
            message: an OpenAI Chat Completions dict, an object with ``model_dump`` such as
                ``completion.choices[0].message``, or a `Message`. A dict may have ``id``, ``created_at`` (or
                ``timestamp``) and ``metadata``; the arguments below win. Other keys the API does not know are
                kept and never sent.
            role, content, name: instead of ``message``; ``name`` is the speaker where several people talk.
            id: unique within the user; generated if not given.
            created_at: an aware datetime, an ISO 8601 string with a zone, or seconds since 1970; now by
                default.
            importance: 0..1, if it was judged.
            pinned: never leaves the window.
            metadata: labels such as ``{"channel": "slack"}``, at most 16,384 bytes as JSON: kept with the
                message, found by ``filters={"metadata": {...}}``, never sent.

        Raises:
            BadMessage: not a Chat Completions message, or metadata that cannot be kept.
            NaiveDatetime: the date has no time zone.
            DuplicateId: the id is taken by a different message.
            StorageError: the database cannot take it; nothing was written.
        """
        if (message is None) == (role is None):
            raise BadMessage("give either a message dict or role= and content=")
        if message is not None and (content, name) != (None, None):
            raise BadMessage("content= and name= go with role=; a message dict carries its own")
        named = {} if name is None else {"name": name}
        given = message if message is not None else {"role": role, "content": content, **named}
        scope = self._scope(user_id, agent_id, session_id)
        fields = {"id": id, "created_at": created_at, "importance": importance, "pinned": pinned}
        return self._save(scope, [self._prepare_message(scope, given, metadata, **fields)])[0]

    def save_messages(
        self, session_id: str, messages: Iterable[Given | Message], *, user_id: Id = None, agent_id: Id = None
    ) -> list[Message]:
        """Save several messages, each as `save_message` takes it, in one transaction: all or none."""
        scope = self._scope(user_id, agent_id, session_id)
        return self._save(scope, [message for _, message in self._prepare_messages(scope, messages)])

    def pop_message(self, session_id: str, *, user_id: Id = None, agent_id: Id = None) -> Message | None:
        """Remove the newest message of a conversation and return it; None if there is none."""
        return next(iter(self.pop_messages(session_id, 1, user_id=user_id, agent_id=agent_id)), None)

    def pop_messages(
        self, session_id: str, limit: int = 1, *, user_id: Id = None, agent_id: Id = None
    ) -> list[Message]:
        """Remove the newest messages of a conversation, at most 10,000, and return them, oldest first.

        What was derived from them alone goes too, as in `forget`, and `restore` brings it back. A tool call
        that loses its result stays; windows leave it out.
        """
        scope = self._scope(user_id, agent_id, session_id)

        def pop() -> list[Message]:
            found = newest_messages(self._store, scope, limit)
            self._remove_messages(scope, found, "popped")
            return found

        return self._indexed(self._store.together(pop))

    def replace_messages(
        self, session_id: str, messages: Iterable[Given | Message], *, user_id: Id = None, agent_id: Id = None
    ) -> list[Message]:
        """Make a conversation exactly these messages, in one transaction; return it as stored.

        Messages that match from the start stay as they are, with their ids and what was learned from them.
        One matches if it says the same; an id or metadata given with it must be the same too. From the first
        difference on, the old ones are forgotten as by `pop_messages` and the new ones saved as by
        `save_messages`. Without messages the conversation is removed. With an agent only its messages are
        compared.

        Raises:
            BadMessage, NaiveDatetime: one of them cannot be saved; nothing was changed.
            DuplicateId: an id is taken by a message that stays; nothing was changed.
        """
        scope = self._scope(user_id, agent_id, session_id)
        given = self._prepare_messages(scope, messages)

        def replaced() -> list[Message]:
            there = list(all_messages(self._store, scope, _PAGE_SIZE))
            pairs = zip(there, given, strict=False)
            same = len(list(takewhile(lambda pair: _is_same_message(pair[0], *pair[1]), pairs)))
            new = [message for _, message in given[same:]]
            counts = Counter(message.id for message in [*there[:same], *new])
            if twice := [id_ for id_, count in counts.items() if count > 1]:
                raise DuplicateId(f"two of the messages have the id {twice[0]!r}; leave one of the ids out")
            self._remove_messages(scope, there[same:], "replaced")
            return there[:same] + self._store_messages(new)

        # Repeatable because the messages have their ids: saving them again changes nothing.
        return self._indexed(self._store.together(replaced, repeatable=True))

    def _remove_messages(self, scope: Scope, messages: Sequence[Message], reason: str) -> None:
        if messages:
            ids = [message.id for message in messages]
            self._long_term.forgetting.forget(scope, ids=ids, reason=reason, at=self._clock(), alone=True)

    def recent_messages(
        self, session_id: str, limit: int | None = None, *, user_id: Id = None, agent_id: Id = None
    ) -> list[Message]:
        """Return what the session keeps in its window, oldest first; with ``limit`` the newest of these."""
        if limit is not None:
            check_limit(limit)
        messages = self._short_term.messages(self._scope(user_id, agent_id, session_id))
        return messages if limit is None else messages[max(len(messages) - limit, 0) :]

    def session_messages(
        self,
        session_id: str,
        limit: int = 10_000,
        *,
        filters: Filters = None,
        after: str | None = None,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Listing[Message]:
        """Return the newest ``limit`` messages of a conversation as stored, oldest first.

        ``filters`` narrow as in `search`. ``after`` is the `next` of a page and brings older ones, again
        oldest first. Raises `BadQuery`: a limit outside 1..10,000, an impossible filter, a cursor of another
        list.
        """
        scope = self._scope(user_id, agent_id, session_id)
        found: Listing[Message] = self._list_page("message", scope, limit, after, filters)
        found.reverse()
        return found

    def sessions(
        self, limit: int = 100, *, after: str | None = None, user_id: Id = None, agent_id: Id = None
    ) -> Listing[Session]:
        """Return the user's conversations, the most recently started first.

        ``after`` is the `next` of the previous page. Each conversation that exists throughout comes once,
        whatever is said or forgotten meanwhile, unless its first message changes. Raises `BadQuery` as
        `session_messages`.
        """
        return self._list_page("session", self._scope(user_id, agent_id), limit, after)

    def import_(
        self,
        path: str | Path | Mem0Client,
        *,
        session_id: Id = None,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> ImportReceipt:
        """Import what `export` wrote, conversations, or what another program keeps; see `import_path`.

        Bad lines are reported in the receipt, the rest is imported; importing again adds no duplicates.
        ``progress`` gets the number of entries so far. With ``dry_run`` they are only counted. A file that
        cannot be read at all raises `ImportFailed`; a failure of mem0's API on the way `ServerError`.
        """
        check_flags(dry_run=dry_run)
        receipt = import_path(
            self._store,
            path if is_remote_source(path) else as_path(path),
            self._scope(user_id, agent_id),
            zone=self._settings.zone,
            session_id=session_id,
            prepare=self._date_and_count,
            learn=self._learn,
            progress=progress,
            dry_run=dry_run,
        )
        return self._indexed(receipt)

    def _prepare_message(
        self, scope: Scope, given: Given | Message, metadata: Mapping[str, Any] | None = None, **fields: Any
    ) -> Message:
        chosen = {name: value for name, value in fields.items() if value is not None}
        body = {} if isinstance(given, Message) else dict(as_mapping(given))
        for name in ("id", "created_at", "timestamp"):
            if (carried := body.pop(name, None)) is not None:
                chosen.setdefault("id" if name == "id" else "created_at", carried)
        if "created_at" in chosen:
            chosen["created_at"] = read_moment(chosen["created_at"])
        chosen |= {"scope": scope, "tokens": None}  # a caller's count may be of another text
        if isinstance(given, Message):
            message = replace(given, **chosen)
        else:
            message = Message.from_openai(body, **chosen)
        if message.content is None and message.role in ("system", "user"):
            raise BadMessage(f"a {message.role} message needs content: text or a list of parts")
        metadata = message.extra.get("metadata") if metadata is None else metadata
        if metadata is not None:
            message = replace(message, extra={**message.extra, "metadata": check_metadata(metadata)})
        return self._date_and_count(message)

    def _prepare_messages(self, scope: Scope, given: Iterable[Given | Message]) -> list[tuple[Any, Message]]:
        if isinstance(given, str | Mapping):
            raise BadMessage(f"messages is a list of messages, not {type(given).__name__}")
        return [(message, self._prepare_message(scope, message)) for message in given]

    def _date_and_count(self, message: Message) -> Message:
        dated = message if message.created_at else replace(message, created_at=self._clock())
        return self._counter.counted(dated)

    def _learn(self, stored: Sequence[Message]) -> None:
        if self._settings.learn_facts:
            self._long_term.facts.learn(stored)

    def _store_messages(self, messages: Sequence[Message]) -> list[Message]:
        stored = cast("list[Message]", self._store.put(messages))
        self._learn(stored)
        return stored

    def _save(self, scope: Scope, messages: Sequence[Message]) -> list[Message]:
        for name, letter in _LETTERS.items():
            if any(letter.search(message.text) for message in messages):
                _load_language(name)
        # Repeatable because messages have their ids, and facts already read are recognised.
        stored = self._indexed(self._store.together(lambda: self._store_messages(messages), repeatable=True))
        for message in stored:  # the monitor compares answers with the session's last window
            if self._monitor is not None and message.role == "assistant" and message.text.strip():
                self._monitor.reply(scope.session_id or "", message.text, user_id=scope.user_id)
        return stored


@cache
def _load_language(name: str) -> None:
    """Read samples of a language for facts, so that no write loads dictionaries while others wait for it."""
    for text in read_toml("jiyi.verbs", "samples")[name]:
        analyse(text)
        extract(text, speaker=None, role="user", said_at=datetime.now(UTC), zone=UTC)


def warm_up(counter: TokenCounter) -> None:
    """Load what reads, finds and shows texts, some two seconds of work, before the first ones come."""
    for name, text in (("en", "Where is it?"), ("zh", "在哪里？")):
        _load_language(name)
        parse_question(text, datetime.now(UTC))
        for load in (find_asked_point, secrets, suspicious, counter.count_text):
            load(text)


def _is_same_message(stored: Message, given: Given | Message, message: Message) -> bool:
    """Say whether a message is already stored; id and metadata are compared only if given."""
    has_id = isinstance(given, Message) or as_mapping(given).get("id") is not None
    if has_id and message.id != stored.id:
        return False
    new, old = message.to_dict(), stored.to_dict()
    if "metadata" not in new:
        old.pop("metadata", None)
    return new in (old, stored.to_openai())
