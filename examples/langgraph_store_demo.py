"""A LangGraph graph that keeps the notes of its users in one memory and answers from them.

pip install "jiyi[langgraph]" langgraph
python examples/langgraph_store_demo.py
"""

import tempfile
from pathlib import Path
from typing import TypedDict

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime

import jiyi
from jiyi.integrations.langgraph import JiyiStore


class State(TypedDict, total=False):
    """What the graph passes on."""

    user: str
    said: str
    answer: str


def respond(state: State, runtime: Runtime) -> State:
    """Answer a question from the user's notes; take a note of everything else."""
    notes = ("notes", state["user"])
    if not state["said"].endswith(("?", "？")):
        runtime.store.put(notes, state["said"], {"text": state["said"]})
        return {"answer": "noted"}
    found = runtime.store.search(notes, query=state["said"], limit=1)
    return {"answer": found[0].value["text"] if found else "nothing noted"}


def main() -> None:
    """Let users talk, then forget one user's notes."""
    with (
        tempfile.TemporaryDirectory() as folder,
        jiyi.open(Path(folder) / "notes.db", user_id="me") as memory,
    ):
        store = JiyiStore(memory, user_from=lambda namespace: namespace[1])
        graph = StateGraph(State).add_node(respond).add_edge(START, "respond").compile(store=store)
        for user, said in [
            ("ana", "The blue door's code is 7341."),
            ("ana", "打印机在三楼，常卡纸。"),
            ("ana-b", "The blue door's code is 9999."),
            ("ana", "What is the code of the blue door?"),
            ("ana", "打印机在几楼？"),
            ("ana-b", "What is the code of the blue door?"),
            ("bo", "打印机在几楼？"),
        ]:
            print(f"{user}: {said} -> {graph.invoke({'user': user, 'said': said})['answer']}")
        print("forgotten:", store.delete_namespace(("notes", "ana")).total)
        print("left:", [item.value["text"] for item in store.search(("notes", "ana-b"))])


if __name__ == "__main__":
    main()
