"""The campaign of damaged bytes, for some seconds."""

import pytest
from campaigns.damage import campaign


@pytest.mark.slow
def test_random_damage_raises_typed_errors_and_changes_nothing_silently():
    report = campaign(120, seed=7, messages=20, most=5)
    assert report["faults"] == []
    assert report["rounds"] >= 1
    assert report["records given back"] or report["DatabaseDamaged"]
