"""The soak in small, and what it would say of a run that grows."""

from xml.etree import ElementTree

import pytest
from campaigns.soak import INTERVALS, LIMITS, grown, soak, svg


@pytest.mark.slow
def test_a_short_run_raises_nothing_and_keeps_few_handles(tmp_path):
    rows, faults = soak(str(tmp_path / "a.db"), minutes=5, operations=400, seed=3, tell=lambda row: None)
    assert not faults
    assert len(rows) == INTERVALS
    assert max(row["handles"] for row in rows) <= rows[0]["handles"] + 10  # in so short a run all gets warm
    assert len(ElementTree.fromstring(svg(rows)).findall("{*}polyline")) == 5


def test_what_grows_in_the_last_third_is_told():
    flat = [{**dict.fromkeys(LIMITS, 100.0), "operations": n, "p99_ms": 1.0} for n in range(30)]
    assert grown(flat) == []
    assert grown([row | {"objects": 100.0 + n} for n, row in enumerate(flat)]) == [
        "objects grew from 122 to 127"
    ]
    assert grown([row | {"handles": 9.0 + (n > 24)} for n, row in enumerate(flat)])


@pytest.mark.parametrize("full_after", [10, 18, 26])
def test_a_cache_that_is_full_before_the_end_does_not_count(full_after):
    flat = [{**dict.fromkeys(LIMITS, 100.0), "operations": n, "p99_ms": 1.0} for n in range(30)]
    assert grown([row | {"objects": 100.0 + 5 * min(n, full_after)} for n, row in enumerate(flat)]) == []
