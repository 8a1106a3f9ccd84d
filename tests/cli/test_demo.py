"""`jiyi demo` with the bundled model: the evidence for its questions is in its windows."""

import json

import pytest

from jiyi.databases import check_database

pytestmark = pytest.mark.slow


def test_the_demo_finds_all_evidence(out, tmp_path):
    db = tmp_path / "demo.db"
    told = json.loads(out("demo", "--json", "--db", db))
    assert len(told["questions"]) == 3
    for question in told["questions"]:
        assert question["found"] == question["evidence"], question["question"]
        assert question["place"], question["question"]
        assert question["report"]["tokens"] <= question["report"]["max_input_tokens"]
    assert told["stats"]["vectors_pending"] == 0
    assert "sound" in check_database(db)
