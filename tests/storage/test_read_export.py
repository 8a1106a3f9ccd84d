"""Reading an export: what is sound goes in, and the rest is told with its place."""

import json

import pytest
from memory_file import KINDS, fill
from tables import read_tables

from jiyi.errors import ImportFailed


@pytest.fixture
def memory(opened, tmp_path):
    return opened(tmp_path / "one.db")


@pytest.fixture
def fresh(opened, tmp_path):
    return opened(tmp_path / "two.db")


# --- what is wrong with a file


def lines_of(memory, tmp_path):
    fill(memory)
    memory.export(tmp_path / "a.jsonl")
    return (tmp_path / "a.jsonl").read_text("utf-8").splitlines()


BROKEN = {
    "not JSON": lambda line: line[:-5],
    "a list": lambda line: "[1]",
    "an unknown kind": lambda line: line.replace('"kind":"', '"kind":"x'),
    "no id": lambda line: line.replace('"id":', '"di":'),
    "a number as id": lambda line: json.dumps({**json.loads(line), "id": 5}),
    "an empty id": lambda line: json.dumps({**json.loads(line), "id": ""}),
    "an unknown field": lambda line: json.dumps({**json.loads(line), "color": "red"}),
    "a wrong date": lambda line: json.dumps(
        {**json.loads(line), **{k: "soon" for k in json.loads(line) if k in ("created_at", "started_at")}}
    ),
    "a date without a zone": lambda line: json.dumps(
        {
            **json.loads(line),
            **{k: "2026-01-01" for k in json.loads(line) if k in ("created_at", "started_at")},
        }
    ),
    "endless": lambda line: json.dumps({**json.loads(line), "pinned": float("inf")}),
    "deep": lambda line: "[" * 100_000,
    "a user as scope": lambda line: json.dumps({**json.loads(line), "agent_id": " "}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", BROKEN)
def test_a_broken_line_is_reported_and_the_rest_goes_in(memory, fresh, tmp_path, kind, damage):
    lines = lines_of(memory, tmp_path)
    place = next(i for i, line in enumerate(lines) if f'"kind":"{kind}"' in line)
    lines[place] = BROKEN[damage](lines[place])
    (tmp_path / "b.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    receipt = fresh.import_(tmp_path / "b.jsonl")
    assert receipt.rejected[0].where == f"b.jsonl:{place + 1}", receipt.rejected
    assert receipt.rejected[0].reason
    assert receipt.added == len(lines) - 2


@pytest.mark.parametrize(("kind", "change"), read_tables(__file__)["a field of a wrong type"])
def test_a_field_of_a_wrong_type_is_reported(memory, fresh, tmp_path, kind, change):
    lines = lines_of(memory, tmp_path)
    place = next(i for i, line in enumerate(lines) if f'"kind":"{kind}"' in line)
    lines[place] = json.dumps({**json.loads(lines[place]), **json.loads(change)})
    (tmp_path / "b.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    receipt = fresh.import_(tmp_path / "b.jsonl")
    assert [bad.where for bad in receipt.rejected] == [f"b.jsonl:{place + 1}"]
    assert receipt.added == len(lines) - 2


def test_a_file_that_was_cut_off_is_told(memory, fresh, tmp_path):
    lines = lines_of(memory, tmp_path)
    (tmp_path / "b.jsonl").write_text("\n".join(lines[:-2]) + "\n", "utf-8")
    receipt = fresh.import_(tmp_path / "b.jsonl")
    assert receipt.added == len(lines) - 3
    assert "cut off" in receipt.rejected[0].reason
    summaries = sum('"kind":"summary"' in line for line in lines)
    assert f"{summaries} of kind summary, found {summaries - 2}" in receipt.rejected[0].reason


@pytest.mark.parametrize("version", [2, 1.5, "1", None, True, [1]])
def test_another_version_is_refused_before_anything_goes_in(memory, fresh, tmp_path, version):
    lines = lines_of(memory, tmp_path)
    header = {**json.loads(lines[0]), "jiyi_export": version}
    (tmp_path / "b.jsonl").write_text("\n".join([json.dumps(header), *lines[1:]]), "utf-8")
    with pytest.raises(ImportFailed, match="upgrade"):
        fresh.import_(tmp_path / "b.jsonl")
    assert fresh.everything() == {}


def test_line_ends_and_marks_of_other_systems_are_read(memory, fresh, tmp_path):
    lines = lines_of(memory, tmp_path)
    (tmp_path / "b.jsonl").write_bytes(b"\xef\xbb\xbf" + "\r\n\r\n".join(lines).encode())
    assert fresh.import_(tmp_path / "b.jsonl").rejected == ()
    assert fresh.everything() == memory.everything()
