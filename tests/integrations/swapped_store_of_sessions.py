"""A plugin for pytest: the Claude Agent SDK's own tests of session stores get ours in place of its own."""

import tempfile
from pathlib import Path
from typing import Any

import claude_agent_sdk
from claude_agent_sdk._internal import session_store

import jiyi
from jiyi.integrations.claude_agent_sdk import JiyiSessionStore, conversation_of
from jiyi.integrations.common import raw_of
from jiyi.testing import HashEmbedder


class Store(JiyiSessionStore):
    """Takes what `InMemorySessionStore` takes, and has what only tests ask of it."""

    def __init__(self) -> None:
        file = Path(tempfile.mkdtemp()) / "m.db"
        super().__init__(jiyi.open(file, user_id="ana", embedder=HashEmbedder(), background=False))

    def get_entries(self, key: Any) -> list[Any]:
        stored = self.memory.session_messages(conversation_of(key))
        return [raw_of(message) for message in stored if raw_of(message) is not None]

    def clear(self) -> None:
        self.memory.forget(everything=True)

    @property
    def size(self) -> int:
        return sum(s.id.count("/") == 2 and s.id.endswith("/") for s in self.memory.sessions())


for module in (claude_agent_sdk, session_store):
    module.InMemorySessionStore = Store
