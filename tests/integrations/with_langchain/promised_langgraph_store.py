"""LangGraph's store: what a conversation said lies in a namespace of its user."""

from uuid import uuid4

from promises import Recall

from jiyi import MemoryManager
from jiyi.integrations.langgraph import AsyncJiyiStore


def store_in(memory: MemoryManager) -> AsyncJiyiStore:
    return AsyncJiyiStore(memory, user_from=lambda namespace: namespace[1])


class Promised:
    name = "langgraph_store"
    keeps = frozenset({"history", "recall", "delete"})

    async def save(self, memory: MemoryManager, user: str, session: str, texts: list[str]) -> None:
        store = store_in(memory)
        for text in texts:
            await store.aput(("memories", user, session), uuid4().hex, {"text": text})

    async def history(self, memory: MemoryManager, user: str, session: str) -> list[str]:
        found = await store_in(memory).asearch(("memories", user, session), limit=1_000)
        return [item.value["text"] for item in reversed(found)]

    async def recall(self, memory: MemoryManager, user: str, session: str, question: str) -> Recall:
        found = await store_in(memory).asearch(("memories", user), query=question)
        return Recall(
            texts=[item.value["text"] for item in found],
            nothing_relevant=found[0].nothing_relevant if found else None,
            why=[str(item.why) for item in found],
        )

    async def delete(self, memory: MemoryManager, user: str, session: str) -> None:
        await store_in(memory).delete_namespace(("memories", user, session))
