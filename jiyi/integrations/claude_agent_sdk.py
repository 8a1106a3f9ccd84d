"""Claude Agent SDK: a session store that makes transcripts conversations of the memory.

``pip install "jiyi[claude-agent-sdk]"``, then
``ClaudeAgentOptions(session_store=JiyiSessionStore(memory))``.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from jiyi.clock import read_moment
from jiyi.errors import InputError
from jiyi.importers.claude_code import parse_turn
from jiyi.integrations.common import build_message, finish, raw_of, read_all, require_framework
from jiyi.integrations.recalling import Owner, hash_text, read_conversation
from jiyi.long_term import ForgetReceipt
from jiyi.manager import MemoryManager
from jiyi.records import Message, Scope, as_mapping, labels_in, path_of

__all__ = ["JiyiSessionStore", "conversation_of"]

_Entry = dict[str, Any]
_Key = Mapping[str, Any]

_OURS = "claude:"  # begins the ids of our conversations
_SUMMARY = "summary"  # the field of a batch's last message with the SDK's summary up to there
_WORDLESS = {"role": "assistant", "content": ""}
_PIECE = 1_000  # ids looked for at once
_MOST = 10_000


def conversation_of(key: _Key) -> str:
    """Return the session id in the memory of a transcript of the SDK, or of one of its subagents.

    Raises:
        InputError: the key lacks its project or session, or has an empty subpath.
    """
    parts = [key.get(name) for name in ("project_key", "session_id", "subpath") if name in key]
    if len(parts) < 2 or not all(isinstance(part, str) and part for part in parts):
        raise InputError("a key has project_key and session_id, and a subpath or none, each non-empty text")
    project, session, *subpath = map(str, parts)
    return _OURS + path_of((project, session)) + "".join(subpath)


@dataclass(eq=False, repr=False)
class JiyiSessionStore:
    """A session store of the Claude Agent SDK; each transcript is a conversation of the memory.

    - What user and assistant said and what tools gave is found by `search`, read for facts and recalled
      in other sessions. Of the program's own lines, of commands at the prompt and of thoughts only the
      line itself is kept.
    - Entries come back deep-equal, in the order they were appended; one whose ``uuid`` is there already
      is not added again. A batch is written whole or not at all.
    - A subagent's transcript is a conversation of its own. Its prompt is the agent's, not the user's:
      it says nothing about the user.
    - `delete` forgets a session with its subagents' and with everything derived; `restore` brings it back.

    Use it with asyncio.
    """

    memory: MemoryManager  # where transcripts are kept; it stays open
    _: KW_ONLY
    user_id: str | None = None  # whose they are; by default whom the memory was opened for
    last_receipts: list[ForgetReceipt] = field(default_factory=list, init=False)
    """Of the newest `delete`, one for each transcript."""

    async def append(self, key: _Key, entries: Sequence[_Entry]) -> None:
        """Add entries to a transcript, all or none.

        Raises:
            InputError: the key is none, or an entry is no dict of JSON.
            MissingExtra: the SDK, which summarises sessions, is not installed.
        """
        conversation = conversation_of(key)
        groups: dict[str, list[Message]] = {}
        for entry in entries:
            messages = _messages(conversation, dict(as_mapping(entry)), "subpath" in key)
            groups.setdefault(messages[0].id, messages)
        await finish(asyncio.to_thread(self._append, dict(key), conversation, list(groups.values())))

    async def load(self, key: _Key) -> list[_Entry] | None:
        """Return a transcript's entries; None where there is none."""
        owner = Owner(self.memory, self.user_id, conversation_of(key))
        stored = await asyncio.to_thread(read_conversation, owner)
        entries = [raw for raw in map(raw_of, stored) if raw is not None]
        return entries or None

    async def list_sessions(self, project_key: str) -> list[dict[str, Any]]:
        """Return id and ``mtime``, milliseconds since 1970, of a project's sessions."""
        found = await asyncio.to_thread(self._summaries, project_key)
        return [{"session_id": one["session_id"], "mtime": one["mtime"]} for one in found]

    async def list_session_summaries(self, project_key: str) -> list[dict[str, Any]]:
        """Return what the SDK wants to know of a project's sessions without loading them."""
        found = await asyncio.to_thread(self._summaries, project_key)
        return [one for one in found if "data" in one]

    async def delete(self, key: _Key) -> None:
        """Forget a session with its subagents', or one of these, with everything derived from them."""
        deleting = asyncio.to_thread(self._delete, conversation_of(key), "subpath" not in key)
        self.last_receipts = await finish(deleting)

    async def list_subkeys(self, key: _Key) -> list[str]:
        """Return the subpaths that a session has."""
        main = conversation_of({name: key.get(name) for name in ("project_key", "session_id")})
        found = await asyncio.to_thread(lambda: list(self._below(main)))
        return [one.removeprefix(main) for one in found if one != main]

    def _append(self, key: _Key, conversation: str, groups: Sequence[list[Message]]) -> None:
        parts = self.memory.parts

        def append() -> None:
            there = self._known(conversation, [group[0].id for group in groups])
            new = [group for group in groups if group[0].id not in there]
            messages = [message for group in new for message in group]
            if messages and "subpath" not in key:
                summary = self._folded(key, conversation, [raw_of(group[0]) for group in new])
                last = messages[-1]
                messages[-1] = replace(last, extra={**last.extra, _SUMMARY: summary})
            if messages:
                self.memory.save_messages(conversation, messages, user_id=self.user_id)

        try:
            parts.store.together(append)
        except BaseException:  # windows in memory may hold what was undone
            parts.short_term.drop(Scope(user_id=self.user_id or parts.settings.user_id or "nobody"))
            raise
        finally:
            parts.long_term.indexer.notify()

    def _known(self, conversation: str, ids: Sequence[str]) -> set[str]:
        """Return which messages are there."""
        found: set[str] = set()
        for start in range(0, len(ids), _PIECE):
            asked = {"id": ids[start : start + _PIECE]}
            there = self.memory.session_messages(conversation, filters=asked, user_id=self.user_id)
            found.update(message.id for message in there)
        return found

    def _folded(self, key: _Key, conversation: str, entries: list[_Entry]) -> dict[str, Any]:
        """Return a session's summary with new entries in it."""
        with require_framework("the Claude Agent SDK", "claude-agent-sdk"):
            from claude_agent_sdk import fold_session_summary
        before = self._summary(conversation)
        now = int(self.memory.parts.clock().timestamp() * 1_000)
        mtime = max(now, before["mtime"] + 1) if before else now
        known = {"session_id": key["session_id"], **before} if before and "data" in before else None
        fold: Callable[..., Any] = fold_session_summary
        return {"mtime": mtime, "data": fold(known, key, entries)["data"]}

    def _summary(self, conversation: str) -> dict[str, Any] | None:
        """Return the summary that goes up to a conversation's end, or only when it was last written to."""
        for newest in self.memory.session_messages(conversation, 1, user_id=self.user_id):
            said_at = newest.created_at
            found: dict[str, Any] | None = newest.to_dict().get(_SUMMARY)
            return found or {"mtime": int(said_at.timestamp() * 1_000) if said_at else 0}
        return None

    def _summaries(self, project_key: str) -> list[dict[str, Any]]:
        prefix = _OURS + path_of((project_key,))
        rests = (one.removeprefix(prefix) for one in self._below(prefix))
        mains = [rest for rest in rests if rest.endswith("/") and rest.count("/") == 1]
        found = [(labels_in(rest)[0], self._summary(prefix + rest)) for rest in mains]
        return [{"session_id": session, **summary} for session, summary in found if summary]

    def _delete(self, conversation: str, with_subagents: bool) -> list[ForgetReceipt]:
        forget = partial(self.memory.forget, reason="deleted", user_id=self.user_id)

        def deleted() -> list[ForgetReceipt]:
            these = list(self._below(conversation)) if with_subagents else [conversation]
            return [forget(session_id=one) for one in these]

        return self.memory.parts.store.together(deleted, repeatable=True)

    def _below(self, prefix: str) -> Iterator[str]:
        """Give the ids of the conversations that begin so."""
        found = read_all(lambda after: self.memory.sessions(_MOST, after=after, user_id=self.user_id))
        return (session.id for session in found if session.id.startswith(prefix))


def _messages(conversation: str, raw: _Entry, agents: bool) -> list[Message]:
    """Return the messages that an entry is: one without words where it says nothing to anybody."""
    date = _moment(raw.get("timestamp"))
    try:
        first, *rest = _bodies(raw, agents) or [_WORDLESS]
        messages = [
            build_message(raw, first, created_at=date),
            *(build_message(None, one, created_at=date) for one in rest),
        ]
    except InputError:  # words in a form unknown here, such as a result without its call's id
        messages = [build_message(raw, _WORDLESS, created_at=date)]
    uuid = raw.get("uuid")
    if isinstance(uuid, str) and uuid:
        id_ = f"claude-agent-sdk:{hash_text(repr((conversation, uuid)))}"
        messages[0] = replace(messages[0], id=id_)
    return messages


def _bodies(raw: _Entry, agents: bool) -> list[dict[str, Any]]:
    if raw.get("type") not in ("user", "assistant"):
        return []
    bodies, _ = parse_turn({**raw, "isSidechain": False})
    if agents or raw.get("isSidechain") is True:  # what one agent asks of another is no user's word
        return [{**body, "role": "assistant"} if body["role"] == "user" else body for body in bodies]
    return bodies


def _moment(written: object) -> datetime | None:
    """Return when an entry was written; None, which is now, where it does not say."""
    try:
        return read_moment(written) if written else None
    except InputError:
        return None
