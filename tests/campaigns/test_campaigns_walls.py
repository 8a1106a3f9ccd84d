"""A few hundred of the random operations of `walls.py`, on both databases."""

import os

import pytest
from campaigns.walls import VERBS, campaign

CLUSTER = os.environ.get("JIYI_TEST_CITUS_URL")


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", "postgres", *(["citus"] if CLUSTER else [])])
def test_no_answer_holds_anything_of_others(request, tmp_path, database):
    fixture = f"{database}_url"
    place = str(tmp_path / "w.db") if database == "sqlite" else request.getfixturevalue(fixture)
    seen = campaign(place, operations=300, seconds=240, threads=2, seed=4)
    assert seen["faults"] == []
    assert set(seen["verbs"]) >= {verb.__name__ for verb in VERBS} - {"transfer", "look_after"}
    assert set(seen["errors"]) <= {"BadQuery", "NotFound", "WrongState", "DuplicateId"}
