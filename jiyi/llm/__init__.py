"""Messages to a reply: the language model, for the steps that are better with one.

`LLM` and `ChatLLM` (tool calls, text as it comes) are the protocols, `OpenAILLM` asks any
OpenAI-compatible endpoint, `ask_json` gets an answer that fits a JSON schema. Importing this
loads no client.
"""

from jiyi.llm.chat import ChatLLM, Turn
from jiyi.llm.llm import LLM, Reply
from jiyi.llm.openai import OpenAILLM
from jiyi.llm.schema import Unfit, checker
from jiyi.llm.structured import ask_json

__all__ = ["LLM", "ChatLLM", "OpenAILLM", "Reply", "Turn", "Unfit", "ask_json", "checker"]
