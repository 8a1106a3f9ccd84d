"""A short run of the campaign of failing disks."""

import pytest
from campaigns.io_faults import campaign


@pytest.mark.slow
def test_a_disk_that_fails_loses_nothing():
    found = campaign(120, 1, most=10)
    assert found["faults"] == []
    assert sum(found["failed first"].values()) > 3
