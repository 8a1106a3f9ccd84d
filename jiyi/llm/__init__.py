"""Messages to a reply: the language model, for the steps that are better with one.

`LLM` and `ChatLLM` (tool calls, text as it comes) are the protocols, `OpenAILLM` asks any
OpenAI-compatible endpoint, `ask_json` gets an answer that fits a JSON schema. Importing this
loads no client.
"""

from jiyi.llm.answers import read_turn, spoken
from jiyi.llm.llm import LLM, ChatLLM, Reply, Turn
from jiyi.llm.openai import OpenAILLM
from jiyi.llm.streaming import put_together
from jiyi.llm.structured import Unfit, ask_each, ask_json, checker

__all__ = [
    "LLM",
    "ChatLLM",
    "OpenAILLM",
    "Reply",
    "Turn",
    "Unfit",
    "ask_each",
    "ask_json",
    "checker",
    "put_together",
    "read_turn",
    "spoken",
]
