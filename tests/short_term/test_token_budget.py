import json
from dataclasses import replace

import pytest
from conversations import assistant, calls, conversations, partners, result, system, user
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_tools import COUNTER, check_limit, tokens
from refusing import raises, refused
from tables import read_tables

from jiyi.errors import BadBudget, BudgetTooSmall
from jiyi.short_term import TokenBudget
from jiyi.text import counter_for

TABLES = read_tables(__file__)
budgets = st.integers(1, 400)


def over(limit):
    return f"over the budget of {limit} tokens"


class Tally:
    """Counts as the real counter does and remembers what it had to count."""

    def __init__(self):
        self.name, self.exact, self.counted = COUNTER.name, COUNTER.exact, []

    def count(self, message):
        if message.tokens is None or message.tokens_by != self.name:
            self.counted.append(message)
        return COUNTER.count(message)

    def count_all(self, messages):
        return COUNTER.count_all(()) + sum(self.count(m) for m in messages)


def test_what_fits_exactly_stays():
    talk = [system(), user("上次 502 是怎么修好的？"), assistant("重启 nginx"), user("ok")]
    assert TokenBudget(tokens(*talk))(talk, None).kept == tuple(talk)
    limit = tokens(*talk) - 1
    decision = TokenBudget(limit)(talk, None)
    assert decision.kept == (talk[0], *talk[2:])
    assert [d.reason for d in decision.dropped] == [over(limit)]


def test_the_walk_passes_over_what_could_never_fit_and_ends_at_the_first_that_does_not():
    talk = [user("a"), user("b " * 40), user("c " * 30), user("d")]
    assert TokenBudget(tokens(*talk[1:]) - 1)(talk).kept == tuple(talk[2:])
    talk = [user("a"), calls("x"), result("x", "b " * 500), assistant("c"), user("d")]
    limit = tokens(*talk[3:], talk[0])
    decision = TokenBudget(limit)(talk)
    assert decision.kept == (talk[0], *talk[3:])
    room = limit - tokens(talk[-1])
    assert {d.reason for d in decision.dropped} == {
        f"with what belongs to it larger than the {room:,} tokens there are"
    }


def test_the_newest_stays_whole_or_it_is_an_error():
    talk = [system("rules"), user("a"), user("b " * 50), system("more rules")]
    needed = tokens(talk[0], *talk[2:])
    assert TokenBudget(needed)(talk).kept == (talk[0], *talk[2:])
    with pytest.raises(BudgetTooSmall, match=f"takes {needed} tokens, 1 more than the budget") as caught:
        TokenBudget(needed - 1)(talk)
    assert (caught.value.needed, caught.value.available) == (needed, needed - 1)
    assert TokenBudget(needed - 1, keep_last=False)(talk).kept == (talk[0], talk[1], talk[3])
    talk = [user("a"), calls("x", "y"), result("y"), result("x")]
    assert TokenBudget(tokens(*talk[1:]))(talk).kept == tuple(talk[1:])
    refused(BudgetTooSmall, "raise the budget", TokenBudget(tokens(*talk[1:]) - 1), talk)


def test_nothing_at_all_still_takes_the_opening_of_the_reply():
    opening = COUNTER.count_all(())
    assert TokenBudget(opening)([]).kept == ()
    refused(BudgetTooSmall, "1 more than the budget", TokenBudget(opening - 1), [])


def test_messages_are_counted_once_and_only_within_the_window_and_by_ones_own_counter():
    tally = Tally()
    talk = [replace(m, tokens=COUNTER.count(m), tokens_by=COUNTER.name) for m in [user("早上好")] * 10_000]
    TokenBudget(1_000_000, counter=tally)([*talk, new := user("and now?")])
    assert tally.counted == [new]
    tally = Tally()
    TokenBudget(100, counter=tally)([user(f"message {n}") for n in range(10_000)])
    assert len(tally.counted) < 100
    talk = [user("a", tokens=1, tokens_by="another"), user("b")]
    assert TokenBudget(tokens(talk[1]) + 1)(talk).kept == (talk[1],)


@pytest.mark.parametrize("row", TABLES["fractions of a window: its tokens, options, tokens of the budget"])
def test_a_budget_as_a_fraction_of_a_window(row):
    window, options, tokens_in_all = map(json.loads, row)
    assert TokenBudget.of_window(window, **options) == TokenBudget(tokens_in_all)


def test_a_fraction_of_a_window_takes_the_other_options():
    counter = counter_for("gpt-4")
    made = TokenBudget.of_window(1_000, counter=counter, keep_last=False)
    assert made == TokenBudget(900, counter, keep_last=False)


@pytest.mark.parametrize(("window", "options"), TABLES["windows and options that leave no budget"])
def test_what_leaves_no_budget_is_refused(window, options):
    raises(BadBudget, TokenBudget.of_window, json.loads(window), **json.loads(options))


@settings(deadline=None)
@given(conversations(), budgets, st.none() | budgets, st.booleans())
def test_holds_its_promises_for_any_conversation_and_budget(talk, most, budget, keep_last):
    stay, decision = check_limit(TokenBudget(most, keep_last=keep_last), talk, budget)
    if decision is None:
        return
    kept, limit = {m.id for m in decision.kept}, min(most, budget or most)
    places, groups = {m.id: i for i, m in enumerate(talk)}, partners(talk)
    free = sorted({min(groups[places[i]]) for i in kept - {m.id for m in stay}})
    if free:  # everything sound and newer than the oldest free choice stayed, unless it could not fit
        for start in {min(g) for i, g in groups.items() if g and min(g) > free[0]}:
            atom = [talk[i] for i in groups[start]]
            alone = tokens(*stay, *atom)
            assert {m.id for m in atom} <= kept or alone > limit
