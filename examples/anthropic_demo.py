"""Claude's memory tool writes a file; a conversation of another day is shown what it says.

pip install "jiyi[anthropic]" && python examples/anthropic_demo.py  # no key: the model answers by rote
"""

import json
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from anthropic import Anthropic

import jiyi
from jiyi.integrations.anthropic import JiyiMemoryTool, JiyiMessages

NOTE = {
    "command": "create",
    "path": "/memories/doors.md",
    "file_text": "蓝色门的密码是 7341。The gate: 8812.",
}
ANSWERS: list[dict[str, Any]] = [
    {"type": "tool_use", "id": "t1", "name": "memory", "input": NOTE},
    {"type": "text", "text": "Noted."},
    {"type": "text", "text": "7341."},
]
asked: list[dict[str, Any]] = []


class _Model(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        block = ANSWERS[len(asked) - 1]
        stop = "tool_use" if block["type"] == "tool_use" else "end_turn"
        head = {"id": "msg", "type": "message", "role": "assistant", "model": "by-rote"}
        self.send_response(200)
        self.end_headers()
        told = {**head, "content": [block], "stop_reason": stop, "usage": {}}
        self.wfile.write(json.dumps(told).encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
Thread(target=server.serve_forever, daemon=True).start()
client = Anthropic(base_url=f"http://127.0.0.1:{server.server_port}", api_key="none")
asking: dict[str, Any] = {"model": "by-rote", "max_tokens": 100}

with tempfile.TemporaryDirectory() as folder, jiyi.open(Path(folder) / "memory.db", user_id="ana") as memory:
    said = {"role": "user", "content": "The blue door's code is 7341."}
    client.beta.messages.tool_runner(tools=[JiyiMemoryTool(memory)], messages=[said], **asking).until_done()
    print("the tool said:", asked[1]["messages"][-1]["content"][0]["content"])

    chat = JiyiMessages("another day", memory, budget=4_000)
    answer = chat.create(client, messages=[{"role": "user", "content": "蓝色门的密码是什么？"}], **asking)
    print("the model was shown:", *(f"\n  {m['role']}: {m['content']}" for m in asked[2]["messages"]))
    print("it said:", answer.content[0].text)
