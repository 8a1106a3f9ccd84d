"""A summary by a slow model on a real socket: no window waits for it, and nothing of it is lost."""

import threading
import time

import pytest
from scripted_chat import ScriptedChat, answer, refuses, says
from scripted_endpoint import Reply

from jiyi.records import Scope
from jiyi.short_term.summary_updater import Background

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


def talk(memory, session="s", turns=30, first=0):
    for n in range(first, first + turns):
        memory.save_message(session, role="user", content=f"question {n} about service {n}?")
        memory.save_message(session, role="assistant", content=f"service {n} listens on port {9000 + n}")


def timed(memory, session="s"):
    began = time.perf_counter()
    window = memory.build_context(session, "?", 3_000)
    return window, time.perf_counter() - began


def written(window):
    return "the model wrote this" in window.messages[0]["content"]


@pytest.mark.slow
def test_a_window_takes_an_extract_while_the_model_writes(asking):
    gate = threading.Event()
    with ScriptedChat(held(gate)) as server:
        memory = asking(server)
        talk(memory)
        for _ in range(3):
            window, _ = timed(memory)
            assert "service 3" in window.messages[0]["content"]
            assert any("is writing the summary" in note for note in window.report.notes)
            assert memory.summary("s") is None
        assert not window.report.steps
        threading.Timer(0.5, gate.set).start()
        memory.flush()
        summary = memory.summary("s")
        assert (summary.text, summary.version, summary.method) == (WRITTEN, 1, "llm")
        window, _ = timed(memory)
        assert written(window)
        assert [step.what for step in window.report.steps] == ["summarised"]
        assert window.report.notes == ()
        assert memory.build_context("s", "?", 3_000).report.steps == ()
        assert memory.monitor.gauges().summaries == 1
    assert len(server.asked) == 1


@pytest.mark.slow
def test_the_setting_brings_the_waiting_back(asking):
    for options in ({"summary_wait": True}, {"background": False}):
        with ScriptedChat(slowly()) as server:
            memory = asking(server, **options)
            session = str(options)
            talk(memory, session)
            window, took = timed(memory, session)
            assert took >= SLOW
            assert written(window)


def test_a_failure_is_in_the_notes_of_the_next_window_which_tries_again(asking):
    with ScriptedChat(refuses("no credit left", status=402), says(WRITTEN)) as server:
        memory = asking(server)
        talk(memory)
        timed(memory)
        memory.flush()
        assert memory.summary("s") is None
        window, _ = timed(memory)
        assert any("no credit left" in note for note in window.report.notes)
        memory.flush()
        assert memory.summary("s").text == WRITTEN
        assert not any("no credit left" in note for note in timed(memory)[0].report.notes)


@pytest.mark.slow
def test_sessions_and_threads_share_one_worker_and_each_session_one_fold(asking):
    with ScriptedChat(*(slowly(seconds=0.2) for _ in range(3))) as server:
        memory = asking(server)
        for session in "abc":
            talk(memory, session)
        threads = [threading.Thread(target=timed, args=(memory, s)) for s in "abc" * 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(thread.name == "jiyi-summaries" for thread in threading.enumerate()) == 1
        memory.flush()
        assert [memory.summary(s).version for s in "abc"] == [1, 1, 1]
    assert len(server.asked) == 3


@pytest.mark.slow
def test_by_hand_the_fold_under_way_is_waited_for(asking):
    with ScriptedChat(slowly()) as server:
        memory = asking(server)
        talk(memory)
        timed(memory)
        assert memory.summarize_session("s").text == WRITTEN
    assert len(server.asked) == 1


@pytest.mark.slow
def test_closing_keeps_what_is_in_hand_and_leaves_the_rest_to_later(asking):
    gate = threading.Event()
    with ScriptedChat(held(gate), says(WRITTEN)) as server:
        memory = asking(server)
        for session in "ab":
            talk(memory, session)
            timed(memory, session)
        while not server.asked:
            time.sleep(0.01)
        threading.Timer(0.5, gate.set).start()
        memory.close()
        again = asking(server)
        assert again.summary("a").text == WRITTEN
        assert again.summary("b") is None
        timed(again, "b")
        again.flush()
        assert len(again.summary("b").covers) == 60 - 6


def test_what_is_forgotten_meanwhile_is_in_no_summary_and_no_window(asking):
    gate = threading.Event()
    with ScriptedChat(held(gate, "- the gate opens at 7391"), says(WRITTEN)) as server:
        memory = asking(server)
        secret = memory.save_message("s", role="user", content="Remember: the gate opens at 7391")
        talk(memory)
        assert "7391" in str(timed(memory)[0].messages)
        while not server.asked:
            time.sleep(0.01)
        memory.forget(ids=[secret.id])
        assert "7391" not in str(timed(memory)[0].messages)
        gate.set()
        memory.flush()
        assert memory.summary("s") is None
        window, _ = timed(memory)
        assert any("changed meanwhile" in note for note in window.report.notes)
        memory.flush()
        assert memory.summary("s").text == WRITTEN


def test_two_memories_that_fold_one_session_leave_one_summary(asking):
    gate = threading.Event()
    with ScriptedChat(held(gate, "- one"), held(gate, "- other")) as server:
        first, second = asking(server), asking(server)
        talk(first)
        timed(first)
        timed(second)
        while len(server.asked) < 2:
            time.sleep(0.01)
        gate.set()
        first.flush()
        second.flush()
        assert first.summary("s") == second.summary("s")
        assert first.summary("s").version == 1
        assert timed(second)[0].messages == timed(first)[0].messages


def test_a_fold_another_process_did_before_its_turn_is_not_paid_twice(asking):
    gate = threading.Event()
    with ScriptedChat(held(gate, "- busy"), says(WRITTEN)) as server:
        first, second = asking(server), asking(server)
        talk(first, "busy")
        talk(first, "s")
        timed(first, "busy")
        timed(first, "s")  # waits for the other
        while not server.asked:
            time.sleep(0.01)
        second.summarize_session("s")
        gate.set()
        first.flush()
        assert second.summary("s").version == 1
    assert len(server.asked) == 2


def test_one_piece_of_work_of_a_key_at_a_time_and_none_after_the_end():
    background = Background[Scope, str]("test")
    hold, key = threading.Event(), Scope(user_id="ana", session_id="s")
    background.put(key, lambda: str(hold.wait(10)))
    assert not background.put(key, lambda: "again")
    hold.set()
    background.wait(key)
    assert background.take(key) == "True"
    assert background.take(key) is None
    background.close()
    assert not background.put(key, lambda: "late")
