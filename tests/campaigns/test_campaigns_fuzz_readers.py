"""The fuzzing of readers in small."""

import pytest
from campaigns.fuzz_readers import Found, Reader, run

from jiyi.errors import InputError


@pytest.mark.slow
def test_damaged_bytes_give_an_answer_or_a_typed_error():
    found = run(20, seed=1)
    assert len(found["calls"]) >= 11
    assert min(found["calls"].values()) > 10
    assert not found["faults"]


def test_an_untyped_error_is_a_fault():
    def call(data: bytes) -> None:
        raise InputError("no") if data else KeyError("untyped")

    found, reader = Found(), Reader(call, [])
    found.tried("one", reader, b"x")
    assert not found.faults
    found.tried("one", reader, b"")
    assert list(found.faults) == ["one: KeyError in test_campaigns_fuzz_readers.py:call"]
