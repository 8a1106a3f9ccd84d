"""Reading an export: what is sound goes in, and the rest is told with its place."""

import json

import pytest
from memory_file import KINDS, fill
from tables import read_tables

from jiyi.errors import ImportFailed


@pytest.fixture
def lines(one, tmp_path):
    """An export of a memory with records of all kinds, line by line."""
    fill(one)
    one.export(tmp_path / "a.jsonl")
    return (tmp_path / "a.jsonl").read_text("utf-8").splitlines()


@pytest.fixture
def read(fresh, tmp_path):
    """Read lines as an export."""

    def read(lines):
        (tmp_path / "b.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
        return fresh.import_(tmp_path / "b.jsonl")

    return read


def change_first(lines, kind, change):
    """Change the first line of a kind, and say where it stands."""
    place = next(i for i, line in enumerate(lines) if f'"kind":"{kind}"' in line)
    lines[place] = change(lines[place])
    return f"b.jsonl:{place + 1}"


def with_dates(line, date):
    dates = {name: date for name in json.loads(line) if name in ("created_at", "started_at")}
    return json.dumps(json.loads(line) | dates)


BROKEN = {
    "not JSON": lambda line: line[:-5],
    "a list": lambda line: "[1]",
    "an unknown kind": lambda line: line.replace('"kind":"', '"kind":"x'),
    "no id": lambda line: line.replace('"id":', '"di":'),
    "a number as id": lambda line: json.dumps({**json.loads(line), "id": 5}),
    "an empty id": lambda line: json.dumps({**json.loads(line), "id": ""}),
    "an unknown field": lambda line: json.dumps({**json.loads(line), "color": "red"}),
    "a wrong date": lambda line: with_dates(line, "soon"),
    "a date without a zone": lambda line: with_dates(line, "2026-01-01"),
    "endless": lambda line: json.dumps({**json.loads(line), "pinned": float("inf")}),
    "deep": lambda line: "[" * 100_000,
    "a user as scope": lambda line: json.dumps({**json.loads(line), "agent_id": " "}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", BROKEN)
def test_a_broken_line_is_reported_and_the_rest_goes_in(lines, read, kind, damage):
    where = change_first(lines, kind, BROKEN[damage])
    receipt = read(lines)
    assert receipt.rejected[0].where == where, receipt.rejected
    assert receipt.rejected[0].reason
    assert receipt.added == len(lines) - 2


@pytest.mark.parametrize(("kind", "change"), read_tables(__file__)["a field of a wrong type"])
def test_a_field_of_a_wrong_type_is_reported(lines, read, kind, change):
    where = change_first(lines, kind, lambda line: json.dumps(json.loads(line) | json.loads(change)))
    receipt = read(lines)
    assert [bad.where for bad in receipt.rejected] == [where]
    assert receipt.added == len(lines) - 2


def test_a_file_that_was_cut_off_is_told(lines, read):
    receipt = read(lines[:-2])
    assert receipt.added == len(lines) - 3
    assert "cut off" in receipt.rejected[0].reason
    summaries = sum('"kind":"summary"' in line for line in lines)
    assert f"{summaries} of kind summary, found {summaries - 2}" in receipt.rejected[0].reason


@pytest.mark.parametrize("version", [2, 1.5, "1", None, True, [1]])
def test_another_version_is_refused_before_anything_goes_in(lines, read, fresh, version):
    header = json.dumps(json.loads(lines[0]) | {"jiyi_export": version})
    with pytest.raises(ImportFailed, match="upgrade"):
        read([header, *lines[1:]])
    assert fresh.everything() == {}


def test_line_ends_and_marks_of_other_systems_are_read(one, lines, fresh, tmp_path):
    (tmp_path / "b.jsonl").write_bytes(b"\xef\xbb\xbf" + "\r\n\r\n".join(lines).encode())
    assert fresh.import_(tmp_path / "b.jsonl").rejected == ()
    assert fresh.everything() == one.everything()
