"""Processes that read the same talk, and are killed on the way: each stretch counts once."""

import os
import random
import signal
import time
from datetime import UTC, datetime, timedelta

import pytest
from at_once import wait_until
from other_processes import begin_together, begun
from reading_model import ReadingModel, line
from scripted_endpoint import Reply

pytestmark = pytest.mark.slow

READER = """
import sys
import jiyi
from jiyi.testing import HashEmbedder
url, server, background = sys.argv[1:]
memory = jiyi.open(
    url, user_id="ana", embedder=HashEmbedder(), background=background == "yes", llm_model="m",
    llm_base_url=server, llm_api_key="", llm_seconds=20, reader_messages=3, reader_pause_minutes=0,
)
print("ready", flush=True)
sys.stdin.readline()
if background == "no":
    print(memory.maintain().reading.stretches, flush=True)
else:
    sys.stdin.readline()
"""


@pytest.fixture
def talk(open_memory, place):
    """Forty messages in eight sessions, of which no pattern makes anything."""
    memory = open_memory(place)
    for number in range(40):
        memory.save_message(f"s-{number % 8}", role="user", content=line(number), id=f"m-{number}")
    return memory


def check_all_is_known_once(memory):
    facts = [fact for fact in memory.facts(limit=1_000) if fact.predicate == "keeper"]
    assert sorted(fact.subject for fact in facts) == sorted(f"pump-{number}" for number in range(40))
    assert {(fact.sources, fact.confidence) for fact in facts} == {((f"m-{n}",), 0.7) for n in range(40)}


def test_two_processes_at_once_read_each_stretch_once(place, talk):
    with ReadingModel(*[Reply(body=slowly) for _ in range(16)]) as server:
        done = [int(said) for said in begin_together(2, READER, place, server.url, "no")]
        assert len(server.asked) == sum(done) == 16
    assert min(done) > 0, "both had work"
    check_all_is_known_once(talk)


def slowly(asked):
    time.sleep(0.05)
    return ReadingModel.honest(asked)


def test_what_a_killed_process_was_reading_is_read_later_and_counts_once(place, talk, open_memory):
    rounds = random.Random(5)
    with ReadingModel(*[Reply(body=slowly) for _ in range(100)]) as server:
        readers = [begun(READER, place, server.url, "yes") for _ in range(2)]
        wait_until(lambda: len(server.asked) >= 3)
        assert all(reader.poll() is None for reader in readers)
        for reader in readers:
            time.sleep(rounds.uniform(0, 0.1))
            os.kill(reader.pid, signal.SIGKILL)
            reader.communicate(timeout=60)
        later = {"clock": lambda: datetime.now(UTC) + timedelta(hours=1), "reader_messages": 3}
        memory = open_memory(place, llm_model="m", llm_base_url=server.url, llm_api_key="", **later)
        assert memory.stats()["messages_unread"] > 0
        memory.maintain()
        assert memory.stats()["messages_unread"] == 0
    check_all_is_known_once(memory)
