"""Reading talk in the background: what is due, what becomes of it, and what happens when the model fails."""

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from local_llm import local_llm
from reading_model import ReadingModel, line, read_fact, says_facts
from scripted_chat import refuses, says
from scripted_endpoint import Reply

from jiyi.embeddings import Endpoint
from jiyi.errors import LLMUnreachable
from jiyi.llm import OpenAILLM
from jiyi.testing import ManualClock

__all__ = ["local_llm"]

START = datetime(2026, 1, 5, 9, tzinfo=UTC)


@pytest.fixture
def clock():
    return ManualClock(START)


@pytest.fixture
def server():
    with ReadingModel() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, path):
    return path if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def make(open_memory, place, clock, server, plain_environment):
    """Open memories with a language model that reads."""
    models = []

    def build(**options):
        endpoint = Endpoint(base_url=server.url, api_key="", retries=0, timeout=10)
        models.append(OpenAILLM("m", endpoint=endpoint, time_limit=options.pop("time_limit", 10)))
        chosen = {"llm": models[-1], "clock": clock, "summaries": "off", "reader_messages": 4} | options
        return open_memory(place, **chosen)

    yield build
    for model in models:
        model.close()


@pytest.fixture
def plain_environment(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def talk(memory, numbers, session="s", **options):
    return [memory.save_message(session, role="user", content=line(n), **options) for n in numbers]


def keepers(memory, **options):
    return {fact.subject: fact.object for fact in memory.facts(**options) if fact.predicate == "keeper"}


def wait_until(condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_talk_that_has_come_to_rest_is_read_by_itself(make, server):
    memory = make(background=True, clock=lambda: datetime.now(UTC), reader_pause_minutes=0.002)
    (said,) = talk(memory, [1])
    wait_until(lambda: keepers(memory) == {"pump-1": "Mei"})
    (fact,) = memory.facts("pump-1")
    assert (fact.sources, fact.method, fact.text) == ((said.id,), "llm", "if pump-1 breaks, ask Mei")
    wait_until(lambda: memory.stats()["vectors_pending"] == 0)
    assert memory.stats()["messages_unread"] == 0
    talk(memory, [2])
    wait_until(lambda: "pump-2" in keepers(memory))
    assert len(server.asked) == 2


def test_a_full_stretch_is_read_at_once_and_the_rest_when_the_session_rests(make, server, clock):
    memory = make()
    talk(memory, range(6))
    done = memory.maintain().reading
    assert (done.stretches, done.new, done.waiting, done.notes) == (1, 4, 2, ())
    assert memory.stats()["messages_unread"] == 2
    assert memory.maintain().reading.stretches == 0
    clock.forward(minutes=10)
    assert memory.maintain().reading.new == 2
    assert set(keepers(memory)) == {f"pump-{n}" for n in range(6)}
    assert len(server.asked) == 2
    last = server.asked[1]["messages"][0]["content"]
    assert f"> user: {line(3)}" in last, "what was said just before is shown"
    assert memory.maintain().reading.stretches == 0


def test_a_stretch_is_no_longer_than_its_tokens(make, server, clock):
    memory = make(reader_messages=20, reader_tokens=60)
    talk(memory, range(6))
    clock.forward(hours=1)
    assert memory.maintain().reading.new == 6
    assert len(server.asked) == 2 or len(server.asked) == 3


def test_every_user_has_a_cursor_and_agents_keep_their_own_facts(make, clock):
    memory = make()
    talk(memory, [1], agent_id="ops")
    talk(memory, [2], agent_id="dev")
    talk(memory, [3], user_id="ben")
    clock.forward(hours=1)
    memory.maintain()
    assert keepers(memory, agent_id="ops") == {"pump-1": "Mei"}
    assert keepers(memory, agent_id="dev") == {"pump-2": "Mei"}
    assert keepers(memory, user_id="ben") == {}
    assert memory.stats(user_id="ben")["messages_unread"] == 1
    assert memory.maintain(user_id="ben").reading.new == 1


def test_tool_outputs_and_empty_talk_ask_nobody(make, server, clock):
    memory = make()
    memory.save_message("s", role="system", content="be kind")
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    memory.save_message("s", {"role": "assistant", "content": None, "tool_calls": [call]})
    memory.save_message("s", {"role": "tool", "tool_call_id": "c", "content": line(1)})
    clock.forward(hours=1)
    assert memory.maintain().reading.waiting == 0
    assert server.asked == []


def test_what_is_read_takes_the_place_of_what_was_known(make, server, clock):
    memory = make()
    memory.remember(subject="pump-1", predicate="负责人", object="Bob", category="relation", speaker="user")
    clock.forward(days=1)
    talk(memory, [1])
    clock.forward(hours=1)
    words = "if pump-1 breaks, ask Mei"
    server.replies.append(says_facts(read_fact(1, "pump-1", "Mei", words, replaces=1)))
    assert memory.maintain().reading.changed == 1
    old, new = memory.history("pump-1")
    assert (old.object, old.status, old.superseded_by) == ("Bob", "superseded", new.id)
    assert (new.object, new.status, new.predicate) == ("Mei", "active", "负责人")


def test_words_that_nobody_said_are_refused_and_counted(make, server, clock):
    memory = make()
    talk(memory, [1, 2])
    clock.forward(hours=1)
    server.replies.append(
        says_facts(
            read_fact(1, "pump-1", "Mei", "if pump-1 breaks, ask Mei"),
            read_fact(2, "pump-2", "Mei", "if pump-2 breaks ask Mei"),
            read_fact(2, "pump-2", "Zoe", "if pump-2 breaks, ask Mei"),
        )
    )
    done = memory.maintain().reading
    assert (done.new, done.refused) == (1, 2)
    assert memory.reading().refused == 2
    assert keepers(memory) == {"pump-1": "Mei"}


BAD = {
    "no JSON": [says("I cannot"), says("really not")],
    "another form": [says('{"facts": 5}')] * 2,
    "foreign messages": [says_facts(read_fact(9, "pump-1", "Mei", "x"))] * 2,
    "foreign facts": [says_facts(read_fact(1, "pump-1", "Mei", "x", replaces=4))] * 2,
}


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
        assert memory.maintain().reading.waiting == 2, "it waits"
        clock.forward(minutes=pause)
    talk(memory, [7], "good")
    clock.forward(hours=1)
    server.replies += [Reply(), *BAD[kind]]
    done = memory.maintain().reading
    assert (done.stretches, done.passed_over, done.waiting) == (1, 1, 0)
    assert memory.reading().passed_over == 1
    assert keepers(memory) == {"pump-7": "Mei"}
    assert [fact.object for fact in memory.facts("edge-02")] == ["8443"], "the patterns have read it"


AWAY = {
    "refused": lambda: refuses("bad key", status=401),
    "broken": lambda: Reply(status=500, body={"error": {"message": "boom"}}),
    "died": lambda: Reply(body=b"{}", cut=True),
    "silent": lambda: Reply(silent=True),
    "endless": lambda: Reply(body=b"x" * 10_000, drip=0.01),
}


@pytest.mark.parametrize("kind", AWAY)
def test_while_the_model_cannot_be_had_everybody_waits_and_nothing_is_lost(make, server, clock, kind):
    memory = make(time_limit=1)
    reader = memory._long_term.reader
    for session in ("a", "b"):
        talk(memory, [1, 2], session)
    clock.forward(hours=1)
    for failures, pause in ((1, 1), (2, 2), (3, 4)):
        server.replies[:] = [AWAY[kind]() for _ in range(3)]
        assert reader._turn() is False
        state = memory.reading()
        assert (state.failures, state.waiting) == (failures, 4)
        assert state.again_at == clock() + timedelta(minutes=pause)
        assert str(reader.last_error) in state.error
        asked = len(server.asked)
        assert reader._turn() is False
        assert len(server.asked) == asked, "it is left alone"
        clock.forward(minutes=pause)
    server.replies.clear()
    clock.forward(hours=1)
    while reader._turn():
        pass
    assert set(keepers(memory)) == {"pump-1", "pump-2"}
    state = memory.reading()
    assert (state.failures, state.error, state.waiting, state.again_at) == (0, "", 0, None)


def test_whoever_maintains_by_hand_does_not_wait(make, server, clock):
    memory = make()
    talk(memory, [1], "a")
    talk(memory, [2], "b")
    clock.forward(hours=1)
    server.replies.append(refuses("bad key", status=401))
    assert "bad key" in memory.maintain().reading.notes[0]
    assert memory.maintain().reading.stretches == 1


def test_a_model_that_is_no_endpoint_may_raise_anything(open_memory, clock):
    class Broken:
        def complete(self, messages, **options):
            raise KeyError("gone")

    memory = open_memory(llm=Broken(), clock=clock)
    talk(memory, [1])
    clock.forward(hours=1)
    assert "KeyError('gone')" in memory.maintain().reading.notes[0]
    assert isinstance(memory._long_term.reader.last_error, LLMUnreachable)


def test_limits_of_cost_hold_for_the_whole_database(make, server, clock):
    memory = make(reader_calls_per_hour=2)
    other = make(reader_calls_per_hour=2)
    for session in "abc":
        talk(memory, [1], session)
    clock.forward(hours=1)
    assert memory.maintain().reading.stretches == 2
    for one in (memory, other):
        done = one.maintain().reading
        assert (done.stretches, done.waiting) == (0, 1)
        assert "reader_calls_per_hour=2" in done.notes[0]
    assert len(server.asked) == 2
    assert (memory.reading().calls, memory.reading().tokens) == (2, 20), "as the endpoint counts"
    clock.forward(hours=1)
    assert other.maintain().reading.stretches == 1
    assert (memory.reading().calls, memory.reading().tokens) == (1, 30)


def test_a_day_has_so_many_tokens(make, clock):
    memory = make(reader_tokens_per_day=10)
    for session in "ab":
        talk(memory, [1], session)
    clock.forward(hours=1)
    done = memory.maintain().reading
    assert done.stretches == 1
    assert "reader_tokens_per_day=10" in done.notes[0]
    clock.forward(days=1)
    assert memory.maintain().reading.stretches == 1


def test_a_second_answer_to_mend_the_first_costs_as_well(make, server, clock):
    memory = make()
    talk(memory, [1])
    clock.forward(hours=1)
    server.replies.append(says("no JSON"))
    assert memory.maintain().reading.new == 1
    assert memory.reading().calls == 2


def test_it_can_be_switched_off(make, server, clock):
    for options in ({"reader": "off"}, {"learn_facts": False}, {"llm": None}):
        memory = make(**options)
        talk(memory, [1])
        clock.forward(hours=1)
        assert memory.maintain().reading is None
        assert memory.reading() is None
        assert "messages_unread" not in memory.stats()
    assert server.asked == []
    assert make().maintain(dry_run=True).reading is None


def test_nothing_waits_for_the_model(make, server):
    memory = make(background=True, clock=lambda: datetime.now(UTC), reader_pause_minutes=0, time_limit=30)
    server.replies += [Reply(silent=True)] * 5
    talk(memory, [1])
    wait_until(lambda: server.asked)
    began = time.monotonic()
    talk(memory, range(20))
    memory.search("pump")
    memory.build_context("s", "pump-3?")
    memory.remember("pump-9 is blue")
    assert time.monotonic() - began < 5
    began = time.monotonic()
    memory.close()
    assert time.monotonic() - began < 5


def test_what_was_being_read_at_the_end_is_free_at_once(make, server):
    now = lambda: datetime.now(UTC)  # noqa: E731
    memory = make(background=True, clock=now, reader_pause_minutes=0, time_limit=30)
    server.replies.append(Reply(silent=True))
    talk(memory, [1])
    wait_until(lambda: server.asked)
    memory.close()
    later = make(clock=now, reader_pause_minutes=0)
    assert later.maintain().reading.new == 1


def test_a_session_that_begins_anew_is_read_anew(make, server, clock):
    memory = make()
    talk(memory, [1, 2])
    clock.forward(hours=1)
    memory.maintain()
    memory.forget(session_id="s", purge=False)
    assert memory.stats()["messages_unread"] == 0
    talk(memory, [3])
    clock.forward(hours=1)
    assert memory.maintain().reading.new == 1
    assert keepers(memory) == {"pump-3": "Mei"}
    assert len(server.asked) == 2


def test_a_claim_that_is_over_changes_nothing(make, server, clock):
    memory, other = make(), make()
    talk(memory, [1])
    clock.forward(hours=1)

    def slow(asked):
        clock.forward(hours=1)
        assert other.maintain().reading.new == 1
        return ReadingModel.honest(asked)

    server.replies.append(Reply(body=slow))
    done = memory.maintain().reading
    assert (done.stretches, done.waiting) == (0, 0)
    (fact,) = memory.facts("pump-1")
    assert len(fact.sources) == 1
    assert fact.confidence == 0.7, "it was not said twice"


def test_several_threads_read_each_stretch_once(make, server, clock):
    memories = [make() for _ in range(3)]
    for number in range(12):
        talk(memories[0], [number], f"s-{number}")
    clock.forward(hours=1)
    threads = [threading.Thread(target=memory.maintain) for memory in memories]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keepers(memories[0])) == 12
    assert len(server.asked) == 12


@pytest.mark.slow
def test_a_real_model_reads_or_says_why_not(open_memory, clock, local_llm, plain_environment):
    llm = OpenAILLM("smollm2", endpoint=Endpoint(base_url=local_llm, api_key=""), time_limit=120)
    memory = open_memory(llm=llm, clock=clock)
    memory.save_message("s", role="user", content="My name is Ana and I live in Lisbon.")
    clock.forward(hours=1)
    done = memory.maintain().reading
    assert done.stretches or done.notes
    assert memory.reading().calls >= 1
    for fact in memory.facts():
        assert fact.method == "patterns" or fact.text in "My name is Ana and I live in Lisbon."
    llm.close()
