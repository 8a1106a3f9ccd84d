"""A plugin for pytest: OpenAI's own tests of sessions get ours in place of `SQLiteSession`."""

import tempfile
from pathlib import Path
from typing import Any

import agents
import agents.memory
import agents.memory.sqlite_session

import jiyi
from jiyi.integrations.openai_agents import JiyiSession
from jiyi.testing import HashEmbedder


class Session(JiyiSession):
    """Takes what `SQLiteSession` takes."""

    def __init__(
        self, session_id: str, db_path: str | Path = ":memory:", *_: str, session_settings: Any = None
    ) -> None:
        file = Path(tempfile.mkdtemp()) / "m.db" if str(db_path) == ":memory:" else db_path
        memory = jiyi.open(file, user_id="ana", embedder=HashEmbedder(), background=False)
        super().__init__(session_id, memory, session_settings=session_settings)
        self.close = memory.close


for module in (agents, agents.memory, agents.memory.sqlite_session):
    module.SQLiteSession = Session
