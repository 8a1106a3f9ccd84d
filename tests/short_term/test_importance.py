import time
from dataclasses import replace

import pytest
from conversations import assistant, calls, conversations, result, system, user
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_tools import COUNTER, check_limit, tokens
from refusing import refused

from jiyi.errors import BudgetTooSmall
from jiyi.short_term import ImportanceSampling

budgets = st.integers(1, 400)


def test_the_least_important_leave_first_and_the_reason_says_the_score():
    talk = [
        system(),
        user("我们决定用 PostgreSQL"),
        user("好的"),
        user("端口是 5433"),
        user("吃什么好呢"),
        user("再见"),
    ]
    limit = tokens(talk[0], talk[1], talk[3], talk[5])
    decided = ImportanceSampling(limit)(talk)
    assert decided.kept == (talk[0], talk[1], talk[3], talk[5])
    assert [d.reason for d in decided.dropped] == [
        f"importance 0.20, the least there was, over the budget of {limit} tokens",
        f"importance 0.50, the least there was, over the budget of {limit} tokens",
    ]
    talk = [user("Remember: we ship on Friday."), user("ok"), user("the port is 5433"), user("so?")]
    assert ImportanceSampling(tokens(talk[0], talk[2], talk[3]))(talk).kept == (talk[0], talk[2], talk[3])
    assert ImportanceSampling(tokens(talk[0], talk[3]))(talk).kept == (talk[0], talk[3])


def test_a_text_is_scored_once_and_only_where_not_all_fits(monkeypatch):
    monkeypatch.setattr("jiyi.short_term.policies.salience", lambda text: pytest.fail("scored"))
    talk = [user("never scored before: 4711"), assistant("nor this: 4712")]
    assert ImportanceSampling(tokens(*talk))(talk).kept == tuple(talk)
    asked = []
    monkeypatch.setattr("jiyi.short_term.policies.salience", lambda text: asked.append(text) or 0.5)
    talk, policy = [user(f"scored once: {n}") for n in range(50)], ImportanceSampling(200)
    policy(talk)
    policy([*talk, user("one more")])
    assert len(asked) == len(set(asked)) == 50


def test_an_importance_that_was_given_wins_and_a_tool_pair_is_worth_its_best():
    talk = [
        user("好的", importance=0.95),
        user("我们决定用 MySQL", importance=0.1),
        user("端口 1"),
        user("?"),
    ]
    assert ImportanceSampling(tokens(talk[0], talk[2], talk[3]))(talk).kept == (talk[0], talk[2], talk[3])
    talk = [calls("a"), result("a", importance=0.9), user("端口是 8080"), user("然后呢")]
    assert ImportanceSampling(tokens(talk[0], talk[1], talk[3]))(talk).kept == (talk[0], talk[1], talk[3])


def test_of_equals_the_oldest_leaves_and_before_anything_else_what_could_never_fit():
    talk = [user(f"message {n}", importance=0.5, id=f"m{n:02}") for n in range(20)]
    assert ImportanceSampling(tokens(*talk[-5:]))(talk).kept == tuple(talk[-5:])
    talk = [user("好的"), user("重要：" + "很长 " * 500, importance=1), user("端口 1")]
    decided = ImportanceSampling(tokens(talk[0], talk[2]))(talk)
    assert decided.kept == (talk[0], talk[2])
    assert "larger than" in decided.dropped[0].reason


def test_the_newest_stays_or_it_is_an_error():
    talk = [user("我们决定用 PostgreSQL"), user("嗯 " * 30)]
    assert ImportanceSampling(tokens(talk[1]))(talk).kept == (talk[1],)
    refused(BudgetTooSmall, "1 more than the budget", ImportanceSampling(tokens(talk[1]) - 1), talk)
    assert ImportanceSampling(tokens(talk[0]), keep_last=False)(talk).kept == (talk[0],)


@pytest.mark.slow
def test_ten_thousand_messages():
    talk = [
        replace(user(f"第 {n} 条：端口 {n % 977}"), tokens=12, tokens_by=COUNTER.name) for n in range(10_000)
    ]
    policy = ImportanceSampling(4_000)
    policy(talk)
    started, kept = time.thread_time(), policy(talk).kept
    assert time.thread_time() - started < 2, "scores are kept: about 0.1 s on a quiet core"
    assert tokens(*kept) <= 4_000


@pytest.mark.slow
@settings(deadline=None)
@given(conversations(), budgets, st.none() | budgets, st.booleans())
def test_holds_its_promises_for_any_conversation_and_budget(talk, most, budget, keep_last):
    _, decided = check_limit(ImportanceSampling(most, keep_last=keep_last), talk, budget)
    if decided and tokens(*talk) <= min(most, budget or most):
        assert decided.dropped == tuple(d for d in decided.dropped if "tool" in d.reason)
