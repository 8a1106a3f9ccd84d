"""A pydantic-ai agent that is told something on Monday and asked on Tuesday, in another conversation.

    pip install "jiyi[pydantic-ai]"
    python examples/pydantic_ai_demo.py

The model is a function in this process: it answers with the first line that it was shown from memory.
With a real one nothing else changes.
"""

import tempfile
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import jiyi
from jiyi.integrations.pydantic_ai import JiyiMemory

TALK = [
    ("monday", "The door code of the studio is 7341."),
    ("monday", "Thanks, bye!"),
    ("tuesday", "What is the door code of the studio?"),
]


def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Answer with the first line of the messages that comes from memory."""
    said = [part.content for m in messages for part in m.parts if isinstance(part, UserPromptPart)]
    recalled = [line for text in said for line in str(text).splitlines() if line.startswith("> ")]
    return ModelResponse([TextPart(recalled[0] if recalled else "Noted.")])


with (
    tempfile.TemporaryDirectory() as folder,
    jiyi.open(Path(folder) / "memory.db", user_id="ana", background=False) as memory,
):
    capability = JiyiMemory(memory, budget=4_000)
    agent = Agent(FunctionModel(answer), capabilities=[capability])
    for conversation, text in TALK:
        before = capability.history(conversation)
        result = agent.run_sync(text, conversation_id=conversation, message_history=before)
        nothing = capability.last.recalled.nothing_relevant
        print(f"{conversation}: {text}\n    {result.output}")
        doubt = "unknown" if nothing is None else f"{nothing:.2f}"
        print(f"    {capability.last.tokens} tokens, nothing relevant: {doubt}")
    print("on Monday:", [message.kind for message in capability.history("monday")])
