"""The memory of facts on a real file: learning, asking, two processes."""

import json
import multiprocessing
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from scripted_chat import ScriptedChat, refuses, says
from stating import ANA, HERE, START, at, hear
from tables import read_tables

from jiyi.embeddings import Endpoint
from jiyi.errors import BadQuery
from jiyi.llm import OpenAILLM
from jiyi.long_term.facts.lookup import neighbours
from jiyi.long_term.facts.memory import FactMemory
from jiyi.records import Fact, Query
from jiyi.storage import SqliteDatabase, Store
from jiyi.testing import ManualClock


@pytest.fixture
def clock():
    return ManualClock(START)


@pytest.fixture
def memory(store, clock):
    return FactMemory(store, clock=clock)


@pytest.fixture
def say(memory, clock):
    def say(text, day):
        if at(day) > clock():
            clock.forward(days=(at(day) - clock()) / timedelta(days=1))
        return hear(memory, text, at(day), name="Ana")

    return say


def told(facts: list[Fact]) -> list[tuple[str, str, str, str]]:
    return [(fact.subject, fact.predicate, fact.object, fact.status) for fact in facts]


def test_what_is_said_is_known(memory, say):
    learned = say("记一下，edge-02 网关对外监听的端口是 8443。", 1)
    (fact,) = learned.facts
    assert (learned.new, learned.method) == ((fact.id,), "patterns")
    assert memory.facts(ANA) == [fact]
    assert (fact.scope, fact.speaker, len(fact.sources)) == (HERE, "Ana", 1)
    assert say("嗯，好的", 2).facts == ()


def test_a_story_with_corrections_exceptions_and_retractions(memory, say):
    say("dinner is at seven", 1)
    say("dinner is at six until January 20", 9)
    say("edge-02 的端口是 8443", 10)
    say("对了，我写错了，02 那台不是 8443，实际开的是 8444", 12)
    say("新家门锁密码 602918", 13)
    say("请把门锁密码删掉", 14)
    *dinner, port = told(memory.facts(ANA))
    assert dinner == [("dinner", "time", time, "active") for time in ("seven", "six")]
    assert port == ("edge-02", "端口", "8444", "active")
    assert [fact.object for fact in memory.facts(ANA, "dinner", as_of=at(10))] == ["six"]
    assert [fact.object for fact in memory.facts(ANA, "dinner", as_of=at(25))] == ["seven"]
    assert told(memory.history(ANA, "EDGE-02")) == [("edge-02", "端口", "8443", "superseded"), port]
    assert told(memory.facts(ANA, status="retracted")) == [("新家门锁", "密码", "602918", "retracted")]


def test_names_lead_to_the_same_thing(memory, say):
    say("gizmo has 6 executors. gadget has 4 executors.", 1)
    say("gizmo-1 is up to 6 executors", 1)
    say("gizmo-1 becomes ci-forge from today", 2)
    say("ci-forge is up to 10 executors", 3)
    executors = [(fact.object, fact.status) for fact in memory.history(ANA, "gizmo-1", "executors")]
    assert executors == [("6", "superseded"), ("10", "active")]
    assert [fact.object for fact in memory.facts(ANA, "gizmo-1") if fact.predicate != "alias"] == ["10"]
    assert memory.history(ANA, "ci-forge") == memory.history(ANA, "gizmo-1")


def test_neighbours_are_found_both_ways_over_other_names(memory):
    for subject, predicate, object_ in read_tables(__file__)["who works where, and with whom"]:
        memory.remember(ANA, subject=subject, predicate=predicate, object=object_)
    assert {one.name for one in neighbours(memory.store, ANA, "mia", 1)} == {"Acme", "Bobby"}
    found = {one.name: one for one in neighbours(memory.store, ANA, "Porto", 3)}
    assert {name: one.depth for name, one in found.items()} == {"Acme": 1, "Mia": 2, "Bob": 2}
    assert [fact.predicate for fact in found["Mia"].facts] == ["located in", "works at"]
    assert neighbours(memory.store, ANA, "nobody", 1) == []
    memory.remember(ANA, subject="Mia", predicate="works at", object="Umbrella")
    assert "Acme" not in {one.name for one in neighbours(memory.store, ANA, "Mia", 1)}
    for depth in (0, 6, True):
        with pytest.raises(BadQuery, match="from 1 to 5"):
            neighbours(memory.store, ANA, "Mia", depth)


def test_remembering(memory, clock):
    (fact,) = memory.remember(ANA, "I live in Berlin", speaker="Ana").facts
    assert (fact.subject, fact.object, fact.method, fact.sources) == ("Ana", "Berlin", "said", ())
    assert fact.confidence > 0.8
    (note,) = memory.remember(ANA, "the blue folder is under the stairs").facts
    assert (note.category, note.subject) == ("note", "user")
    assert note.object == "the blue folder is under the stairs"
    clock.forward(days=1)
    learned = memory.remember(ANA, subject="Ana", predicate="lives in", object="Porto", category="profile")
    assert learned.superseded == (fact.id,)
    while_ = {"valid_from": at(5), "valid_to": at(9)}
    assert memory.remember(ANA, subject="Ana", predicate="lives in", object="Rome", **while_).superseded == ()
    assert [one.object for one in memory.facts(ANA, "Ana", as_of=at(6))] == ["Rome"]
    assert [one.object for one in memory.facts(ANA, "Ana", as_of=at(9))] == ["Porto"]


def _learn(path: str, number: int) -> None:
    database = SqliteDatabase(Path(path))
    memory = FactMemory(Store(database))
    for day in range(number, 40, 2):
        hear(memory, f"The port of edge-02 is p-{day}.", at(day), name="Ana", id=f"m-{day}")
    database.close()


@pytest.mark.slow
def test_two_processes_leave_what_one_would_leave(path, memory):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_learn, args=(str(path), number)) for number in (0, 1)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    facts = memory.history(ANA, "edge-02")
    assert [fact.object for fact in facts] == [f"p-{day}" for day in range(40)]
    assert [fact.status for fact in facts] == ["superseded"] * 39 + ["active"]
    for one, other in pairwise(facts):
        assert (one.superseded_by, other.supersedes) == (other.id, one.id)
        assert one.valid_to == other.created_at


def test_a_thing_is_found_by_the_identifier_in_its_name(memory):
    memory.remember(ANA, subject="edge-02", predicate="port", object="8443")
    for name in ("edge-02", "the edge-02 gateway", "edge-02 网关"):
        assert [fact.object for fact in memory.facts(ANA, name)] == ["8443"]
        assert [fact.object for fact in memory.history(ANA, name)] == ["8443"]
    assert memory.facts(ANA, "edge-03 网关") == memory.facts(ANA, "the gateway") == []


def test_what_is_no_longer_so_is_over(memory, say):
    say("I work at Acme", 1)
    say("My wife is Carmen", 1)
    say("I live in Leiden", 1)
    say("I no longer work at Acme", 3)
    say("We got divorced", 4)
    known = {fact.object: fact for fact in memory.facts(ANA, status=("active", "expired"))}
    assert (known["Acme"].status, known["Acme"].valid_to) == ("expired", at(3))
    assert (known["Carmen"].status, known["Carmen"].valid_to) == ("expired", at(4))
    assert known["Leiden"].status == "active"
    assert "Acme" in [fact.object for fact in memory.facts(ANA, "Ana", as_of=at(2))]


def test_facts_without_a_named_point_stand_side_by_side_and_are_not_searched(memory, say):
    say("we swim at half past seven", 1)
    say("we swim at half past eight", 2)
    facts = memory.facts(ANA)
    assert [fact.status for fact in facts] == ["active", "active"]
    assert all("half past" in fact.line and not fact.search_text for fact in facts)


def test_a_short_answer_takes_its_point_from_the_question(memory, say):
    say("What is the port of edge-02?", 1)
    say("8443", 2)
    assert [(fact.subject, fact.object) for fact in memory.facts(ANA)] == [("edge-02", "8443")]


def test_an_assistant_never_takes_the_place_of_what_a_user_said(memory):
    hear(memory, "The port of edge-02 is 8443.", at(1))
    hear(memory, "The port of edge-02 is 9000.", at(2), role="assistant")
    first, second = memory.facts(ANA, "edge-02")
    assert (first.object, first.status) == ("8443", "active")
    assert (second.object, second.line) == ("9000", "assistant: The port of edge-02 is 9000")


def test_learning_with_a_model(store, clock, say, memory):
    say("We are all on gate 7 now, tell everybody", 1)
    messages = store.find(Query(scope=HERE, kinds=("message",)))
    fact = {"message": 1, "subject": "everybody", "predicate": "gate", "object": "gate 7"}
    fact |= {"quote": "We are all on gate 7 now", "category": "attribute", "action": "state", "replaces": 0}
    answer = json.dumps({"facts": [fact], "entities": [], "topics": [], "conclusions": []})
    with ScriptedChat(says(answer), refuses("no", status=401)) as server:
        llm = OpenAILLM("m", endpoint=Endpoint(base_url=server.url, api_key="", retries=0))
        by_llm = FactMemory(store, llm=llm, clock=clock)
        learned, failed = by_llm.learn_with_llm(HERE, messages), by_llm.learn_with_llm(HERE, messages)
        llm.close()
    assert (learned.method, learned.notes) == ("llm", ())
    assert told(list(learned.facts)) == [("everybody", "gate", "gate 7", "active")]
    assert (learned.facts[0].method, failed.method) == ("llm", "patterns")
    assert "read nothing" in failed.notes[0]
    assert memory.learn_with_llm(HERE, messages).notes == ("no language model is set",)


def test_a_message_saved_late_does_not_supersede(memory, say):
    say("The port of edge-02 is a-1.", 1)
    say("The port of edge-02 is a-1.", 5)
    say("The port of edge-02 is b-2.", 3)
    assert [fact.object for fact in memory.history(ANA, "edge-02")] == ["a-1", "b-2", "a-1"]
    assert [fact.object for fact in memory.facts(ANA, as_of=at(4))] == ["b-2"]
