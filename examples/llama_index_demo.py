"""LlamaIndex with a memory: what one conversation said is shown in the next, within a budget.

    pip install "jiyi[llama-index]"
    python examples/llama_index_demo.py

No model is asked: what is printed is what an agent would show its model.
"""

import tempfile
from pathlib import Path

from llama_index.core.base.llms.types import ToolCallBlock
from llama_index.core.llms import ChatMessage

import jiyi
from jiyi.integrations.llama_index import JiyiMemory

CALL = ToolCallBlock(tool_call_id="c1", tool_name="read_log", tool_kwargs={"host": "db-west-02"})


def show(title: str, memory: JiyiMemory) -> None:
    """Print what the model would be shown."""
    print(f"\n== {title}")
    for message in memory.get():
        calls = [f"{b.tool_name}({b.tool_kwargs})" for b in message.blocks if isinstance(b, ToolCallBlock)]
        text = " ".join([*(message.content or "").split(), *calls])
        print(f"{message.role.value:>9}:", text if len(text) < 90 else f"{text[:45]} ... {text[-40:]}")
    print(f"{memory.last.tokens} tokens of {memory.budget}")


with tempfile.TemporaryDirectory() as folder, jiyi.open(Path(folder) / "a.db", user_id="ana") as memory:
    monday = JiyiMemory(memory=memory, session_id="monday", budget=600)
    monday.put(ChatMessage(role="user", content="pay-gw 的回调地址改走 9443 端口了。"))
    monday.put(ChatMessage(role="assistant", content="记下了。"))

    friday = JiyiMemory(memory=memory, session_id="friday", budget=600)
    friday.put(ChatMessage(role="user", content="Why was the backup of db-west-02 slow?"))
    friday.put_messages(
        [
            ChatMessage(role="assistant", blocks=[CALL]),
            ChatMessage(role="tool", content="slow disk " * 187, additional_kwargs={"tool_call_id": "c1"}),
            ChatMessage(
                role="assistant",
                content="Its disk: 40 MB/s, a tenth of db-west-01's.",
            ),
        ]
    )
    show("the call and its result fit", friday)

    friday.put(ChatMessage(role="user", content="谢谢。另外，pay-gw 的回调地址现在走哪个端口？"))
    show("they leave together, and what Monday said comes before the question", friday)
    for item in friday.last.recalled.why:
        print("   shown:", item.reason)

    monday.reset()
    friday.put(ChatMessage(role="assistant", content="9443。"))
    friday.put(ChatMessage(role="user", content="pay-gw 的回调地址到底走哪个端口？"))
    show("Monday's conversation is forgotten", friday)
    print(f"{len(friday.get_all())} messages are kept")
