"""How many bytes does a thread of LangGraph take, by the number of its turns?

Run it with ``python bench/langgraph_growth.py [--turns N] [--json]`` where ``langgraph`` and
``langgraph-checkpoint-sqlite`` are installed; 1,000 turns take several minutes and 2 GB of disk.

What is measured: a graph of one node, in which a user asks and the node answers (Chinese and English, a
few dozen words each), runs turn after turn in one thread, three checkpoints a turn: once with LangGraph's own
``AsyncSqliteSaver``, once with ``JiyiSaver``. After a tenth of the turns and after all:

- bytes: pages in use of the SQLite file, those in its log too;
- ms: the median time of the last ten turns, with reading the newest checkpoint and writing three;
- pruned: the bytes of ``JiyiSaver`` after ``prune(strategy="keep_latest")``.

How to read it: ten times the turns are ten times the bytes where each message is stored once, and a hundred
times where each checkpoint holds a copy of all.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from conversation import conversation
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from rich.console import Console
from rich.progress import track
from rich.table import Table

import jiyi
from jiyi.integrations.langgraph_saver import JiyiSaver
from jiyi.testing import HashEmbedder

CONFIG = {"configurable": {"thread_id": "t"}}
LAST = 10  # turns that are timed


PAGES = """
import sqlite3, sys
db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
pages, free, size = (
    db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
)
print((pages - free) * size)
"""


def used(file: Path) -> int:
    """Return the bytes of the pages in use; a process of its own looks, as locks are a process's."""
    done = subprocess.run([sys.executable, "-c", PAGES, file], capture_output=True, text=True, check=True)
    return int(done.stdout)


def graph(saver: Any, answers: list[str]) -> Any:
    async def answer(state: MessagesState) -> dict[str, Any]:
        turn = len(state["messages"]) // 2
        return {"messages": [AIMessage(answers[turn], id=f"answer-{turn}")]}

    return StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").compile(checkpointer=saver)


async def grow(saver: Any, file: Path, turns: int, name: str) -> list[dict[str, Any]]:
    """Run the turns and return what was measured, at a tenth of them and at the end."""
    said = [one["content"] for one in conversation(20 * turns) if one["role"] in ("user", "assistant")]
    texts = [text for text in said if text]
    asks, answers = texts[:turns], texts[turns : 2 * turns]
    compiled, times, rows = graph(saver, answers), list[float](), list[dict[str, Any]]()
    for turn in track(range(turns), name, console=Console(stderr=True), transient=True):
        started = time.perf_counter()
        question = HumanMessage(asks[turn], id=f"question-{turn}")
        found = await compiled.ainvoke({"messages": [question]}, CONFIG)
        times.append(time.perf_counter() - started)
        if turn + 1 in (turns // 10, turns):
            assert len(found["messages"]) == 2 * (turn + 1)
            ms = 1_000 * statistics.median(times[-LAST:])
            rows.append({"turns": turn + 1, "bytes": used(file), "ms": ms})
    return rows


async def measured(folder: Path, turns: int) -> dict[str, Any]:
    async with AsyncSqliteSaver.from_conn_string(str(folder / "own.db")) as saver:
        own = await grow(saver, folder / "own.db", turns, "AsyncSqliteSaver")
    file = folder / "jiyi.db"
    with jiyi.open(file, user_id="ana", embedder=HashEmbedder(), background=False) as memory:
        mine = await grow(JiyiSaver(memory), file, turns, "JiyiSaver")
        JiyiSaver(memory).prune(["t"])
        pruned = used(file)
    ratio = mine[-1]["bytes"] / own[-1]["bytes"]
    return {"AsyncSqliteSaver": own, "JiyiSaver": mine, "pruned": pruned, "ratio": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=1_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measured(Path(folder), options.turns))
    if options.json:
        print(json.dumps(found))
        return
    table = Table("saver", "turns", "bytes", "bytes a turn", "ms a turn")
    for name in ("AsyncSqliteSaver", "JiyiSaver"):
        for row in found[name]:
            a_turn = row["bytes"] // row["turns"]
            table.add_row(name, f"{row['turns']:,}", f"{row['bytes']:,}", f"{a_turn:,}", f"{row['ms']:.1f}")
    table.add_row("JiyiSaver, pruned", "", f"{found['pruned']:,}", "", "")
    Console().print(table)
    print(f"bytes of JiyiSaver / bytes of AsyncSqliteSaver: {found['ratio']:.4f}")


if __name__ == "__main__":
    main()
