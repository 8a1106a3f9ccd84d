"""Google ADK with a memory: sessions are taken in again and again, found by their words, and forgotten.

    pip install "jiyi[google-adk]"
    python examples/google_adk_demo.py

No model is asked: what is printed is what ADK's memory tools get. With a model, give the service to
a runner: ``Runner(..., memory_service=JiyiMemoryService(memory))``.
"""

import asyncio
import tempfile
from pathlib import Path

from google.adk.events import Event
from google.adk.sessions import InMemorySessionService
from google.genai import types

import jiyi
from jiyi.integrations.google_adk import JiyiMemoryService

WHOSE = {"app_name": "shop", "user_id": "ana"}
SAID = [("user", "我对花生过敏。"), ("agent", "记下了。"), ("user", "My parcel number is PX-2201.")]


async def main(memory: jiyi.MemoryManager) -> None:
    """Save, search, forget."""
    service, sessions = JiyiMemoryService(memory, limit=1), InMemorySessionService()
    session = await sessions.create_session(**WHOSE, session_id="monday")
    for author, text in SAID:
        role = "user" if author == "user" else "model"
        content = types.Content(role=role, parts=[types.Part(text=text)])
        await sessions.append_event(session, Event(author=author, content=content, invocation_id="i"))
        await service.add_session_to_memory(session)  # after each turn, the whole session
    print(f"{len(memory.session_messages('monday'))} messages from {len(session.events)} events")

    async def show(question: str, app_name: str = "shop") -> None:
        response = await service.search_memory(app_name=app_name, user_id="ana", query=question)
        found = [(e.author, e.content.parts[0].text) for e in response.memories]
        print(f"{question} [{app_name}]  ->  {found}")

    await show("我对什么过敏？")
    await show("What is the number of my parcel?")
    await show("我对什么过敏？", "bank")
    await service.delete_session_memory(**WHOSE, session_id="monday")
    await show("我对什么过敏？")
    print("facts left:", len(memory.facts(agent_id="shop")))


with tempfile.TemporaryDirectory() as folder, jiyi.open(Path(folder) / "a.db", user_id="ana") as memory:
    asyncio.run(main(memory))
