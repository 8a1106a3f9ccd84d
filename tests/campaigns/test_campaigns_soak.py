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
        "objects grew from 114.5 to 124.5"
    ]
    early = [row | {"rss_mb": 100.0 + min(n, 10) * 10} for n, row in enumerate(flat)]
    assert grown(early) == []
