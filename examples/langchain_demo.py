"""A LangChain agent that is told something on Monday and asked on Tuesday, in another thread.

    pip install "jiyi[langchain]" langchain-openai
    python examples/langchain_demo.py

The model is a small server in this process. With a real one nothing else changes.
"""

import json
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

import jiyi
from jiyi.integrations.langchain import JiyiMemoryMiddleware

MONDAY, TUESDAY = "The door code of the studio is 7341.", "What is the door code of the studio?"


class Model(BaseHTTPRequestHandler):
    """A model's endpoint."""

    def do_POST(self) -> None:
        """Answer with the first line of the messages that comes from memory."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        lines = [line for message in asked["messages"] for line in str(message["content"]).splitlines()]
        recalled = [line for line in lines if line.startswith("> ")]
        message = {"role": "assistant", "content": recalled[0] if recalled else "Noted."}
        body = {"id": "1", "created": 0, "model": "m", "choices": [{"index": 0, "message": message}]}
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


with (
    HTTPServer(("127.0.0.1", 0), Model) as server,
    tempfile.TemporaryDirectory() as folder,
    jiyi.open(Path(folder) / "memory.db", user_id="ana", background=False) as memory,
):
    threading.Thread(target=server.serve_forever, daemon=True).start()
    model = ChatOpenAI(model="m", base_url=f"http://127.0.0.1:{server.server_port}", api_key="none")
    middleware = JiyiMemoryMiddleware(memory, budget=4_000)
    agent = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
    for thread, text in [("monday", MONDAY), ("tuesday", TUESDAY)]:
        state = agent.invoke({"messages": [("user", text)]}, {"configurable": {"thread_id": thread}})
        nothing = middleware.last.recalled.nothing_relevant
        print(f"{thread}: {text}\n    {state['messages'][-1].text}")
        doubt = "unknown" if nothing is None else f"{nothing:.2f}"
        print(f"    {middleware.last.tokens} tokens, nothing relevant: {doubt}")
    print("on Monday:", [message.text for message in middleware.history("monday")])
    server.shutdown()
