"""Reading talk in the background: what is due, what becomes of it, and what happens when the model fails."""

import threading
import time
from datetime import UTC, datetime

import pytest
from at_once import at_once, wait_until
from reading_model import ReadingModel, line, read_fact, says_facts
from reading_talk import keepers, make, read_later, server, talk
from scripted_endpoint import Reply

from jiyi.embeddings import Endpoint
from jiyi.llm import OpenAILLM

__all__ = ["make", "server"]


@pytest.mark.slow
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
    assert (memory.stats()["messages_unread"], memory.maintain().reading.stretches) == (2, 0)
    clock.forward(minutes=10)
    assert memory.maintain().reading.new == 2
    assert (set(keepers(memory)), len(server.asked)) == ({f"pump-{n}" for n in range(6)}, 2)
    last = server.asked[1]["messages"][0]["content"]
    assert f"> user: {line(3)}" in last, "what was said just before is shown"
    assert memory.maintain().reading.stretches == 0


def test_a_stretch_is_no_longer_than_its_tokens(make, server, clock):
    memory = make(reader_messages=20, reader_tokens=60)
    talk(memory, range(6))
    assert read_later(memory, clock).new == 6
    assert len(server.asked) == 2 or len(server.asked) == 3


def test_every_user_has_a_cursor_and_agents_keep_their_own_facts(make, clock):
    memory = make()
    talk(memory, [1], agent_id="ops")
    talk(memory, [2], agent_id="dev")
    talk(memory, [3], user_id="ben")
    read_later(memory, clock)
    assert keepers(memory, agent_id="ops") == {"pump-1": "Mei"}
    assert (keepers(memory, agent_id="dev"), keepers(memory, user_id="ben")) == ({"pump-2": "Mei"}, {})
    assert memory.stats(user_id="ben")["messages_unread"] == 1
    assert memory.maintain(user_id="ben").reading.new == 1


def test_tool_outputs_and_empty_talk_ask_nobody(make, server, clock):
    memory = make()
    memory.save_message("s", role="system", content="be kind")
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    memory.save_message("s", {"role": "assistant", "content": None, "tool_calls": [call]})
    memory.save_message("s", {"role": "tool", "tool_call_id": "c", "content": line(1)})
    assert read_later(memory, clock).waiting == 0
    assert server.asked == []


def test_what_is_read_takes_the_place_of_what_was_known(make, server, clock):
    memory = make()
    memory.remember(subject="pump-1", predicate="负责人", object="Bob", category="relation", speaker="user")
    clock.forward(days=1)
    talk(memory, [1])
    clock.forward(hours=1)
    server.replies.append(says_facts(read_fact(1, "pump-1", "Mei", "if pump-1 breaks, ask Mei", replaces=1)))
    assert memory.maintain().reading.changed == 1
    old, new = memory.history("pump-1")
    assert (old.object, old.status, old.superseded_by) == ("Bob", "superseded", new.id)
    assert (new.object, new.status, new.predicate) == ("Mei", "active", "负责人")


def test_words_that_nobody_said_are_refused_and_counted(make, server, clock):
    memory = make()
    talk(memory, [1, 2])
    clock.forward(hours=1)
    right = read_fact(1, "pump-1", "Mei", "if pump-1 breaks, ask Mei")
    wrong = [("Mei", "if pump-2 breaks ask Mei"), ("Zoe", "if pump-2 breaks, ask Mei")]
    server.replies.append(says_facts(right, *(read_fact(2, "pump-2", *one) for one in wrong)))
    done = memory.maintain().reading
    assert (done.new, done.refused, memory.reading().refused) == (1, 2, 2)
    assert keepers(memory) == {"pump-1": "Mei"}


def test_it_can_be_switched_off(make, server, clock):
    for options in ({"reader": "off"}, {"learn_facts": False}, {"llm": None}):
        memory = make(background=True, **options)
        assert "jiyi-reader" not in {thread.name for thread in threading.enumerate()}
        talk(memory, [1])
        assert read_later(memory, clock) is None
        assert memory.reading() is None
        assert "messages_unread" not in memory.stats()
    assert server.asked == []
    assert make().maintain(dry_run=True).reading is None


@pytest.mark.slow
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


@pytest.mark.slow
def test_what_was_being_read_at_the_end_is_free_at_once(make, server):
    now = lambda: datetime.now(UTC)  # noqa: E731
    memory = make(background=True, clock=now, reader_pause_minutes=0, time_limit=30)
    server.replies.append(Reply(silent=True))
    talk(memory, [1])
    wait_until(lambda: server.asked)
    memory.close()
    assert make(clock=now, reader_pause_minutes=0).maintain().reading.new == 1


def test_a_session_that_begins_anew_is_read_again(make, server, clock):
    memory = make()
    talk(memory, [1, 2])
    read_later(memory, clock)
    memory.forget(session_id="s", purge=False)
    assert memory.stats()["messages_unread"] == 0
    talk(memory, [3])
    assert read_later(memory, clock).new == 1
    assert (keepers(memory), len(server.asked)) == ({"pump-3": "Mei"}, 2)


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


@pytest.mark.slow
def test_several_threads_read_each_stretch_once(make, server, clock):
    memories = [make() for _ in range(3)]
    for number in range(12):
        talk(memories[0], [number], f"s-{number}")
    clock.forward(hours=1)
    at_once(lambda memory: memory.maintain(), memories)
    assert (len(keepers(memories[0])), len(server.asked)) == (12, 12)


@pytest.mark.slow
def test_a_real_model_reads_or_says_why_not(open_memory, clock, local_llm):
    llm = OpenAILLM("smollm2", endpoint=Endpoint(base_url=local_llm, api_key=""), time_limit=20)
    memory = open_memory(llm=llm, clock=clock)
    memory.save_message("s", role="user", content="My name is Ana and I live in Lisbon.")
    done = read_later(memory, clock)
    assert done.stretches or done.notes
    assert memory.reading().calls >= 1
    for fact in memory.facts():
        assert fact.method == "patterns" or fact.text in "My name is Ana and I live in Lisbon."
    llm.close()
