"""The fuzzing of verbs in small."""

import pytest
from campaigns.fuzz_verbs import run


@pytest.mark.slow
def test_any_arguments_give_an_answer_or_an_error_of_ours():
    found = run(120, number=1, rounds=1)
    assert found["targets"] > 60
    assert found["calls"] > 100
    assert not found["faults"]
