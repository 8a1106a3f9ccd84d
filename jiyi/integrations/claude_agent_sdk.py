"""Claude Agent SDK: a session store that saves transcripts as conversations of the memory."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any

from jiyi.clock import read_moment
from jiyi.errors import InputError
from jiyi.importers.exports import parse_turn
from jiyi.integrations.common import build_message, find_sessions, finish, raw_of, require_framework
from jiyi.integrations.recalling import Owner, hash_text, read_conversation
from jiyi.long_term import ForgetReceipt
from jiyi.manager import MemoryManager
from jiyi.records import Message, as_mapping, labels_in, path_of
from jiyi.storage import batched

_Entry = dict[str, Any]
_Key = Mapping[str, Any]

_ID_PREFIX = "claude:"  # of the session ids of transcripts
_SUMMARY_FIELD = "summary"  # the field of a batch's last message with the SDK's summary up to there
_EMPTY_MESSAGE = {"role": "assistant", "content": ""}


def conversation_of(key: _Key) -> str:
    """Return the memory's session id for a transcript or a subagent's; raise `InputError` for a bad key."""
    parts = [key.get(name) for name in ("project_key", "session_id", "subpath") if name in key]
    if len(parts) < 2 or not all(isinstance(part, str) and part for part in parts):
        raise InputError("a key has project_key and session_id, and a subpath or none, each non-empty text")
    project, session, *subpath = map(str, parts)
    return _ID_PREFIX + path_of((project, session)) + "".join(subpath)


@dataclass(eq=False, repr=False)
class JiyiSessionStore:
    """A session store of the Claude Agent SDK; each transcript is a conversation of the memory.

    Entries come back deep-equal, in the order they were appended; one whose ``uuid`` is already saved is not
    added again. A batch is written whole or not at all. What user and assistant say and tools return is
    found by `search`, read for facts and recalled in other sessions; all else is only saved.
    """

    memory: MemoryManager  # where transcripts are saved; it stays open
    _: KW_ONLY
    user_id: str | None = None  # whose they are; by default whom the memory was opened for
    last_receipts: list[ForgetReceipt] = field(default_factory=list, init=False)
    """Of the last `delete`, one for each transcript."""

    def __post_init__(self) -> None:
        _ = self.memory.parts  # raises for a memory on a server

    async def append(self, key: _Key, entries: Sequence[_Entry]) -> None:
        """Add entries to a transcript, all or none.

        Raises:
            InputError: the key is invalid, or an entry is no dict of JSON.
            MissingExtra: the SDK, which summarises sessions, is not installed.
        """
        conversation = conversation_of(key)
        groups: dict[str, list[Message]] = {}
        for entry in entries:
            messages = _build_messages(conversation, dict(as_mapping(entry)), "subpath" in key)
            groups.setdefault(messages[0].id, messages)
        await finish(asyncio.to_thread(self._append, dict(key), conversation, list(groups.values())))

    async def load(self, key: _Key) -> list[_Entry] | None:
        """Return a transcript's entries; None where there is none."""
        owner = Owner(self.memory, self.user_id, conversation_of(key))
        stored = await asyncio.to_thread(read_conversation, owner)
        return [raw for raw in map(raw_of, stored) if raw is not None] or None

    async def list_sessions(self, project_key: str) -> list[dict[str, Any]]:
        """Return id and ``mtime``, milliseconds since 1970, of a project's sessions."""
        summaries = await asyncio.to_thread(self._read_summaries, project_key)
        return [{"session_id": summary["session_id"], "mtime": summary["mtime"]} for summary in summaries]

    async def list_session_summaries(self, project_key: str) -> list[dict[str, Any]]:
        """Return the SDK's summaries of a project's sessions, without loading the transcripts."""
        summaries = await asyncio.to_thread(self._read_summaries, project_key)
        return [summary for summary in summaries if "data" in summary]

    async def delete(self, key: _Key) -> None:
        """Forget a session with its subagents', or one subagent's, and all derived; `restore` undoes it."""
        deleting = asyncio.to_thread(self._delete, conversation_of(key), "subpath" not in key)
        self.last_receipts = await finish(deleting)

    async def list_subkeys(self, key: _Key) -> list[str]:
        """Return the subpaths that a session has."""
        main = conversation_of({name: key.get(name) for name in ("project_key", "session_id")})
        ids = await asyncio.to_thread(find_sessions, self.memory, main, self.user_id)
        return [id_.removeprefix(main) for id_ in ids if id_ != main]

    def _append(self, key: _Key, conversation: str, groups: Sequence[list[Message]]) -> None:
        def append() -> None:
            stored_ids = self._find_stored(conversation, [group[0].id for group in groups])
            new = [group for group in groups if group[0].id not in stored_ids]
            messages = [message for group in new for message in group]
            if messages and "subpath" not in key:
                summary = self._fold_summary(key, conversation, [raw_of(group[0]) for group in new])
                last = messages[-1]
                messages[-1] = replace(last, extra={**last.extra, _SUMMARY_FIELD: summary})
            if messages:
                self.memory.save_messages(conversation, messages, user_id=self.user_id)

        self.memory.parts.run_in_transaction(append, self.user_id)

    def _find_stored(self, conversation: str, ids: Sequence[str]) -> set[str]:
        read = partial(self.memory.session_messages, conversation, user_id=self.user_id)
        return {message.id for some in batched(ids) for message in read(filters={"id": some})}

    def _fold_summary(self, key: _Key, conversation: str, entries: list[_Entry]) -> dict[str, Any]:
        with require_framework("the Claude Agent SDK", "claude-agent-sdk"):
            from claude_agent_sdk import fold_session_summary
        previous = self._read_summary(conversation)
        now = int(self.memory.parts.clock().timestamp() * 1_000)
        mtime = max(now, previous["mtime"] + 1) if previous else now
        former = {"session_id": key["session_id"], **previous} if previous and "data" in previous else None
        fold: Callable[..., Any] = fold_session_summary
        return {"mtime": mtime, "data": fold(former, key, entries)["data"]}

    def _read_summary(self, conversation: str) -> dict[str, Any] | None:
        """Return the summary up to a conversation's end; without one, only when it was last written to."""
        for newest in self.memory.session_messages(conversation, 1, user_id=self.user_id):
            date = newest.created_at
            mtime = int(date.timestamp() * 1_000) if date else 0
            return newest.to_dict().get(_SUMMARY_FIELD) or {"mtime": mtime}
        return None

    def _read_summaries(self, project_key: str) -> list[dict[str, Any]]:
        prefix = _ID_PREFIX + path_of((project_key,))
        summaries = []
        for id_ in find_sessions(self.memory, prefix, self.user_id):
            session, slash, subpath = id_.removeprefix(prefix).partition("/")
            if slash and not subpath and (summary := self._read_summary(id_)):
                summaries.append({"session_id": labels_in(f"{session}/")[0], **summary})
        return summaries

    def _delete(self, conversation: str, with_subagents: bool) -> list[ForgetReceipt]:
        forget = partial(self.memory.forget, reason="deleted", user_id=self.user_id)

        def forget_all() -> list[ForgetReceipt]:
            ids = [conversation]
            if with_subagents:
                ids = find_sessions(self.memory, conversation, self.user_id)
            return [forget(session_id=id_) for id_ in ids]

        return self.memory.parts.store.together(forget_all, repeatable=True)


def _build_messages(conversation: str, raw: _Entry, agents: bool) -> list[Message]:
    """Return the messages of an entry: one without text if nobody says anything in it."""
    date = None
    with suppress(InputError):
        date = read_moment(raw["timestamp"]) if raw.get("timestamp") else None
    try:
        first, *rest = _parse_bodies(raw, agents) or [_EMPTY_MESSAGE]
        others = [build_message(None, body, created_at=date) for body in rest]
        messages = [build_message(raw, first, created_at=date), *others]
    except InputError:  # an unknown form, such as a result without its call's id
        messages = [build_message(raw, _EMPTY_MESSAGE, created_at=date)]
    if uuid := raw.get("uuid"):
        messages[0] = replace(messages[0], id=f"claude-agent-sdk:{hash_text(repr((conversation, uuid)))}")
    return messages


def _parse_bodies(raw: _Entry, agents: bool) -> list[dict[str, Any]]:
    if raw.get("type") not in ("user", "assistant"):
        return []
    bodies, _ = parse_turn({**raw, "isSidechain": False})
    if agents or raw.get("isSidechain") is True:  # what one agent asks another does not come from the user
        return [{**body, "role": "assistant"} if body["role"] == "user" else body for body in bodies]
    return bodies
