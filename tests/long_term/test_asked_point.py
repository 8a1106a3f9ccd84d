"""Where a fact says what is asked for, it comes first, with the message it was read from."""

from datetime import UTC, datetime, timedelta

import pytest
from tables import read_tables

import jiyi
from jiyi.long_term.recall.asked_point import AskedPoint, find_asked_point
from jiyi.manager import MemoryManager

TABLES = read_tables(__file__)
BEGIN = datetime(2026, 1, 5, 9, tzinfo=UTC)
LATER = BEGIN + timedelta(days=200)


@pytest.fixture
def memory(tmp_path):
    with jiyi.open(tmp_path / "memory.db", user_id="ana") as opened:
        yield opened


def tell(memory: MemoryManager, *texts: str, **more: str) -> None:
    for day, text in enumerate(texts):
        said = {"role": "user", "content": text, "created_at": BEGIN + timedelta(days=day), **more}
        memory.save_message("s", said)
    memory.flush()


def first(memory: MemoryManager, question: str, **more: object) -> list[str]:
    return [hit.text for hit in memory.search(question, limit=2, asked_at=LATER, **more)]


@pytest.mark.parametrize(("text", "point", "relation", "name"), TABLES["a point of somebody"])
def test_a_question_for_one_point_of_somebody(text, point, relation, name):
    assert find_asked_point(text) == AskedPoint((point,), relation=relation, name=name)


@pytest.mark.parametrize("text", [*TABLES["other questions"], "", "Where do I live? " + "And more. " * 30])
def test_other_questions_ask_for_none(text):
    found = find_asked_point(text)
    assert found is None or found.name  # of something that has this name


@pytest.mark.parametrize(("told", "question", "answer"), TABLES["told, asked, answered by"])
def test_the_fact_and_its_message_come_first(memory, told, question, answer):
    tell(memory, *told.split(" / "))
    fact, message = memory.search(question, limit=2, asked_at=LATER)
    assert (fact.kind, message.kind, message.text) == ("fact", "message", answer)
    assert fact.record.sources[-1] == message.id
    assert "asked_point" in fact.why
    assert first(memory, question, kinds="message")[0] == answer


@pytest.mark.parametrize(("told", "ended", "question"), TABLES["what ended, and how that was told"])
def test_what_has_ended_is_not_put_first(memory, told, ended, question):
    tell(memory, told)
    assert "asked_point" in memory.search(question, asked_at=LATER)[0].why
    memory.save_message("s", {"role": "user", "content": ended, "created_at": BEGIN + timedelta(days=9)})
    memory.flush()
    assert all("asked_point" not in hit.why for hit in memory.search(question, asked_at=LATER))


def test_a_fact_stands_after_what_took_the_place_of_its_message(memory):
    told = "I have a dentist appointment on March 3rd at 2pm with Dr Patel."
    changed = "The dentist called, they've pushed me to March 10th same time."
    tell(memory, told, *TABLES["other talk"], changed)
    hits = memory.search("When is my dentist appointment?", asked_at=LATER)
    assert [hit.text for hit in hits[:2]] == [changed, "user dentist appointment on March 3rd at 2pm"]
    older = next(hit for hit in hits if hit.text == told)
    assert hits[1].maybe_outdated_by == (older.outdated_by or older.maybe_outdated_by)


def test_a_question_about_another_time_and_filters_are_left_alone(memory):
    tell(memory, "I live in Leeds.", "We moved to Manchester.")
    hits = memory.search("Where did I live before?", asked_at=LATER)
    assert all("asked_point" not in hit.why for hit in hits)
    found = memory.search("Where do I live?", asked_at=LATER, filters={"until": BEGIN + timedelta(hours=1)})
    assert all("Manchester" not in hit.text for hit in found)


def test_where_several_speak_of_themselves_nobody_is_meant_by_i(memory):
    tell(memory, "I live in Leeds.", name="Ana")
    tell(memory, "I live in Porto.", name="Rui")
    assert all("asked_point" not in hit.why for hit in memory.search("Where do I live?", asked_at=LATER))
    assert "Porto" in first(memory, "Where does Rui live?")[0]


def test_a_point_that_is_told_is_not_missing_and_nothing_of_another_user_is_found(memory):
    tell(memory, "I live in Leeds.", "The weather is fine.")
    assert memory.search("Where do I live?", asked_at=LATER).nothing_relevant <= 0.1
    assert not memory.search("Where do I live?", user_id="eve")
