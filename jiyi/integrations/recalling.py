"""Recalls for conversations that a framework or a client keeps, and saves them in the memory."""

import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import partial
from hashlib import sha256
from json import loads
from typing import Any

from jiyi.errors import DatabaseLocked
from jiyi.integrations.common import RAW, RecentEntries
from jiyi.manager import MemoryManager
from jiyi.records import Hit, Hits, Message, ReportItem, new_id
from jiyi.storage.store import read_pages

_MAX_COMPARED = 200  # newest messages of a session, and of a request, that are compared
_PAGE_SIZE = 10_000  # messages read at once
_QUERY_END_LENGTH = 4_000  # characters at either end of a question that are searched by
_LOCK_COUNT = 64
_MAX_CACHED_RUNS = 1_000  # questions whose recalled text is kept while a run goes on
_RECALLED_SECTIONS = ("skills", "profile", "knowledge", "episodes", "recalled")


@dataclass(frozen=True, slots=True)
class Owner:
    """A conversation and the user it belongs to."""

    memory: MemoryManager  # where it is saved
    user_id: str | None  # None: whom the memory was opened for
    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What the memory has for a question."""

    text: str = ""  # to be shown before the question; "" where there is nothing
    tokens: int = 0  # of the text
    why: tuple[ReportItem, ...] = ()  # the records in the text, each with its id and the reason
    nothing_relevant: float | None = None  # probability that the memory holds no answer
    notes: tuple[str, ...] = ()  # what went wrong

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the records in the text."""
        return tuple(dict.fromkeys(item.id for item in self.why))


class Recaller:
    """Recalls for conversations that somebody else keeps, and saves each of their messages once."""

    def __init__(self, *, tokens: int) -> None:
        self.tokens = tokens  # most that is recalled for a question
        self._recalled_by_run: RecentEntries[str, Recalled] = RecentEntries(_MAX_CACHED_RUNS)
        self._session_locks = [threading.Lock() for _ in range(_LOCK_COUNT)]

    def recall(self, owner: Owner, talk: Sequence[Message]) -> Recalled:
        """Return what the memory has for the user's newest message, without what ``talk`` itself contains.

        During a run of several tool calls the result stays the same for the same question.
        """
        asked_at = max((i for i, message in enumerate(talk) if message.role == "user"), default=None)
        if asked_at is None or not talk[asked_at].text.strip():
            return Recalled()
        run_id = hash_text(repr((owner.user_id, owner.session_id, _keys_of(talk[: asked_at + 1]))))
        recalled = self._recalled_by_run.get(run_id) if asked_at < len(talk) - 1 else None
        if recalled is None:
            recalled = self._search_memory(owner, talk, talk[asked_at].text)
            self._recalled_by_run.put(run_id, recalled)
        return recalled

    def save_new(self, owner: Owner, talk: Sequence[Message], reply: Sequence[Message], *, full: bool) -> int:
        """Save the new messages of a conversation, then the reply; return how many were saved.

        With ``full`` the talk is all that a client sends of the conversation, else only new messages.
        """
        with self._session_locks[hash((owner.user_id, owner.session_id)) % _LOCK_COUNT]:
            stored = _read_newest(owner)
            unsaved = _find_unsaved(stored, talk, full=full)
            last_keys = _keys_of(stored[-len(reply) or len(stored) :])
            if not unsaved and _keys_of(reply) == last_keys:
                return 0
            saved = [replace(message, id=new_id()) for message in (*unsaved, *reply)]
            owner.memory.save_messages(owner.session_id, saved, user_id=owner.user_id)
            return len(saved)

    def _search_memory(self, owner: Owner, talk: Sequence[Message], question: str) -> Recalled:
        if len(question) > 2 * _QUERY_END_LENGTH:
            question = f"{question[:_QUERY_END_LENGTH]}\n{question[-_QUERY_END_LENGTH:]}"
        stored, sent = _read_newest(owner), set(_keys_of(talk))
        pairs = zip(stored, _keys_of(stored), strict=True)
        # The window needs only the ids of messages in the request to leave them out.
        known = [Message(role="user", content="", id=message.id) for message, key in pairs if key in sent]
        counter = owner.memory.counter
        # A session of its own: the conversation itself and its summary are somebody else's.
        session = f"beside:{hash_text(owner.session_id)}"
        budget = self.tokens + counter.count_all([Message(role="user", content=question), *known])
        window = owner.memory.build_context(session, question, budget, scratch=known, user_id=owner.user_id)
        doubt, notes = window.report.nothing_relevant, window.report.notes
        included = tuple(item for item in window.report.included if item.section in _RECALLED_SECTIONS)
        messages = window.messages[: -1 - len(known)] if included else []
        text = "\n\n".join(str(message["content"]) for message in messages)
        tokens = counter.count(Message(role="user", content=text)) if text else 0
        return Recalled(text=text, tokens=tokens, why=included, nothing_relevant=doubt, notes=notes)


def _find_unsaved(stored: Sequence[Message], talk: Sequence[Message], *, full: bool) -> Sequence[Message]:
    """Return the end of ``talk`` that is not stored yet.

    Clients send the history again, and people edit it and ask again. So new messages begin after the
    last one that is stored, and with the model's last one at the earliest: forgotten messages of
    earlier turns do not come back.
    """
    stored_keys, sent_keys = _keys_of(stored), _keys_of(talk[-2 * _MAX_COMPARED :])
    if not full:  # a request that is sent again has nothing new
        return [] if stored_keys[-len(sent_keys) :] == sent_keys else talk
    answer_at = max((i for i, message in enumerate(talk) if message.role == "assistant"), default=-1)
    blocks = SequenceMatcher(None, stored_keys, sent_keys, autojunk=False).get_matching_blocks()
    matched_end = max((block.b + block.size for block in blocks if block.size), default=0)
    if matched_end:
        return talk[max(matched_end + len(talk) - len(sent_keys), answer_at) :]
    return talk[answer_at:] if answer_at >= 0 and talk[answer_at].tool_calls else talk[answer_at + 1 :]


def _read_newest(owner: Owner) -> list[Message]:
    return owner.memory.session_messages(owner.session_id, _MAX_COMPARED, user_id=owner.user_id)


def read_conversation(owner: Owner) -> list[Message]:
    """Return all messages of a conversation, oldest first."""
    verb = owner.memory.session_messages
    pages = list(read_pages(partial(verb, owner.session_id, _PAGE_SIZE, user_id=owner.user_id)))
    return [message for page in reversed(pages) for message in page]


def _keys_of(messages: Sequence[Message]) -> list[tuple[Any, ...]]:
    """Return for each message what identifies it when it is sent again."""
    calls = [tuple((call.name, call.arguments) for call in message.tool_calls) for message in messages]
    return [(m.role, m.text.strip(), c, m.tool_call_id) for m, c in zip(messages, calls, strict=True)]


def hash_text(text: str) -> str:
    """Return 24 hex digits of a text's SHA-256."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:24]


def describe_hit(hit: Hit, hits: Hits) -> dict[str, Any]:
    """Return what a framework gets about a hit besides its text, as JSON.

    ``relevance``, 0 to 1, is how likely it is an answer, ``nothing_relevant`` the probability that the memory
    holds none, ``why`` the share of each feature in its rank.
    """
    scope, date = hit.record.scope, hit.created_at
    return {
        "id": hit.id,
        "kind": hit.kind,
        "relevance": hit.relevance,
        "created_at": date.isoformat() if date else None,
        "session_id": scope.session_id if scope else None,
        "why": dict(hit.why),
        "nothing_relevant": hits.nothing_relevant,
    }


_SAVED_ID = re.compile("([0-9a-f]{24})[.]([0-9a-f]{24})")
_MAX_ATTEMPTS = 3  # if the process ends after these, the messages are lost
_MAX_CACHED_SESSIONS = 100  # conversations whose saved messages are known without reading them


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of a framework."""

    key: str  # the framework's id for it; stays when its content changes
    raw: str  # all of it as JSON
    message: Message  # its text and calls

    def to_message(self, record_id: str) -> Message:
        """Return the message to save, with all of it."""
        extra = {**self.message.extra, RAW: loads(self.raw, parse_constant=str)}
        return replace(self.message, id=record_id, extra=extra)


class Saver:
    """Saves conversations; each call gets a whole conversation, of which the new messages are saved.

    - A message is saved once, even if several processes do so at the same time.
    - A changed message replaces its former version, and one put between others is saved there.
    - Forgotten messages are not saved again: what was passed in once is no longer new, and in a new
      process neither is what comes before the newest saved message.
    """

    def __init__(self) -> None:
        self._saved_hashes = RecentEntries[tuple[str | None, str], dict[str, str]](_MAX_CACHED_SESSIONS)

    def save(self, owner: Owner, entries: Sequence[Entry]) -> None:
        """Save new and changed messages, all or nothing; try three times if the database is locked."""
        for _ in range(_MAX_ATTEMPTS - 1):
            with suppress(DatabaseLocked):
                return self._save(owner, entries)
        return self._save(owner, entries)

    def _save(self, owner: Owner, entries: Sequence[Entry]) -> None:
        session = (owner.user_id, owner.session_id)
        by_id = {hash_text(f"{owner.session_id}\n{entry.key}"): entry for entry in entries}
        hashes = {id_: hash_text(entry.raw) for id_, entry in by_id.items()}
        saved = self._saved_hashes.get(session)
        if saved is None:
            saved = dict(_parse_record_id(message.id) for message in read_conversation(owner))
            newest = max((i for i, id_ in enumerate(hashes) if id_ in saved), default=-1)
            saved = {id_: hash_ for i, (id_, hash_) in enumerate(hashes.items()) if i <= newest} | saved
        changed = [id_ for id_, hash_ in hashes.items() if saved.get(id_) != hash_]
        messages = {id_: by_id[id_].to_message(f"{id_}.{hashes[id_]}") for id_ in changed}
        if any(id_ in saved for id_ in changed) or changed != list(hashes)[len(hashes) - len(changed) :]:
            self._replace(owner, list(by_id), messages)
        elif changed:
            owner.memory.save_messages(owner.session_id, list(messages.values()), user_id=owner.user_id)
        self._saved_hashes.put(session, saved | hashes)

    def _replace(self, owner: Owner, entry_ids: Sequence[str], changed: Mapping[str, Message]) -> None:
        """Write changed messages where they were, and new ones after their predecessors."""

        def rewrite() -> None:
            stored = {_parse_record_id(message.id)[0]: message for message in read_conversation(owner)}
            order = list(stored)
            previous: str | None = None
            for entry_id in entry_ids:
                if entry_id in changed and entry_id not in stored:
                    order.insert(0 if previous is None else order.index(previous) + 1, entry_id)
                if entry_id in changed or entry_id in stored:
                    previous = entry_id
            messages = [changed.get(entry_id) or stored[entry_id] for entry_id in order]
            owner.memory.replace_messages(owner.session_id, messages, user_id=owner.user_id)

        # One transaction, so that what another process saves meanwhile stays.
        owner.memory.parts.store.together(rewrite, repeatable=True)


def _parse_record_id(record_id: str) -> tuple[str, str]:
    """Return the hashes of the entry's key and of its content from a record's id."""
    match = _SAVED_ID.fullmatch(record_id)
    return (match[1], match[2]) if match else (record_id, "")
