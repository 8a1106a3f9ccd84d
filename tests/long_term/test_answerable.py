"""Whether the answer is there: each sign, where it is meant and where it only looks like it."""

import numpy as np
import pytest
from candidate_tables import Row, question, table

from jiyi.long_term.recall.answerable import ANSWER_SIGNS, answer_signs, unanswered
from jiyi.long_term.recall.features import measure
from jiyi.long_term.recall.judging import judge, with_an_assistant
from jiyi.long_term.recall.outdated import compare
from jiyi.long_term.recall.ranking import nothing_relevant, rank
from jiyi.text import traits


def signs(asked, *said):
    """Return the signs by name, of messages of one day each, the first one the oldest."""
    rows = [
        Row(words=(1.0, 1.0), session=place, at=place, traits=int(traits(text)))
        for place, text in enumerate(said)
    ]
    found = table(*rows)
    features = measure(question(asked, 30), found, None)
    scores = rank(features, found).scores.astype(np.float64)
    rows = list(range(len(said)))
    pairs = compare(found, features, scores, rows, said)
    return dict(
        zip(ANSWER_SIGNS, answer_signs(found, features, pairs.said_again(rows), rows, said), strict=True)
    )


@pytest.mark.parametrize(
    ("asked", "with_it", "without"),
    [
        ("What time is the class?", "the class is at 7:30", "the class is fun"),
        ("瑜伽课是几点？", "瑜伽课晚上七点", "瑜伽课很有意思"),
        ("Which day is the visit?", "the visit is on 6 May", "the visit is far away"),
        ("垫子多少钱？", "垫子租一次 20 块", "垫子忘带了"),
        ("Who is the custodian?", "the custodian is Amara", "the custodian is away"),
        ("高铁的车次是多少？", "高铁 G1234", "坐高铁回去"),
    ],
)
def test_what_is_asked_for_is_there_or_lacks(asked, with_it, without):
    assert signs(asked, with_it)["lacks"] == 0
    assert signs(asked, without)["lacks"] == 1
    assert signs(asked, with_it)["any_answer"] == 0


def test_the_words_of_the_question_are_no_answer_to_it():
    assert signs("Which day in June is the visit?", "the visit is in June")["lacks"] == 1


def test_a_question_that_asks_for_nothing_of_a_kind_lacks_nothing():
    found = signs("Which library holds the state?", "the state lives in slices")
    assert (found["lacks"], found["any_answer"]) == (0, 1)


@pytest.mark.parametrize("asked", ["Is it still used?", "那个计划还作数吗？", "Does it use JSON, or XML?"])
def test_yes_or_no_answers_some_questions(asked):
    assert signs(asked, "it is used")["yes_or_no"] == 1


def test_a_message_that_asks_itself_is_no_answer():
    assert signs("What is the teacher's name?", "what was her name again?")["asks"] == 1


def test_what_was_taken_back_later_is_no_answer_unless_that_is_asked():
    said = ("the door code is 602918", "please delete the door code")
    assert signs("What is the door code?", *said)["taken_back"] == 1
    assert signs("What is the door code?", *reversed(said))["taken_back"] == 0
    assert signs("Shall I delete the door code?", *said)["taken_back"] == 0
    assert signs("What came instead of the code?", *said)["taken_back"] == 0


def test_an_identifier_that_nobody_mentioned_is_unheard_of():
    assert signs("What is the port of edge-03?", "the port of edge-02 is 8443")["unheard_of"] == 1
    assert signs("What is the port of edge-02?", "the port of edge-02 is 8443")["unheard_of"] == 0


def test_missing_answers_raise_the_probability_that_nothing_is_relevant():
    assert 0 < unanswered([0.0] * len(ANSWER_SIGNS)) < unanswered([1, 0, 0, 1, 1, 0]) < 1
    found = table(Row(words=(1.0,)))
    features = measure(question(), found, None)
    ranked = rank(features, found)
    assert nothing_relevant(features, ranked, 0.5) > nothing_relevant(features, ranked)
    assert nothing_relevant(features, ranked, 1.0) == 1


def test_only_messages_to_an_assistant_are_looked_at_for_answers():
    to_it = table(
        Row(words=(1.0, 1.0), at=0), Row(speaker="assistant", role="assistant", words=(1.0, 1.0), at=1)
    )
    people = table(
        Row(words=(1.0, 1.0), speaker="Ana", at=0),
        Row(speaker="Ben", role="assistant", words=(1.0, 1.0), at=1),
    )
    assert with_an_assistant(to_it)
    assert not with_an_assistant(people)
    for found, looked in ((to_it, True), (people, False)):
        features = measure(question("Which port is it?", 30), found, None)
        verdict = judge(found, features, rank(features, found), {0: "the disk is full", 1: "noted"})
        assert (verdict.unanswered > 0) == looked
