"""Messages to a reply: the language model, for the steps that are better with one.

`LLM` and `ChatLLM` (tool calls, text as it comes) are the protocols, `OpenAILLM` asks any OpenAI-compatible
endpoint, `ask_json` gets an answer that fits a JSON schema. Importing this loads no client.
"""

from jiyi.llm.answers import *
from jiyi.llm.llm import *
from jiyi.llm.openai import *
from jiyi.llm.streaming import *
from jiyi.llm.structured import *
