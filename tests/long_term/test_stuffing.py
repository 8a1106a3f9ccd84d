"""Whoever repeats a question does not bury its answer."""

import pytest
from tables import read_tables

import jiyi

TABLES = read_tables(__file__)
CASES = TABLES["question, answer, and the question again"]


@pytest.mark.parametrize(("question", "answer", "others"), CASES)
def test_questions_repeated_stand_below_the_answer_but_for_one(path, question, answer, others):
    with jiyi.open(path, user_id="ana", background=False) as memory:
        talk = [f"Number {i}: the weather was fine and we cooked soup. 天气很好。" for i in range(20)]
        memory.save_messages("s", [{"role": "user", "content": text} for text in [*talk, answer]])
        again = [question, *others.split(" / ")] * 10
        memory.save_messages("t", [{"role": "user", "content": text} for text in again])
        tool = {"role": "tool", "tool_call_id": "c"}
        memory.save_messages("web", [{**tool, "content": text} for text in again])
        hits = memory.search(question, kinds=["message"], limit=10)
    texts = [hit.text for hit in hits]
    place = texts.index(answer)
    assert place <= 1
    said = [text for text in texts if text not in again]
    assert len([text for text in texts[: len(said) + 1] if text in again]) <= 1
    assert hits[place].outdated_by is None
    assert hits[place].maybe_outdated_by is None


@pytest.mark.parametrize(("question", "answer"), [case[:2] for case in CASES])
def test_a_question_that_was_only_asked_is_answered_by_nothing(path, question, answer):
    with jiyi.open(path, user_id="ana", background=False) as memory:
        memory.save_messages("s", [{"role": "user", "content": text} for text in TABLES["talk"] * 3])
        before = memory.search(question).nothing_relevant
        memory.save_message("t", role="user", content=question)
        asked = memory.search(question).nothing_relevant
        memory.save_message("u", role="user", content=answer)
        told = memory.search(question).nothing_relevant
    assert before > 0.5
    assert asked > 0.5
    assert told < 0.3
