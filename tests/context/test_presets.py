"""Budget presets: windows shared out by the kind of task."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusing import raises, refused
from tables import read_tables

from jiyi.errors import BadBudget
from jiyi.records import SHARES, Budget
from jiyi.records.budget import PRESETS, RULES_OF_THUMB, Allocation

RETRIEVED = ("task", "knowledge", "episodes", "recalled")
parts = st.floats(0, 10_000, allow_nan=False)


@pytest.mark.parametrize("row", read_tables(__file__)["name, system, knowledge, history, output"])
def test_a_preset_gives_its_figures_in_a_window_of_eight_thousand(row):
    name, system, knowledge, history, output = row[0], *map(int, row[1:])
    budget = Budget.for_task(name, 8_000)
    assert (budget.max_input_tokens, budget.max_output_tokens) == (8_000 - output, output)
    left = budget.max_input_tokens - system
    assert sum(budget.shares[s] for s in RETRIEVED) * left == pytest.approx(knowledge)
    assert budget.shares["history"] * left == pytest.approx(history)
    shares = [budget.shares[s] / SHARES[s] for s in RETRIEVED]
    assert shares == pytest.approx([shares[0]] * 4), "retrieved sections keep their proportions"


def test_a_preset_grows_with_the_window_and_own_ones_stand_beside_the_given_ones():
    small, large = Budget.for_task("analysis", 8_000), Budget.for_task("analysis", 128_000)
    assert large.max_output_tokens == 16 * small.max_output_tokens
    assert large.shares == small.shares
    presets = {**PRESETS, "support": Allocation(system=1, knowledge=1, history=2, output=1)}
    assert Budget.for_task("support", 5_000, presets).max_output_tokens == 1_000
    assert Budget.for_task("support", 5_000, presets).shares["history"] == pytest.approx(2 / 3)
    with pytest.raises(BadBudget, match="code_generation, conversation, analysis, support"):
        Budget.for_task("poetry", 5_000, presets)
    refused(BadBudget, "none", Budget.for_task, "poetry", 5_000, {})


def test_a_budget_takes_a_presets_shares_and_keeps_its_sizes():
    plain = Budget(max_input_tokens=4_000, max_output_tokens=10)
    shared = plain.shared_as("conversation")
    assert (shared.max_input_tokens, shared.max_output_tokens) == (4_000, 10)
    assert shared.shares == Budget.for_task("conversation", 8_000).shares != plain.shares
    refused(BadBudget, "analysis", plain.shared_as, "poetry")


@given(st.builds(dict, system=parts, knowledge=parts, history=parts, output=parts, input=parts), st.data())
def test_any_allocation_gives_a_budget_that_fills_the_window(given_parts, data):
    rest = sum(value for name, value in given_parts.items() if name != "output")
    if not sum(given_parts.values()) > given_parts["output"]:
        raises(BadBudget, Allocation, **given_parts)
        return
    allocation = Allocation(**given_parts)
    total = data.draw(st.integers(1, 200_000))
    try:
        budget = Budget.for_task("own", total, {"own": allocation})
    except BadBudget:
        assert round(total * given_parts["output"] / allocation.whole) >= total
        return
    assert budget.max_input_tokens + budget.max_output_tokens == total
    assert sum(budget.shares.values()) == pytest.approx(
        1 if given_parts["knowledge"] + given_parts["history"] > 0 else 0
    )
    assert rest > 0


def test_windows_and_allocations_that_are_none_are_refused():
    for total in (0, -5, 1.5, True, "8000"):
        refused(BadBudget, "total", Budget.for_task, "analysis", total)
    for wrong in (-1, float("nan"), float("inf"), "500", True):
        refused(BadBudget, "history", Allocation, system=500, knowledge=500, history=wrong, output=500)
    refused(BadBudget, "nothing for the input", Allocation, system=0, knowledge=0, history=0, output=500)
    greedy = Allocation(system=1, knowledge=0, history=0, output=999)
    refused(BadBudget, "no room", Budget.for_task, "greedy", 10, {"greedy": greedy})


def test_the_rules_of_thumb_judge_an_allocation_and_default_shares_stay_what_they_are():
    assert Allocation(system=800, knowledge=3_000, history=2_500, input=1_200, output=2_500).unusual() == ()
    assert PRESETS["code_generation"].unusual() == (
        "history takes 12% of the window; 20% to 30% is usual",
        "output takes 44% of the window; 20% to 30% is usual",
    )
    assert RULES_OF_THUMB == {
        "system": (0.05, 0.10),
        "knowledge": (0.20, 0.40),
        "history": (0.20, 0.30),
        "input": (0.05, 0.15),
        "output": (0.20, 0.30),
    }
    assert Budget(max_input_tokens=100).shares == SHARES
    assert SHARES == {"task": 0.10, "knowledge": 0.10, "episodes": 0.15, "recalled": 0.30, "history": 0.35}
