"""Calls that cannot be made, and endpoints that fail: somebody is told, and nothing is lost."""

import pytest
from scripted_chat import call, calls, delta, refuses, says, streams
from tables import read_tables

from jiyi.agent import action


@action
def divide(a: int, b: int = 2) -> float:
    """Divide."""
    return a / b


BAD = [*read_tables(__file__)["tool, arguments, what is told"], ("divide", "[" * 100_000, "no JSON object")]


@pytest.mark.parametrize(("tool", "arguments", "told"), BAD)
def test_a_bad_call_is_told_to_the_model_which_mends_it(memory, scripted, make_agent, tool, arguments, told):
    server = scripted(calls(call(tool, arguments)), calls(call("divide", {"a": 10}, "c2")), says("5"))
    run = make_agent(server, divide).run("go", "s")
    assert (run.answer, run.stopped) == ("5", "done")
    assert [s.status for s in run.steps] == ["failed", "completed"]
    assert told in server.asked[1]["messages"][-1]["content"] or told in (run.steps[0].result or "")
    assert run.steps[1].result == "5.0"
    for asked in server.asked:
        for message in asked["messages"]:
            for one in message.get("tool_calls", ()):
                assert one["function"]["arguments"].startswith("{"), "what is sent back is JSON"


def test_the_same_failing_call_three_times_ends_the_run(memory, scripted, make_agent):
    zero, other = call("divide", {"a": 1, "b": 0}), call("divide", {"a": 2, "b": 0}, "c2")
    server = scripted(calls(zero, other), calls(zero), calls(other), calls(zero), says("never"))
    run = make_agent(server, divide).run("go", "s")
    assert (run.stopped, len(server.asked), len(run.steps)) == ("failed", 4, 5)
    assert run.reason.startswith("the same call failed 3 times: divide: ZeroDivisionError")
    assert [e.outcome for e in memory.episodes()] == ["failed"]
    assert memory.current_task("s") is None


@pytest.mark.parametrize("text", ["\x00 nul", "half \ud83d a smile", "\x1b[31mred", "…" * 10])
def test_any_text_may_come_back(scripted, make_agent, text):
    @action
    def odd() -> str:
        """Give back something odd."""
        return text

    server = scripted(calls(call("odd", {})), calls(call("odd", {"x": text}, "c2")), says("ok"))
    run = make_agent(server, odd).run(text or "x", "s")
    assert (run.stopped, len(run.steps)) == ("done", 2)


# --- endpoints that fail


def test_an_endpoint_that_is_away_loses_nothing(memory, scripted, make_agent):
    server = scripted(calls(call("divide", {"a": 6})), refuses("busy", status=503), says("3"))
    agent = make_agent(server, divide)
    run = agent.run("6 / 2?", "s")
    assert (run.stopped, run.answer, len(run.steps)) == ("failed", "", 1)
    assert "HTTP 503" in run.reason
    task = memory.current_task("s")
    assert task is not None
    assert task.steps[0].result == "3.0"
    assert [m.content for m in memory.session_messages("s")] == ["6 / 2?"]
    again = agent.resume("s")
    assert (again.answer, again.stopped, again.task_id, len(again.steps)) == ("3", "done", task.id, 1)
    assert [m.content for m in memory.session_messages("s")] == ["6 / 2?", "3"]


def test_a_model_that_refuses_fails_the_task(memory, scripted, make_agent):
    server = scripted(calls(call("divide", {"a": 6})), refuses("too long for the context window"))
    run = make_agent(server, divide).run("6 / 2?", "s")
    assert run.stopped == "failed"
    assert "too long" in run.reason
    (episode,) = memory.episodes()
    assert (episode.outcome, len(episode.steps)) == ("failed", 1)
    assert "too long" in episode.outcome_summary


def test_what_was_said_before_the_connection_broke_is_kept(memory, scripted, make_agent):
    server = scripted(streams(delta(content="The port is "), cut=True))
    pieces: list[str] = []
    run = make_agent(server).run("Which port?", "s", pieces.append)
    assert (run.stopped, run.answer, pieces) == ("failed", "The port is ", ["The port is "])
    assert "broke off" in run.reason
    assert [m.content for m in memory.session_messages("s")] == ["Which port?", "The port is "]
