"""A summary by a slow model on a real socket: no window waits for it, and nothing of it is lost."""

import threading
import time

import pytest
from at_once import at_once, wait_until
from doing import talk
from scripted_chat import ScriptedChat, answer, refuses, says
from scripted_endpoint import Reply

from jiyi.records import Scope
from jiyi.short_term.summaries import Background, SummaryState

SLOW = 1.0  # seconds the model takes
WRITTEN = "- the model wrote this"


def slowly(text=WRITTEN, seconds=SLOW):
    """A reply that comes late."""

    def body(asked):
        time.sleep(seconds)
        return answer(text)

    return Reply(body=body)


def held(gate, text=WRITTEN):
    """A reply that comes when the gate is opened."""
    return Reply(body=lambda asked: answer(text) if gate.wait(20) else None)


@pytest.fixture
def asking(open_memory, llm_at):
    """Open memories that ask a server."""

    def make(server, **options):
        llm = llm_at(server.url, time_limit=10)
        return open_memory(**{"llm": llm, "background": True, "reader": "off"} | options)

    return make


def window(memory, session="s"):
    return memory.build_context(session, "?", 3_000)


def written(window):
    return "the model wrote this" in window.messages[0]["content"]


@pytest.mark.slow
def test_a_window_takes_an_extract_while_the_model_writes(asking):
    gate = threading.Event()
    with ScriptedChat(held(gate)) as server:
        memory = asking(server)
        talk(memory, 30)
        for _ in range(3):
            shown = window(memory)
            assert "service 3" in shown.messages[0]["content"]
            assert any("is writing the summary" in note for note in shown.report.notes)
            assert memory.summary("s") is None
        assert not shown.report.steps
        threading.Timer(0.5, gate.set).start()
        memory.flush()
        summary = memory.summary("s")
        assert (summary.text, summary.version, summary.method) == (WRITTEN, 1, "llm")
        shown = window(memory)
        assert written(shown)
        assert [step.what for step in shown.report.steps] == ["summarised"]
        assert shown.report.notes == ()
        assert window(memory).report.steps == ()
        assert memory.monitor.gauges().summaries == 1
    assert len(server.asked) == 1


@pytest.mark.slow
def test_the_setting_brings_the_waiting_back(asking):
    for options in ({"summary_wait": True}, {"background": False}):
        with ScriptedChat(slowly()) as server:
            memory = asking(server, **options)
            session = str(options)
            talk(memory, 30, session)
            began = time.perf_counter()
            assert written(window(memory, session))
            assert time.perf_counter() - began >= SLOW


def test_a_failure_is_in_the_notes_of_the_next_window_which_tries_again(asking):
    with ScriptedChat(refuses("no credit left", status=402), says(WRITTEN)) as server:
        memory = asking(server)
        talk(memory, 30)
        window(memory)
        memory.flush()
        assert memory.summary("s") is None
        assert any("no credit left" in note for note in window(memory).report.notes)
        memory.flush()
        assert memory.summary("s").text == WRITTEN
        assert not any("no credit left" in note for note in window(memory).report.notes)


@pytest.mark.slow
def test_sessions_and_threads_share_one_worker_and_each_session_one_fold(asking):
    with ScriptedChat(*(slowly(seconds=0.2) for _ in range(3))) as server:
        memory = asking(server)
        for session in "abc":
            talk(memory, 30, session)
        at_once(lambda session: window(memory, session), "abc" * 4)
        assert sum(thread.name == "jiyi-summaries" for thread in threading.enumerate()) == 1
        memory.flush()
        assert [memory.summary(s).version for s in "abc"] == [1, 1, 1]
    assert len(server.asked) == 3


@pytest.mark.slow
def test_by_hand_the_fold_under_way_is_waited_for(asking):
    with ScriptedChat(slowly()) as server:
        memory = asking(server)
        talk(memory, 30)
        window(memory)
        assert memory.summarize_session("s").text == WRITTEN
    assert len(server.asked) == 1


@pytest.mark.slow
def test_closing_keeps_what_is_in_hand_and_leaves_the_rest_to_later(asking):
    gate = threading.Event()
    with ScriptedChat(held(gate), says(WRITTEN)) as server:
        memory = asking(server)
        for session in "ab":
            talk(memory, 30, session)
            window(memory, session)
        wait_until(lambda: server.asked)
        threading.Timer(0.5, gate.set).start()
        memory.close()
        again = asking(server)
        assert again.summary("a").text == WRITTEN
        assert again.summary("b") is None
        window(again, "b")
        again.flush()
        assert len(again.summary("b").covers) == 60 - 6


def test_what_is_forgotten_meanwhile_is_in_no_summary_and_no_window(asking):
    gate = threading.Event()
    with ScriptedChat(held(gate, "- the gate opens at 7391"), says(WRITTEN)) as server:
        memory = asking(server)
        secret = memory.save_message("s", role="user", content="Remember: the gate opens at 7391")
        talk(memory, 30)
        assert "7391" in str(window(memory).messages)
        wait_until(lambda: server.asked)
        memory.forget(ids=[secret.id])
        assert "7391" not in str(window(memory).messages)
        gate.set()
        memory.flush()
        assert memory.summary("s") is None
        assert any("changed meanwhile" in note for note in window(memory).report.notes)
        memory.flush()
        assert memory.summary("s").text == WRITTEN


def test_two_memories_that_fold_one_session_leave_one_summary(asking):
    gate = threading.Event()
    with ScriptedChat(held(gate, "- one"), held(gate, "- other")) as server:
        first, second = asking(server), asking(server)
        talk(first, 30)
        window(first)
        window(second)
        wait_until(lambda: len(server.asked) == 2)
        gate.set()
        first.flush()
        second.flush()
        assert first.summary("s") == second.summary("s")
        assert first.summary("s").version == 1
        assert window(second).messages == window(first).messages


def test_a_fold_another_process_did_before_its_turn_is_not_paid_twice(asking):
    gate = threading.Event()
    with ScriptedChat(held(gate, "- busy"), says(WRITTEN)) as server:
        first, second = asking(server), asking(server)
        talk(first, 30, "busy")
        talk(first, 30)
        window(first, "busy")
        window(first, "s")  # waits for the other
        wait_until(lambda: server.asked)
        second.summarize_session("s")
        gate.set()
        first.flush()
        assert second.summary("s").version == 1
    assert len(server.asked) == 2


def test_one_fold_of_a_session_at_a_time_and_none_after_the_end():
    background, gate = Background(), threading.Event()
    scope, done = Scope(user_id="ana", session_id="s"), SummaryState(notes=("done",))
    background.put(scope, lambda: done if gate.wait(10) else SummaryState())
    assert not background.put(scope, SummaryState)
    gate.set()
    background.wait(scope)
    assert background.take(scope) is done
    assert background.take(scope) is None
    background.close()
    assert not background.put(scope, SummaryState)
