"""Strands Agents: the store of its memory manager."""

from promises import Recall
from strands.memory import AddMessagesContext, MemoryManager

import jiyi
from jiyi.integrations.strands import JiyiMemoryStore


class Promised:
    name = "strands"
    keeps = frozenset({"recall", "delete"})

    async def save(self, memory: jiyi.MemoryManager, user: str, session: str, texts: list[str]) -> None:
        store = JiyiMemoryStore(memory, user_id=user, session_id=session)
        said = [{"role": "user", "content": [{"text": text}]} for text in texts]
        await store.add_messages(said, AddMessagesContext(sequence_numbers=list(range(len(said)))))

    async def recall(self, memory: jiyi.MemoryManager, user: str, session: str, question: str) -> Recall:
        manager = MemoryManager(stores=[JiyiMemoryStore(memory, user_id=user, session_id=session)])
        found = await manager.search(question)
        return Recall(
            texts=[entry.content for entry in found],
            nothing_relevant=found[0].metadata["nothing_relevant"] if found else None,
            why=[str(entry.metadata["why"]) for entry in found],
        )

    async def delete(self, memory: jiyi.MemoryManager, user: str, session: str) -> None:
        # Strands has no word for it.
        memory.forget(session_id=session, user_id=user)
