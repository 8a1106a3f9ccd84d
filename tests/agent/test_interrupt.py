"""Ctrl-C and crashes at any point: what was said and done is kept, and the run goes on later."""

import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from refusing import refused
from scripted_chat import call, calls, says, turn
from scripted_endpoint import Reply

import jiyi
from jiyi.agent import action
from jiyi.errors import WrongState


@action
def shell(cmd: str) -> str:
    """Run a command."""
    if cmd == "stop":
        raise KeyboardInterrupt
    return f"ran {cmd}"


def said(memory: jiyi.MemoryManager) -> list[Any]:
    return [m.content for m in memory.session_messages("s")]


def test_in_the_middle_of_the_answer(memory, scripted, make_agent):
    server = scripted(turn("It is a long story, and it begins here."), says("told"))
    pieces: list[str] = []

    def listen(piece: str) -> None:
        pieces.append(piece)
        if len(pieces) == 3:
            raise KeyboardInterrupt

    agent = make_agent(server)
    run = agent.run("Tell me", "s", listen)
    kept = "".join(pieces)
    assert (run.stopped, run.answer) == ("interrupted", kept)
    assert said(memory) == ["Tell me", kept]
    assert agent.resume("s").answer == "told"
    last = server.asked[1]["messages"]
    assert [m["content"] for m in last[-3:-1]] == ["Tell me", kept]
    assert last[-1]["role"] == "user"
    assert "You were interrupted here" in last[-1]["content"]
    assert said(memory) == ["Tell me", kept, "told"]


def test_in_the_middle_of_an_action_and_after_a_restart(open_memory, scripted, make_agent):
    first = calls(call("shell", {"cmd": "df"}), text="Look first.")
    second = calls(call("shell", {"cmd": "stop"}, "c2"), call("shell", {"cmd": "ps"}, "c3"))
    server = scripted(first, second, calls(call("shell", {"cmd": "ps"}, "c4")), says("fine"))
    memory = open_memory()
    run = make_agent(server, shell, memory=memory).run("disk?", "s")
    assert (run.stopped, [s.status for s in run.steps]) == ("interrupted", ["completed", "in_progress"])
    assert said(memory) == ["disk?"]
    memory.close()

    again = open_memory()
    run = make_agent(server, shell, memory=again).resume("s")
    assert (run.answer, run.stopped) == ("fine", "done")
    behind = server.asked[2]["messages"]
    behind = behind[[m["content"] for m in behind].index("disk?") + 1 :]
    assert [m["role"] for m in behind] == ["assistant", "tool", "assistant", "tool", "user"]
    assert behind[0]["content"] == "Look first."
    assert behind[0]["tool_calls"][0]["function"] == {"name": "shell", "arguments": '{"cmd": "df"}'}
    assert (behind[1]["content"], behind[1]["tool_call_id"]) == ("ran df", behind[0]["tool_calls"][0]["id"])
    assert "it may or may not have been done" in behind[3]["content"]
    assert said(again) == ["disk?", "fine"]
    assert [e.outcome for e in again.episodes()] == ["success"]


def test_before_anything_was_said(memory, scripted, make_agent):
    def interrupted(asked: dict[str, Any]) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
        return says("late").body

    agent = make_agent(scripted(Reply(body=interrupted), says("now")))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # off in the background
    try:
        run = agent.run("hello", "s")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (run.stopped, run.answer, run.task_id) == ("interrupted", "", None)
    assert said(memory) == ["hello"]
    assert agent.resume("s").answer == "now"
    assert said(memory) == ["hello", "now"]


def test_just_behind_the_answer(memory, scripted, make_agent, monkeypatch):
    complete = memory.complete_task
    times: list[int] = []

    def interrupted(*args: Any, **options: Any) -> Any:
        times.append(1)
        if len(times) == 1:
            raise KeyboardInterrupt
        return complete(*args, **options)

    monkeypatch.setattr(memory, "complete_task", interrupted)
    run = make_agent(scripted(calls(call("shell", {"cmd": "df"})), says("full")), shell).run("disk?", "s")
    assert (run.stopped, run.answer) == ("done", "full")
    assert said(memory) == ["disk?", "full"]
    assert len(memory.episodes()) == 1


def test_a_new_question_ends_what_was_left_open(memory, scripted, make_agent):
    own = memory.start_task("s", "something of the caller's")
    server = scripted(calls(call("shell", {"cmd": "df"}), call("shell", {"cmd": "stop"}, "c2")), says("hi"))
    agent = make_agent(server, shell)
    agent.run("disk?", "s")
    assert agent.run("hello", "s").answer == "hi"
    (episode,) = memory.episodes()
    assert (episode.trigger_summary, episode.outcome, len(episode.steps)) == ("disk?", "partial", 2)
    assert [t.id for t in memory.tasks(status="in_progress")] == [own.id]


def test_resuming_an_older_question_asks_it_again(memory, scripted, make_agent):
    server = scripted(calls(call("shell", {"cmd": "df"}), call("shell", {"cmd": "stop"}, "c2")), says("full"))
    agent = make_agent(server, shell)
    agent.run("disk?", "s")
    memory.save_message("s", role="user", content="said without the agent")
    assert agent.resume("s").answer == "full"
    contents = [m["content"] for m in server.asked[1]["messages"]]
    assert contents[-6:-3] == ["disk?", None, "ran df"], "it is asked again, in front of what was done"
    assert contents.index("said without the agent") < contents.index("ran df")


def test_nothing_to_go_on_with_is_told_and_a_listener_that_fails_costs_no_words(memory, scripted, make_agent):
    refused(WrongState, "'s' has no question to go on with", make_agent(scripted()).resume, "s")

    def listen(piece: str) -> None:
        raise OSError("the terminal is gone")

    with pytest.raises(OSError, match="terminal is gone"):
        make_agent(scripted(turn("It is a long story."))).run("Tell me", "s", listen)
    assert said(memory) == ["Tell me", "It i"]


_KILLED = """
import os, sys
import jiyi
from jiyi.agent import Agent, action
from jiyi.endpoint import Endpoint
from jiyi.llm import OpenAILLM
from jiyi.testing import HashEmbedder

@action
def shell(cmd: str) -> str:
    "Run a command."
    if cmd == "die":
        os.kill(os.getpid(), 9)
    return f"ran {cmd}"

memory = jiyi.open(sys.argv[1], user_id="ana", embedder=HashEmbedder(), background=False)
llm = OpenAILLM("m", endpoint=Endpoint(base_url=sys.argv[2], api_key=""))
Agent("x", [shell], memory, llm=llm).run("disk?", "s")
"""


@pytest.mark.slow
def test_a_killed_process_goes_on_in_another(path, open_memory, scripted, make_agent):
    looks, dies = calls(call("shell", {"cmd": "df"})), calls(call("shell", {"cmd": "die"}, "c2"))
    server = scripted(looks, dies, says("full"))
    command = [sys.executable, "-c", _KILLED, str(path), server.url]
    assert subprocess.run(command, timeout=120, check=False).returncode == -9
    memory = open_memory()
    run = make_agent(server, shell, memory=memory).resume("s")
    assert (run.answer, run.steps[0].result) == ("full", "ran df")
    assert said(memory) == ["disk?", "full"]
