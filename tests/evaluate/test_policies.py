"""Policies as baselines: what they leave by hand, once for each budget, and no ranking."""

from datetime import UTC, datetime, timedelta

import pytest

from jiyi.errors import BudgetTooSmall
from jiyi.evaluate import Question
from jiyi.evaluate.baselines import (
    POLICIES,
    PolicySystem,
    by_importance,
    by_relevance,
    by_running_summary,
    by_token_budget,
)
from jiyi.records import Message
from jiyi.text import counter_for

START = datetime(2026, 1, 1, tzinfo=UTC)
COUNTER = counter_for("gpt-4o")
DECISION = "We decided that the gateway edge-02 moves to port 9443 on 12 March."


def talk(texts):
    return [
        Message(
            role=("user", "assistant")[i % 2], content=text, id=str(i), created_at=START + timedelta(hours=i)
        )
        for i, text in enumerate(texts)
    ]


def chatter(count):
    return [f"Well, that was remark number {i}, and nothing came of it." for i in range(count)]


def asked(text="Which port has edge-02?", id="q"):
    return Question(id=id, text=text, asked_at=START, evidence=("0",))


def system(name, texts, *questions):
    return PolicySystem(name, talk(texts), questions or (asked(),), counter=COUNTER)


def tokens(texts):
    return COUNTER.count_all(talk(texts))


def test_the_token_budget_leaves_the_newest_and_importance_what_matters():
    texts = [DECISION, *chatter(9)]
    assert by_token_budget(talk(texts), tokens(texts[-3:]), COUNTER) == {"7", "8", "9"}
    assert by_token_budget(talk(texts), tokens(texts[-3:]) - 1, COUNTER) == {"8", "9"}
    assert by_token_budget(talk(texts), tokens([]), COUNTER) == frozenset()
    assert "0" in by_importance(talk([DECISION, *chatter(30)]), 100, COUNTER)


def test_the_summary_holds_what_left_the_window_and_leaves_as_much_as_fits():
    texts = [DECISION, *chatter(80)]
    assert {"0", "80", "79", "78"} <= by_running_summary(talk(texts), 300, COUNTER)
    assert "0" not in by_token_budget(talk(texts), 300, COUNTER)
    decisions = [f"We decided that service {i:03} gets port {7000 + i} from 2 May on." for i in range(200)]
    assert len(by_running_summary(talk(decisions), 120, COUNTER)) < 12
    assert by_running_summary(talk(chatter(5)), 1_000, COUNTER) == {"0", "1", "2", "3", "4"}
    left = by_running_summary(talk([DECISION, *chatter(60), "words " * 400]), 200, COUNTER)
    assert "61" not in left
    assert "0" in left


def test_relevance_reads_the_question_and_is_made_for_each():
    texts = [DECISION, *chatter(20), "The canteen has noodles on Fridays."]
    assert "0" in by_relevance(talk(texts), "Which port has edge-02?", 60, COUNTER)
    assert "21" in by_relevance(talk(texts), "What does the canteen have on Fridays?", 60, COUNTER)
    assert by_relevance(talk(texts), "Which port has edge-02?", 3, COUNTER) == frozenset()
    policy = system("relevance", [DECISION, *chatter(40)])
    assert policy.window(asked(), 200).is_new
    assert policy.window(asked(), 200).is_new


@pytest.mark.parametrize("name", POLICIES)
def test_no_policy_ranks(name):
    found = system(name, chatter(3)).rank(asked(), 10)
    assert (found.ids, found.ranked, found.nothing_relevant) == ((), False, None)


@pytest.mark.parametrize("name", [name for name, leaves in POLICIES.items() if leaves])
def test_what_no_question_changes_is_made_once_for_each_budget(name):
    short, long = asked("Port?", "a"), asked("Which port has edge-02? " * 5, "b")
    policy = system(name, [DECISION, *chatter(40)], short, long)
    first, second = policy.window(short, 400), policy.window(long, 400)
    assert (first.is_new, second.is_new) == (True, False)
    assert first.ids == second.ids
    assert policy.window(short, 500).is_new


def test_room_is_kept_for_the_longest_question_that_fits():
    texts = chatter(30)
    short, long, huge = asked("Port?", "a"), asked("Which port? " * 9, "b"), asked("Port? " * 500, "c")
    question = COUNTER.count(Message(role="user", content=long.text))
    policy = system("token-budget", texts, short, long, huge)
    assert policy.window(short, question + tokens(texts[-4:])).ids == {"26", "27", "28", "29"}
    assert policy.window(short, question + tokens(texts[-4:]) - 1).ids == {"27", "28", "29"}


@pytest.mark.parametrize("name", POLICIES)
def test_a_question_larger_than_the_budget_is_refused(name):
    question = asked()
    needed = COUNTER.count_all([Message(role="user", content=question.text)])
    policy = system(name, chatter(10))
    assert policy.window(question, needed).ids == frozenset()
    with pytest.raises(BudgetTooSmall) as refused:
        policy.window(question, needed - 1)
    assert (refused.value.needed, refused.value.available) == (needed, needed - 1)
