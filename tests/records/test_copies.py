"""Records go wherever values go: copied, pickled, turned into dicts."""

import copy
import pickle
from dataclasses import asdict

import pytest
from samples import ANA, START, full

from jiyi.records import Budget, Hit, Query

OF_EVERY_KIND = full("hi")
RECORDS = [
    *OF_EVERY_KIND,
    Budget(max_input_tokens=100),
    Query(scope=ANA, text="x", as_of=START, fact_status=("active",), sources=("m",)),
    Hit(record=OF_EVERY_KIND[0], kind="message", score=1.0),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_copies_are_equal(record):
    assert copy.deepcopy(record) == record
    assert pickle.loads(pickle.dumps(record)) == record
    assert set(asdict(record)) == set(type(record).__dataclass_fields__)
