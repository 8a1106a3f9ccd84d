"""Strands Agents with a memory: what one agent heard, another agent of the same user finds.

    pip install "jiyi[strands]"
    python examples/strands_demo.py

No model is asked: what is printed is what ``strands.memory.MemoryManager`` would put before it. With a
model, give the manager to an agent: ``Agent(memory_manager=MemoryManager(stores=[store]))``.
"""

import asyncio
import tempfile
from pathlib import Path

from strands.memory import AddMessagesContext, MemoryManager

import jiyi
from jiyi.integrations.strands import JiyiMemoryStore

SAID = ["蓝色门的密码是 7341。", "I moved to Porto in May.", "The printer stands on floor 3."]


async def main(memory: jiyi.MemoryManager) -> None:
    """Save, search, forget."""
    store = JiyiMemoryStore(memory, session_id="monday")
    batch = [{"role": "user", "content": [{"text": text}]} for text in SAID]
    for _ in range(2):  # a batch that is tried again is saved once
        await store.add_messages(batch, AddMessagesContext(sequence_numbers=[0, 1, 2]))
    print(f"{len(memory.session_messages('monday'))} messages saved")
    await store.add("I prefer green tea", {"source": "form"})

    other = JiyiMemoryStore(memory, max_search_results=1)
    manager = MemoryManager(stores=[other])

    async def show(question: str) -> None:
        for entry in await manager.search(question):
            nothing = entry.metadata["nothing_relevant"]
            doubt = "unknown" if nothing is None else f"{nothing:.2f}"
            print(f"{question}  ->  {entry.content}   (nothing relevant: {doubt})")

    for question in ("门的密码是多少？", "Where do I live?", "When does the train leave?"):
        await show(question)
    receipt = memory.forget(session_id="monday")
    print("forgotten:", dict(receipt.counts))
    await show("门的密码是多少？")


with tempfile.TemporaryDirectory() as folder, jiyi.open(Path(folder) / "a.db", user_id="ana") as memory:
    asyncio.run(main(memory))
