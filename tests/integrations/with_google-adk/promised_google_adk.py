"""Google ADK: its memory service."""

from google.adk.events import Event
from google.adk.sessions import Session
from google.genai import types
from promises import Recall

from jiyi import MemoryManager
from jiyi.integrations.google_adk import JiyiMemoryService


class Promised:
    name = "google_adk"
    keeps = frozenset({"recall", "delete"})

    async def save(self, memory: MemoryManager, user: str, session: str, texts: list[str]) -> None:
        said = [types.Content(role="user", parts=[types.Part(text=text)]) for text in texts]
        events = [Event(author="user", content=content) for content in said]
        one = Session(id=session, app_name="app", user_id=user, events=events)
        await JiyiMemoryService(memory).add_session_to_memory(one)

    async def recall(self, memory: MemoryManager, user: str, session: str, question: str) -> Recall:
        service = JiyiMemoryService(memory)
        response = await service.search_memory(app_name="app", user_id=user, query=question)
        found = response.memories
        return Recall(
            texts=[entry.content.parts[0].text for entry in found],
            nothing_relevant=found[0].custom_metadata["nothing_relevant"] if found else None,
            why=[str(entry.custom_metadata["why"]) for entry in found],
        )

    async def delete(self, memory: MemoryManager, user: str, session: str) -> None:
        service = JiyiMemoryService(memory)
        await service.delete_session_memory(app_name="app", user_id=user, session_id=session)
