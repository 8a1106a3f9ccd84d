"""The table of models: each row has a page behind it, and budgets come of it."""

from datetime import date

import pytest
from refusing import refused

from jiyi.errors import BadBudget
from jiyi.records import Budget, model_size, model_sizes
from jiyi.records.budget import ASSUMED


def test_each_row_is_sourced_and_possible():
    assert len(model_sizes()) >= 40
    for name, size in model_sizes().items():
        assert name == name.lower()
        assert 0 < size.reserve <= size.max_output_tokens <= size.context_window, name
        assert size.source.startswith("https://"), name
        assert isinstance(size.read, date), name


@pytest.mark.parametrize(
    "name", ["gpt-4o", "GPT-4o", "openai/gpt-4o", "gpt-4o-2024-08-06", "azure/openai/gpt-4o", "gpt-4o:latest"]
)
def test_a_model_goes_by_several_names(name):
    assert model_size(name) is model_sizes()["gpt-4o"]


@pytest.mark.parametrize("name", ["", "gpt-4o-of-my-own", "gpt-4", "o1", "claude-sonnet-4-5-20250929"])
def test_a_name_that_begins_alike_is_another_model(name):
    assert model_size(name) is not model_sizes()["gpt-4o"]
    assert (model_size(name) is None) == (name in ("", "gpt-4o-of-my-own"))


def test_the_budget_of_a_model_says_what_was_assumed_and_refuses_what_names_none():
    budget = Budget.for_model("gpt-4o")
    assert (budget.max_input_tokens, budget.max_output_tokens) == (128_000 - 16_384, 16_384)
    assert budget.note == ""
    small = Budget.for_model("gpt-4")
    assert (small.max_input_tokens, small.max_output_tokens) == (8_192 - 2_048, 2_048)
    assert Budget.for_model("gpt-4", 500).max_output_tokens == 500
    budget = Budget.for_model("my-own-model")
    assert budget.max_input_tokens + budget.max_output_tokens == ASSUMED.context_window
    assert budget.note == (
        "the limits of the model 'my-own-model' are not known: a context window of 8,192 tokens was assumed"
    )
    assert budget.shared_as("analysis").note == budget.note
    refused(BadBudget, "named by text", Budget.for_model, 5)
    refused(BadBudget, "no room", Budget.for_model, "gpt-4", 8_192)
