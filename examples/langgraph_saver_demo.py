"""A LangGraph chat that asks before it acts, stopped and resumed, with its threads in a memory.

pip install "jiyi[langgraph]" langgraph
python examples/langgraph_saver_demo.py
"""

import tempfile
from pathlib import Path

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

import jiyi
from jiyi.integrations.langgraph_saver import JiyiSaver


def respond(state: MessagesState) -> dict[str, list[AIMessage]]:
    """Ask whether to restart, and do what is answered."""
    allowed = interrupt(f"{state['messages'][-1].content} Restart it? 可以重启吗？")
    return {"messages": [AIMessage("restarted" if allowed == "yes" else "left alone")]}


def main() -> None:
    """Ask, close, open again and answer; look back; tidy up."""
    config = {"configurable": {"thread_id": "ops", "user_id": "ana"}}
    builder = StateGraph(MessagesState).add_node(respond).add_edge(START, "respond")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "threads.db"
        with jiyi.open(file) as memory:
            graph = builder.compile(checkpointer=JiyiSaver(memory))
            found = graph.invoke({"messages": [("user", "app-01 hangs.")]}, config)
            print("asked:", found["__interrupt__"][0].value)
        with jiyi.open(file) as memory:
            saver = JiyiSaver(memory)
            graph = builder.compile(checkpointer=saver)
            before = graph.get_state(config).config
            print("yes:", graph.invoke(Command(resume="yes"), config)["messages"][-1].content)
            print("before that:", [message.content for message in graph.get_state(before).values["messages"]])
            print("checkpoints:", len(list(graph.get_state_history(config))))
            saver.for_user("ana").prune(["ops"])
            print("after pruning:", len(list(graph.get_state_history(config))))
            saver.for_user("ana").delete_thread("ops")
            print("after deleting:", len(list(graph.get_state_history(config))))


if __name__ == "__main__":
    main()
