"""The Claude Agent SDK: its session store, as its own mirror of transcripts calls it."""

from uuid import NAMESPACE_URL, uuid5

import claude_agent_sdk  # noqa: F401

from jiyi import MemoryManager
from jiyi.integrations.claude_agent_sdk import JiyiSessionStore


class Promised:
    name = "claude_agent_sdk"
    keeps = frozenset({"history", "delete"})

    async def save(self, memory: MemoryManager, user: str, session: str, texts: list[str]) -> None:
        said = [{"message": {"role": "user", "content": text}, "sessionId": session} for text in texts]
        named = [str(uuid5(NAMESPACE_URL, text)) for text in texts]
        entries = [{"type": "user", "uuid": id, **one} for id, one in zip(named, said, strict=True)]
        await JiyiSessionStore(memory, user_id=user).append(_key(session), entries)

    async def history(self, memory: MemoryManager, user: str, session: str) -> list[str]:
        entries = await JiyiSessionStore(memory, user_id=user).load(_key(session)) or []
        return [entry["message"]["content"] for entry in entries]

    async def delete(self, memory: MemoryManager, user: str, session: str) -> None:
        await JiyiSessionStore(memory, user_id=user).delete(_key(session))


def _key(session: str) -> dict[str, str]:
    return {"project_key": "-srv-app", "session_id": session}
