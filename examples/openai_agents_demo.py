"""The OpenAI Agents SDK with a memory: a session gives back what it was given, and a filter shows what fits.

    pip install "jiyi[openai-agents]"
    python examples/openai_agents_demo.py

No model is asked: what is printed is what the input filter would send to it. With a model:
``Runner.run(agent, question, session=session, run_config=session.run_config(budget))``.
"""

import asyncio
import tempfile
from pathlib import Path

from agents import Agent
from agents.run import CallModelData, ModelInputData

import jiyi
from jiyi.integrations.openai_agents import JiyiSession

MONDAY = [
    {"role": "user", "content": "The staging gateway moved to port 9443. 预发布网关改到 9443 端口了。"},
    {"role": "assistant", "content": "Noted."},
]
QUESTIONS = [
    "Which port does the staging gateway use?",
    "预发布网关用哪个端口？",
    "When does the train leave?",
]
BUDGET = 2_000  # tokens of instructions, tools, history and what is recalled


async def main(memory: jiyi.MemoryManager) -> None:
    """Tell it on Monday, ask on Tuesday, then forget Monday."""
    monday = JiyiSession("monday", memory)
    await monday.add_items(MONDAY)
    print("comes back as it was:", await monday.get_items() == MONDAY)
    tuesday = JiyiSession("tuesday", memory)
    for question in QUESTIONS:
        await show(tuesday, question)
    await monday.clear_session()
    print("\nMonday is forgotten")
    await show(tuesday, QUESTIONS[0])


async def show(session: JiyiSession, question: str) -> None:
    """Print what the model would be sent for a question."""
    sent = session.input_filter(BUDGET)
    asked = ModelInputData(input=[{"role": "user", "content": question}], instructions="Be brief.")
    shown = await sent(CallModelData(model_data=asked, agent=Agent(name="a"), context=None))
    print(f"\n{question}")
    for recalled in shown.input[:-1]:
        print(*(f"    {line}" for line in recalled["content"].splitlines() if line.startswith(">")), sep="\n")
    nothing = sent.last.recalled.nothing_relevant
    doubt = "unknown" if nothing is None else f"{nothing:.2f}"
    print(f"    {sent.last.tokens} tokens, nothing relevant: {doubt}")


with tempfile.TemporaryDirectory() as folder, jiyi.open(Path(folder) / "a.db", user_id="ana") as memory:
    asyncio.run(main(memory))
