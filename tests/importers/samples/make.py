"""Writes the samples beside it with the real packages, one a function: `python make.py NAME...`.

Run in an environment with mem0ai, langgraph, langgraph-checkpoint-sqlite, openai-agents,
langchain-community, llama-index-core, aiosqlite and chromadb. The samples that no package writes (exports
of ChatGPT and Claude.ai, a transcript of Claude Code, memory.jsonl, an agent file) are written by hand in
the form that those programs use.
"""

import asyncio
import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

HERE = Path(__file__).parent


def write(name, value):
    (HERE / name).write_text(json.dumps(value, ensure_ascii=False, indent=1), "utf-8")


def mem0():
    import os
    import tempfile

    os.environ["MEM0_TELEMETRY"] = "False"
    os.environ["OPENAI_API_KEY"] = "none"
    os.environ["MEM0_DIR"] = tempfile.mkdtemp()
    from mem0 import Memory

    class Words:
        config = None

        def embed(self, text, *_, **__):
            return [float(len(text) + i) for i in range(4)]

        def embed_batch(self, texts, *_, **__):
            return [self.embed(text) for text in texts]

    store = {"provider": "qdrant", "config": {"path": tempfile.mkdtemp(), "embedding_model_dims": 4}}
    memory = Memory.from_config({"vector_store": store})
    memory.embedding_model = Words()
    memory.add(
        [{"role": "user", "content": "I am allergic to peanuts"}],
        user_id="ana",
        infer=False,
        metadata={"channel": "chat"},
    )
    memory.add([{"role": "user", "content": "我住在杭州"}], user_id="ana", run_id="r-7", infer=False)
    write("mem0.json", memory.get_all(filters={"user_id": "ana"}))


def _graph(saver):
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langgraph.graph import START, MessagesState, StateGraph

    call = {"name": "tide", "args": {"place": "Lisbon"}, "id": "call_1"}

    def answer(state):
        asked = state["messages"][-1].content
        if "tide" in asked:
            return {
                "messages": [
                    AIMessage("", tool_calls=[call], id="a1"),
                    ToolMessage("15:10", tool_call_id="call_1", id="t1", name="tide"),
                    AIMessage("High tide is at 15:10.", id="a2"),
                ]
            }
        return {"messages": [AIMessage("好的。", id="a3")]}

    graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
    app = graph.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "thread-1"}}
    app.invoke({"messages": [HumanMessage("I live in Lisbon. When is high tide?", id="h1")]}, config)
    app.invoke({"messages": [HumanMessage("我叫安娜。", id="h2")]}, config)
    app.invoke({"messages": [HumanMessage("Hola", id="h3")]}, {"configurable": {"thread_id": "thread-2"}})


def _smaller(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=DELETE")
        db.execute("PRAGMA page_size=512")
        db.execute("VACUUM")


def langgraph():
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.store.sqlite import SqliteStore

    path = HERE / "langgraph.sqlite"
    path.unlink(missing_ok=True)
    with SqliteSaver.from_conn_string(str(path)) as saver:
        _graph(saver)
    with SqliteStore.from_conn_string(str(path)) as store:
        store.setup()
        store.put(("memories", "ana"), "k1", {"text": "Ana prefers window seats", "score": 3})
    with closing(sqlite3.connect(path, isolation_level=None)) as db:  # the newest two of a thread
        db.execute("DELETE FROM writes")
        db.execute(
            "DELETE FROM checkpoints WHERE rowid NOT IN (SELECT rowid FROM checkpoints c WHERE 2 > "
            "(SELECT count(*) FROM checkpoints d WHERE d.thread_id = c.thread_id "
            "AND d.checkpoint_id > c.checkpoint_id))"
        )
    _smaller(path)


def langgraph_postgres():
    """The rows that PostgresSaver and PostgresStore write; JIYI_SAMPLE_DSN names an empty database."""
    import os

    import psycopg
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.store.postgres import PostgresStore

    dsn = os.environ["JIYI_SAMPLE_DSN"]
    with PostgresSaver.from_conn_string(dsn) as saver:
        saver.setup()
        _graph(saver)
    with PostgresStore.from_conn_string(dsn) as store:
        store.setup()
        store.put(("memories", "ana"), "k1", {"text": "Ana prefers window seats"})
    tables = {}
    with psycopg.connect(dsn) as db:
        newest = (
            "SELECT DISTINCT ON (thread_id) thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, "
            "type, checkpoint::text, metadata::text FROM checkpoints ORDER BY thread_id, checkpoint_id DESC"
        )
        tables["checkpoints"] = db.execute(newest).fetchall()
        blobs = (
            "SELECT thread_id, checkpoint_ns, channel, version, type, encode(blob, 'hex') "
            "FROM checkpoint_blobs WHERE channel = 'messages'"
        )
        tables["checkpoint_blobs"] = db.execute(blobs).fetchall()
        tables["store"] = db.execute(
            "SELECT prefix, key, value::text, created_at::text, updated_at::text FROM store"
        ).fetchall()
    write("langgraph_postgres.json", tables)


def openai_agents():
    from agents import SQLiteSession

    path = HERE / "openai_agents.sqlite"
    path.unlink(missing_ok=True)
    session = SQLiteSession("chat-1", path)
    items = [
        {"role": "user", "content": "I live in Lisbon. When is high tide?"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "tide",
            "arguments": '{"place": "Lisbon"}',
            "id": "fc_1",
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "15:10"},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "High tide is at 15:10.", "annotations": []}],
        },
        {"role": "user", "content": [{"type": "input_text", "text": "谢谢"}]},
    ]
    asyncio.run(session.add_items(items))
    session.close()
    _smaller(path)


def langchain():
    from langchain_community.chat_message_histories import SQLChatMessageHistory
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    path = HERE / "langchain.sqlite"
    path.unlink(missing_ok=True)
    history = SQLChatMessageHistory("chat-1", connection=f"sqlite:///{path}")
    call = {"name": "tide", "args": {"place": "Lisbon"}, "id": "call_1"}
    history.add_messages(
        [
            HumanMessage("I live in Lisbon. When is high tide?"),
            AIMessage("", tool_calls=[call]),
            ToolMessage("15:10", tool_call_id="call_1"),
            AIMessage("High tide is at 15:10."),
            HumanMessage("谢谢"),
        ]
    )
    history.engine.dispose()
    _smaller(path)


def llama_index():
    from llama_index.core.llms import ChatMessage, TextBlock
    from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

    path = HERE / "llama_index.sqlite"
    path.unlink(missing_ok=True)

    async def fill():
        store = SQLAlchemyChatStore("llama_index_memory", async_database_uri=f"sqlite+aiosqlite:///{path}")
        await store.add_message("chat-1", ChatMessage(role="user", content="I live in Lisbon."))
        await store.add_message(
            "chat-1", ChatMessage(role="assistant", blocks=[TextBlock(text="Noted."), TextBlock(text="Bye.")])
        )
        await store.add_message("chat-1", ChatMessage(role="user", content="谢谢"))

    asyncio.run(fill())
    _smaller(path)


def mempalace():
    """A palace of Chroma, of which only the tables that are read are kept; PYTHONPATH names its sdist."""
    import tempfile

    import chromadb
    from mempalace.knowledge_graph import KnowledgeGraph

    folder, palace = HERE / "mempalace", tempfile.mkdtemp()
    folder.mkdir(exist_ok=True)
    client = chromadb.PersistentClient(palace)
    drawers = client.get_or_create_collection("mempalace_drawers", embedding_function=None)
    same = {"wing": "sailing", "room": "tides", "source_file": "log.md", "added_by": "ana"}
    drawers.add(
        ids=["drawer_sailing_tides_1", "drawer_sailing_tides_2"],
        documents=["High tide in Lisbon was at 15:10.", "船的名字叫里奥。"],
        metadatas=[
            {**same, "chunk_index": 0, "filed_at": "2025-03-14T12:00:00"},
            {**same, "chunk_index": 1, "filed_at": "2025-03-14T12:05:00"},
        ],
        embeddings=[[1.0, 0.0], [0.0, 1.0]],
    )
    (folder / "chroma.sqlite3").unlink(missing_ok=True)
    with closing(sqlite3.connect(folder / "chroma.sqlite3", isolation_level=None)) as db:
        db.execute("PRAGMA page_size=512")
        db.execute("ATTACH ? AS real", (f"{palace}/chroma.sqlite3",))
        for table in ("collections", "segments", "embeddings", "embedding_metadata"):
            db.execute(
                db.execute("SELECT sql FROM real.sqlite_master WHERE name = ?", (table,)).fetchone()[0]
            )
            db.execute(f"INSERT INTO main.{table} SELECT * FROM real.{table}")
    (folder / "knowledge_graph.sqlite3").unlink(missing_ok=True)
    graph = KnowledgeGraph(str(folder / "knowledge_graph.sqlite3"))
    graph.add_triple("Ana", "sails_on", "Rio", valid_from="2024-05-01")
    graph.add_triple(
        "Ana", "works_at", "Acme", valid_from="2020-01-01", valid_to="2023-12-31", confidence=0.8
    )
    graph.close()
    _smaller(folder / "knowledge_graph.sqlite3")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        globals()[name]()
