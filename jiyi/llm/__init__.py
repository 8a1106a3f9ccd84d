"""Messages to a reply: the language model, for the steps that are better with one.

`LLM` is the protocol, `OpenAILLM` asks any OpenAI-compatible endpoint, `ask_json` gets an
answer that fits a JSON schema. Importing this loads no client.
"""

from jiyi.llm.llm import LLM, Reply
from jiyi.llm.openai import OpenAILLM
from jiyi.llm.structured import ask_json

__all__ = ["LLM", "OpenAILLM", "Reply", "ask_json"]
