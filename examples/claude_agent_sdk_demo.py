"""Transcripts of the Claude Agent SDK become conversations of a memory, and come back as they were.

    pip install "jiyi[claude-agent-sdk]" && python examples/claude_agent_sdk_demo.py

Needs neither a key nor the CLI: it does with the store what the SDK does while an agent runs.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any
from uuid import uuid4

from claude_agent_sdk import list_sessions_from_store, project_key_for_directory

import jiyi
from jiyi.integrations.claude_agent_sdk import JiyiSessionStore

USE = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ss -ltn"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "LISTEN 0.0.0.0:9443"}
TALK: list[tuple[str, Any]] = [
    ("user", "pay-gw 的回调改走 9443 端口，以后都用它。"),
    ("assistant", [{"type": "thinking", "thinking": "Look first.", "signature": "c2ln"}, USE]),
    ("user", [RESULT]),
    ("assistant", "9443 is open; I changed the callback."),
]


async def _main(memory: jiyi.MemoryManager) -> None:
    store = JiyiSessionStore(memory)  # ClaudeAgentOptions(session_store=store)
    key = {"project_key": project_key_for_directory("."), "session_id": str(uuid4())}
    entries = [
        {
            "type": role,
            "uuid": str(uuid4()),
            "timestamp": f"2026-03-14T12:0{minute}:00Z",
            "sessionId": key["session_id"],
            "message": {"role": role, "content": content},
        }
        for minute, (role, content) in enumerate(TALK)
    ]
    await store.append(key, entries)
    await store.append(key, entries[-1:])  # sent again after a broken connection
    print("comes back as it was:", await store.load(key) == entries)
    for session in await list_sessions_from_store(store):
        print("the SDK lists:", session.summary)
    for hit in memory.search("pay-gw 回调 端口", limit=3):
        print("found:", hit.text)
    await store.delete(key)
    print("after delete:", await store.load(key), len(memory.search("pay-gw")), "found")


with tempfile.TemporaryDirectory() as folder, jiyi.open(Path(folder) / "memory.db", user_id="ana") as opened:
    asyncio.run(_main(opened))
