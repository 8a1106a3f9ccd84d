"""Facts and knowledge keep the caller's metadata, as messages do."""

import json

import pytest
from refusing import refused

from jiyi.errors import InputError

LABELS = {"source": "crm", "n": 1, "渠道": "微信", "tags": ["a", None]}


def test_facts_keep_metadata_and_later_values_count_and_what_a_message_taught_has_none(memory):
    assert all(fact.metadata == LABELS for fact in memory.remember("Ana prefers tea", metadata=LABELS).facts)
    kept = memory.remember("Ana prefers tea", metadata={"n": 2}).kept
    assert memory.get(kept).metadata == {**LABELS, "n": 2}
    assert memory.get(memory.remember("The port is 8443").kept).metadata == {}
    memory.save_message("s", role="user", content="My name is Ana.", metadata=LABELS)
    (fact,) = [fact for fact in memory.facts() if fact.object == "Ana"]
    assert fact.metadata == {}
    assert memory.get(fact.sources[0]).metadata == LABELS


@pytest.mark.parametrize("metadata", ["crm", {1: "a"}, {"a": float("nan")}, {"a": "\0"}, {"a": "x" * 17_000}])
def test_metadata_of_a_fact_that_cannot_be_kept_is_refused(memory, metadata):
    refused(InputError, "metadata", memory.remember, "Ana prefers tea", metadata=metadata)
    assert memory.facts() == []


def test_metadata_goes_along_in_exports(memory, open_memory, tmp_path):
    kept = memory.remember("Ana prefers tea", metadata=LABELS).kept
    memory.export(tmp_path / "out.jsonl")
    copy = open_memory("copy.db")
    copy.import_(tmp_path / "out.jsonl")
    assert copy.get(kept).metadata == LABELS
    memory.forget(ids=kept)
    memory.restore(kept)
    assert memory.get(kept).metadata == LABELS
    memory.export(tmp_path / "out.md", format="markdown")
    assert json.dumps(LABELS, ensure_ascii=False) in (tmp_path / "out.md").read_text("utf-8")
