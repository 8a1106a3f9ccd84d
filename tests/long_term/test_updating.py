"""A changed record is found by what it says now; what was derived from its old words follows."""

from ast import literal_eval
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from refusing import refused
from tables import read_tables

from jiyi import errors
from jiyi.errors import BadQuery, NotFound, WrongState

TABLES = read_tables(__file__)

START = datetime(2026, 1, 1, tzinfo=UTC)
OLD = "The gateway edge-02 listens on port 8443. I live in Lisbon."
NEW = OLD.replace("8443", "9000")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def memory(request, open_memory, tmp_path):
    url = tmp_path / "a.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    ticks = count()
    return open_memory(url, clock=lambda: START + timedelta(seconds=next(ticks)))


def lines(facts):
    return {fact.line: (fact.id, fact.status) for fact in facts}


def test_a_message_is_read_again_in_its_place(memory):
    first = memory.save_message("s", role="user", content="My name is Ana.")
    said = memory.save_message("s", role="user", content=OLD, metadata={"a": 1}, pinned=True)
    memory.save_message("s", role="assistant", content="Noted.")
    before = lines(memory.facts())
    changed = memory.update(said.id, text=NEW)
    assert changed == memory.get(said.id)
    assert (changed.content, changed.seq, changed.metadata, changed.pinned) == (NEW, said.seq, {"a": 1}, True)
    assert (changed.created_at, changed.tokens) == (said.created_at, said.tokens)
    assert [one.id for one in memory.recent_messages("s")][:2] == [first.id, said.id]
    after = lines(memory.facts())
    assert after.keys() == {"user · name: Ana", "user · lives in: Lisbon", "edge-02 · port: 9000"}
    assert after["user · lives in: Lisbon"] == before["user · lives in: Lisbon"]
    memory.flush()
    assert memory.search("edge-02 port", kinds="message")[0].text == NEW
    assert not [hit for hit in memory.search("8443") if "8443" in hit.text]
    memory.restore(before["edge-02 · port: 8443"][0])
    assert "edge-02 · port: 8443" in {fact.line for fact in memory.history("edge-02")}


def test_what_other_messages_say_stays(memory):
    one, _ = (memory.save_message("s", role="user", content=text) for text in (OLD, "I live in Lisbon."))
    (home,) = memory.facts("user")
    assert len(home.sources) == 2
    memory.update(one.id, text="The weather is fine.")
    (left,) = memory.facts()
    assert (left.line, left.id, len(left.sources)) == (home.line, home.id, 1)


def test_summaries_of_old_words_go(memory):
    for number in range(40):
        memory.save_message("s", role="user", content=f"{OLD} Take {number}.", id=f"m{number}")
    assert "8443" in memory.summarize_session("s").text
    memory.update("m0", text="Nothing of the sort.")
    assert memory.summary("s") is None


def test_labels_pins_and_pictures_of_a_message(memory):
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    content = [{"type": "text", "text": OLD}, picture]
    said = memory.save_message("s", {"role": "user", "content": content, "trace": "t"}, metadata={"a": 1})
    facts = memory.facts()
    changed = memory.update(said.id, metadata={"b": [2]}, importance=0.9, pinned=True)
    assert (changed.metadata, changed.importance, changed.pinned) == ({"b": [2]}, 0.9, True)
    assert changed.extra["trace"] == "t"
    assert (memory.update(said.id, metadata={}).extra, memory.facts()) == ({"trace": "t"}, facts)
    assert memory.update(said.id, text="Look.").content == ({"type": "text", "text": "Look."}, picture)
    assert memory.facts() == []


@pytest.mark.parametrize(("field", "value"), TABLES["a change of a fact"])
def test_a_fact_has_a_new_value_and_a_history(memory, field, value):
    kept = memory.remember("The gateway edge-02 listens on port 8443", metadata={"a": 1}, pinned=True).kept
    assert memory.get(kept).object == "8443"
    seen = memory.get(kept).created_at
    changed = memory.update(kept, **{field: value})
    assert (changed.id, changed.line) == (kept, "edge-02 · port: 9000")
    assert (changed.metadata, changed.pinned, changed.status) == ({"a": 1}, True, "active")
    old, new = memory.history("edge-02")
    assert new == changed
    assert (old.object, old.status, old.superseded_by, old.pinned) == ("8443", "superseded", kept, False)
    assert (new.supersedes, old.valid_to) == (old.id, new.created_at)
    assert [fact.object for fact in memory.facts("edge-02", as_of=seen)] == ["8443"]
    memory.flush()
    assert memory.search("edge-02 port", filters={"status": "active"})[0].record == changed
    again = memory.update(kept, object="9100")
    assert [fact.object for fact in memory.history("edge-02")] == ["8443", "9000", "9100"]
    assert memory.update(kept, object="9100") == again
    refused(WrongState, kept, memory.update, again.supersedes, text="The gateway edge-02 listens on port 1")
    assert memory.update(again.supersedes, metadata={"seen": True}).metadata == {"seen": True}


def test_with_a_fact_go_the_values_it_had_before_it_was_changed(memory):
    before = memory.remember("The gateway edge-02 listens on port 80").kept
    memory.remember("The gateway edge-02 listens on port 8443")
    (kept,) = memory.facts("edge-02")
    memory.update(kept.id, object="9000")
    memory.update(kept.id, object="9100")
    assert [fact.version_of for fact in memory.history("edge-02")] == [None, kept.id, kept.id, None]
    assert memory.forget(ids=[kept.id]).counts == {"fact": 3}
    assert [(fact.id, fact.object) for fact in memory.facts("edge-02")] == [(before, "80")]
    memory.restore(ids=[kept.id])
    assert [fact.object for fact in memory.history("edge-02")] == ["80", "8443", "9000", "9100"]
    assert [fact.object for fact in memory.facts("edge-02")] == ["9100"]


def test_updates_of_one_moment_follow_each_other(open_memory, tmp_path):
    memory = open_memory(tmp_path / "a.db", clock=lambda: START)
    kept = memory.remember(subject="db", predicate="port", object="1").kept
    for port in "23456789":
        assert memory.update(kept, object=port).status == "active"
    assert [fact.object for fact in memory.history("db")] == list("123456789")


def test_words_that_state_no_point_are_a_note_of_the_same_id(memory):
    kept = memory.remember("I prefer tea", speaker="Ana").kept
    changed = memory.update(kept, text="Anything green and hot, says Ana")
    assert (changed.id, changed.line) == (kept, "Ana · note: Anything green and hot, says Ana")
    history = [(fact.object, fact.status) for fact in memory.history("Ana")]
    assert history == [("tea", "superseded"), (changed.object, "active")]
    assert (memory.facts("Ana"), memory.search("green")[0].id) == ([changed], kept)


def test_episodes_and_knowledge(memory):
    for _ in range(4):
        task = memory.start_task("s", "restart edge-01", target="edge-01")
        memory.add_step(task.id, "look at the zebra log", status="completed")
        memory.complete_task(task.id, summary="the zebra cache was full")
    memory.run_consolidation()
    (lesson,) = memory.knowledge()
    episode = memory.episodes()[0]
    changed = memory.update(episode.id, text="the giraffe cache was full", importance=0.9, pinned=True)
    assert (changed.outcome_summary, changed.importance) == ("the giraffe cache was full", 0.9)
    assert memory.search("giraffe", kinds="episode")[0].id == episode.id
    told = memory.update(lesson.id, text="Empty the cache of edge-01 first.", metadata={"by": "Ana"})
    assert (told.id, told.content, told.key_points) == (lesson.id, "Empty the cache of edge-01 first.", ())
    assert told.updated_at > lesson.updated_at
    assert memory.knowledge(filters={"metadata.by": "Ana"}) == [told]
    refused(BadQuery, "has no metadata", memory.update, episode.id, metadata={"a": 1})
    refused(BadQuery, "update_task", memory.update, task.id, text="x")


def test_impossible_changes_are_refused_and_change_nothing(memory):
    said = memory.save_message("s", role="user", content=OLD, id="m")
    (fact,) = memory.facts("edge-02")
    for record, change, error in TABLES["record, change, error"]:
        with pytest.raises(getattr(errors, error)):
            memory.update({"fact": fact.id, "": None}.get(record, record), **literal_eval(change))
    refused(NotFound, "'ben' has nothing", memory.update, "m", text="x", user_id="ben")
    assert (memory.get("m"), memory.facts("edge-02")) == (said, [fact])
