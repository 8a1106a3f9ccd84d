"""Searches, lists and what is forgotten are narrowed by one grammar; relevance compares between searches."""

import pytest
from refusing import refused

from jiyi.errors import BadQuery


@pytest.fixture
def filled(memory):
    for number, channel in enumerate(("slack", "mail", "slack")):
        labels = {"channel": channel, "n": number}
        memory.save_message("s", role="user", content=f"the port of edge is {8000 + number}", metadata=labels)
    memory.remember("Ana prefers tea", metadata={"channel": "crm", "n": 7})
    memory.remember("Ana prefers tea to coffee", metadata={"channel": "slack", "n": 9.5})
    memory.fail_task(memory.start_task("s", "restart edge").id)
    memory.flush()
    return memory


def test_every_list_takes_filters(filled):
    slack = {"metadata": {"channel": "slack", "n": {"gte": 1}}}
    assert [m.content[-4:] for m in filled.session_messages("s", filters=slack)] == ["8002"]
    assert {f.metadata["n"] for f in filled.facts(filters={"metadata.n": {"gt": 5}})} >= {7, 9.5}
    assert filled.facts(filters={"or": [{"metadata.n": 7.0}, {"metadata.n": "7"}]})
    assert filled.facts(filters={"category": "plan"}) == []
    assert len(filled.episodes(filters={"outcome": "failed"})) == 1
    assert filled.episodes(filters={"outcome": {"ne": "failed"}}) == filled.knowledge(filters=slack) == []
    assert len(filled.tasks(filters={"status": ["failed"]})) == 1
    assert filled.tasks(filters={"metadata.channel": "slack"}) == []


def test_searches_and_forgetting_take_filters(filled):
    hits = filled.search("port of edge", filters={"kind": "message", "metadata.channel": {"ne": "mail"}})
    assert {hit.text[-4:] for hit in hits} == {"8000", "8002"}
    found = filled.search("tea", kinds="fact", filters={"NOT": [{"metadata.channel": "crm"}], "subject": "*"})
    assert {hit.record.metadata.get("channel") for hit in found} == {"slack", None}
    gone = filled.forget(filters={"and": [{"kind": "message"}, {"metadata.n": {"lt": 2}}]})
    assert [m.content[-4:] for m in filled.session_messages("s")] == ["8002"]
    assert gone.counts["message"] == 2
    assert filled.forget(filters={"metadata.n": {"lt": 2}}, purge=True).erased == 4  # and their facts


def test_what_one_person_of_a_group_said_is_found_listed_and_forgotten(memory):
    for name, said in ("Bob", "My port is 9000"), ("Ana", "My port is 9001"), (None, "My port is 9002"):
        memory.save_message("g", role="user", name=name, content=said)
    for_bob = {"speaker": "Bob"}
    assert {hit.kind for hit in memory.search("port", filters=for_bob)} == {"message", "fact"}
    assert {hit.record.speaker for hit in memory.search("port", filters=for_bob)} == {"Bob"}
    for filters, port in ({"speaker": "user"}, "9002"), ({"name": "Ana"}, "9001"):
        assert [m.content[-4:] for m in memory.session_messages("g", filters=filters)] == [port]
    assert memory.forget(filters=for_bob).counts == {"message": 1, "fact": 1}
    assert {fact.speaker for fact in memory.facts()} == {"Ana", "user"}


def test_relevance_is_the_probability_of_an_answer_and_falls_with_the_score(filled):
    hits = filled.search("which port has edge?", min_score=0)
    assert hits[0].relevance == pytest.approx(1 - hits.nothing_relevant)
    assert [hit.relevance for hit in hits] == sorted((hit.relevance for hit in hits), reverse=True)
    least = hits[1].relevance
    assert [hit.id for hit in filled.search("which port has edge?", min_score=least)] == [
        hit.id for hit in hits if hit.relevance >= least
    ]
    assert len(filled.search_episodes("restart edge", min_score=1)) == 0
    assert len(filled.search_knowledge("edge", min_score=0.5)) == 0
    for impossible in (-0.1, 1.1, "0.5", True, None):
        refused(BadQuery, "min_score", filled.search, "port", min_score=impossible)


def test_similarity_is_the_cosine_of_the_vectors(memory):
    memory.save_message("a", {"role": "user", "content": "the printer is broken"})
    memory.save_message("b", {"role": "user", "content": "we fly to Oslo"})
    assert [hit.similarity for hit in memory.search("the printer is broken")] == [0.0], "none are there yet"
    memory.flush()
    same, other = memory.search("the printer is broken")
    assert same.similarity == pytest.approx(1.0, abs=0.01)
    assert other.similarity < 0.6
