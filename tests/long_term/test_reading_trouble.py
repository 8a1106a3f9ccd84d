"""A language model that cannot be had, or answers badly: who waits, what is tried again, what is told."""

import json
import time
from datetime import timedelta

import pytest
from reading_model import EMPTY, read_fact, says_facts
from reading_talk import keepers, make, read_later, server, talk
from scripted_chat import refuses, says
from scripted_endpoint import Reply

from jiyi.errors import LLMRefused, LLMUnreachable
from jiyi.llm import Reply as Said

__all__ = ["make", "server"]

BAD = {
    "no JSON": [says("I cannot: swordfish"), says("really not: swordfish")],
    "ten thousand facts": [says_facts(*[read_fact(1, "pump-1", "Mei", "x")] * 10_000)] * 2,
    "another form": [says('{"facts": 5}')] * 2,
    "foreign messages": [says_facts(read_fact(9, "pump-1", "Mei", "x"))] * 2,
    "foreign facts": [says_facts(read_fact(1, "pump-1", "Mei", "x", replaces=4))] * 2,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BAD)
def test_a_stretch_without_a_usable_answer_waits_and_is_passed_over_in_the_end(make, server, clock, kind):
    memory = make()
    talk(memory, [1], "bad")
    memory.save_message("bad", role="user", content="The port of edge-02 is 8443.")
    clock.forward(hours=1)
    for pause in (1, 2):
        server.replies += BAD[kind]
        done = memory.maintain().reading
        assert (done.stretches, done.waiting) == (0, 2)
        assert done.notes[0].startswith("the language model read nothing: ")
        assert memory.reading().error in done.notes
        assert "swordfish" not in str(done), "what an answer holds may be somebody's"
        assert memory.maintain().reading.waiting == 2, "it waits"
        clock.forward(minutes=pause)
    talk(memory, [7], "good")
    server.replies += [Reply(), *BAD[kind]]
    done = read_later(memory, clock)
    assert (done.stretches, done.passed_over, done.waiting) == (2, 1, 0)
    assert (memory.reading().passed_over, keepers(memory)) == (1, {"pump-7": "Mei"})
    assert [fact.object for fact in memory.facts("edge-02")] == ["8443"], "the patterns have read it"


AWAY = {
    "refused": (3, lambda: refuses("bad key", status=401)),
    "broken": (3, lambda: Reply(status=500, body={"error": {"message": "boom"}})),
    "died": (3, lambda: Reply(body=b"{}", cut=True)),
    "silent": (1, lambda: Reply(silent=True)),
    "endless": (1, lambda: Reply(body=b"x" * 100, drip=0.01)),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", AWAY)
def test_while_the_model_cannot_be_had_everybody_waits_and_nothing_is_lost(make, server, clock, kind):
    rounds, reply = AWAY[kind]
    memory = make(time_limit=0.3)
    reader = memory._long_term.reader
    for session in ("a", "b"):
        talk(memory, [1, 2], session)
    clock.forward(hours=1)
    for failures in range(1, rounds + 1):
        server.replies[:] = [reply() for _ in range(3)]
        assert reader._run_once() is False
        state, pause = memory.reading(), timedelta(minutes=2 ** (failures - 1))
        assert (state.failures, state.waiting, state.again_at) == (failures, 4, clock() + pause)
        assert str(reader.last_error) in state.error
        asked = len(server.asked)
        assert reader._run_once() is False
        assert len(server.asked) == asked, "it is left alone"
        clock.forward(seconds=pause.total_seconds())
    server.replies.clear()
    until = time.monotonic() + 30  # the endpoint is skipped for some seconds of another clock
    while memory.reading().waiting and time.monotonic() < until:
        clock.forward(hours=1)
        if not reader._run_once():
            time.sleep(0.1)
    assert set(keepers(memory)) == {"pump-1", "pump-2"}
    state = memory.reading()
    assert (state.failures, state.error, state.waiting, state.again_at) == (0, "", 0, None)


@pytest.mark.slow
def test_a_network_dead_for_days_is_asked_once_an_hour_and_nothing_is_passed_over(make, server, clock):
    memory = make()
    reader = memory._long_term.reader
    for number in range(3):
        talk(memory, [number], f"s-{number}")
    clock.forward(hours=1)
    server.replies += [refuses("down", status=401)] * 100
    for _ in range(2 * 48):
        reader._run_once()
        clock.forward(minutes=30)
    assert 48 <= len(server.asked) <= 60
    assert (memory.reading().passed_over, memory.reading().waiting) == (0, 3)
    server.replies.clear()
    assert read_later(memory, clock).new == 3


class Choosy:
    """Reads every stretch but those with one word, and counts the messages of these."""

    def __init__(self, word, error):
        self.word, self.error, self.tried = word, error, []

    def complete(self, messages, **options):
        shown = messages[0]["content"].rpartition("Conversation:")[2]
        if self.word in shown:
            self.tried.append(shown.count("] 2026-"))
            raise self.error
        return Said(text=json.dumps(EMPTY))


@pytest.mark.parametrize("error", [LLMRefused("too long"), LLMUnreachable("timed out")], ids=repr)
def test_what_always_fails_stops_nothing_else_and_shrinks_until_it_is_passed_over(open_memory, clock, error):
    model = Choosy("poison", error)
    memory = open_memory(llm=model, clock=clock, reader_messages=4)
    reader = memory._long_term.reader
    talk(memory, range(10), "fine")
    memory.save_message("bad", role="user", content="poison")
    talk(memory, [11, 12, 13], "bad")
    for number in range(12):
        talk(memory, [1], f"more-{number}")
        clock.forward(hours=2)
        while reader._run_once():
            pass
    assert model.tried == [4, 2, 1, 1, 1, 1, 1, 1]
    assert (memory.reading().waiting, memory.reading().passed_over) == (0, 1)


@pytest.mark.slow
def test_a_stretch_that_failed_is_tried_again_at_half_its_length(make, server, clock):
    memory = make(reader_messages=8)
    talk(memory, range(8))
    for _ in range(2):
        server.replies[:] = [says("no"), says("no")]
        assert memory.maintain().reading.stretches == 0
        clock.forward(minutes=2)
    assert memory.maintain().reading.new == 2
    assert read_later(memory, clock).new == 6


def test_whoever_maintains_by_hand_does_not_wait(make, server, clock):
    memory = make()
    talk(memory, [1], "a")
    talk(memory, [2], "b")
    server.replies.append(refuses("bad key", status=401))
    assert "bad key" in read_later(memory, clock).notes[0]
    assert memory.maintain().reading.stretches == 1


def test_a_model_that_is_no_endpoint_may_raise_anything(open_memory, clock):
    memory = open_memory(llm=Choosy("pump-1", KeyError("gone")), clock=clock)
    talk(memory, [1])
    assert "KeyError('gone')" in read_later(memory, clock).notes[0]
    assert isinstance(memory._long_term.reader.last_error, LLMUnreachable)
