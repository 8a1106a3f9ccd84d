"""Forty turns in a window of 4,000 tokens: what was said in turn 2 is still known in turn 40.

    python examples/agent_demo.py                      # with a scripted replier on this machine
    JIYI_LLM_MODEL=qwen3:8b JIYI_LLM_BASE_URL=http://localhost:11434/v1 python examples/agent_demo.py

Any OpenAI-compatible endpoint will do. Without one a small server in this process answers by
rote; it is no language model, and says so. What is shown does not depend on the model: the
line of turn 2 that stands in the last window, brought back by the memory.
"""

import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jiyi
from jiyi.agent import Agent, Limits
from jiyi.endpoint import Endpoint
from jiyi.llm import OpenAILLM
from jiyi.settings import load_settings
from jiyi.wiring import llm_for

WINDOW = 4_000
REPLY = 200  # tokens of the window kept free for each reply
SAID = "对了，pay-gw 的回调地址 10.20.1.21 要走 9443 端口，别再用 8443 了。"  # turn 2
ASKED = "pay-gw 的回调现在走哪个端口？"  # turn 40
ANSWER = "9443"

TOPICS = [
    "The nightly backup of db-west-02 took four hours. What could slow it down?",
    "磁盘告警又来了，/var 用到 91%，先清理哪些日志比较安全？",
    "Explain how a connection pool behaves when the database restarts in the middle of a transaction.",
    "帮我写一段给客服的说明：今晚 23 点到 23 点半登录会慢，原因是缓存迁移。",
    "Our certificate of mail-01 ends in May. Which steps does a renewal with no downtime take?",
    "app-03 的 load 一直在 6 左右，但是 CPU 只有 30%，可能是什么原因？",
    "Compare rolling restarts and blue-green deployments for a service with sticky sessions.",
    "周五要做容灾演练，请列一个检查清单，按先后顺序。",
]


def questions() -> list[str]:
    """Return the forty questions, Chinese and English in turn."""
    between = [
        f"{TOPICS[number % len(TOPICS)]} ({number})" + " Please be thorough. 请说得详细一点。" * 4
        for number in range(3, 40)
    ]
    return ["Hi! I look after the payment servers. 你好！", SAID, *between, ASKED]


def main() -> int:
    """Ask the forty questions and look at the last window; return 0 where the line is in it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        _model() as llm,
        jiyi.open(Path(folder) / "demo.db", user_id="demo", background=False) as memory,
    ):
        agent = Agent(
            "Help the team that runs the payment servers",
            [],
            memory,
            llm=llm,
            limits=Limits(max_steps=3),
            budget=jiyi.Budget(max_input_tokens=WINDOW, max_output_tokens=REPLY),
        )
        said = 0
        for number, question in enumerate(questions(), 1):
            run = agent.run(question, "demo")
            if run.window is None:
                print(f"turn {number}: {run.stopped}: {run.reason}")
                return 1
            report = run.window.report
            assert report.tokens <= WINDOW
            said += report.sections["input"] + run.output_tokens
            print(f"turn {number:>2}: {report.tokens:>5,} tokens, {run.stopped}: {_line(run.answer)}")
            memory.flush()  # so that the next turn finds this one by its meaning, too
        print(f"\n{said:,} tokens were said in all; the last window has {report.tokens:,} of {WINDOW:,}.")
        return _evidence(run.window)


def _evidence(window: jiyi.Window) -> int:
    """Print where the words of turn 2 stand in a window; return 1 where they do not."""
    found = [
        f"in a {message['role']} message: {line}"
        for message in window.messages
        for line in str(message["content"]).splitlines()
        if ANSWER in line and message["content"] != ASKED
    ]
    print("What turn 2 said stands in it:" if found else f"{ANSWER} of turn 2 is NOT in it")
    for line in found:
        print(f"  {line}")
    return 0 if found else 1


def _line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else f"{flat[:59]}…"


@contextmanager
def _model() -> Iterator[OpenAILLM]:
    """Give the model of the settings, else the scripted replier."""
    llm = llm_for(load_settings())
    if llm is not None:
        print(f"asking {llm.name}\n")
        try:
            yield llm
        finally:
            llm.close()
        return
    print("no JIYI_LLM_MODEL is set: a scripted replier answers, which is no language model\n")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Replier)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    llm = OpenAILLM("scripted", endpoint=Endpoint(base_url=url, api_key=""))
    try:
        yield llm
    finally:
        llm.close()
        server.shutdown()
        server.server_close()


class _Replier(BaseHTTPRequestHandler):
    """Answers by rote, at length, and quotes nothing of what it was shown."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number = len(asked["messages"])
        words = f"(scripted, no model) I was shown {number} messages. " + "这里本来会有一段详细的回答。" * 12
        message = {"role": "assistant", "content": words}
        body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


if __name__ == "__main__":
    sys.exit(main())
