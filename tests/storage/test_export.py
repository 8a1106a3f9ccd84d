"""A memory to a file and back: nothing lost, nothing twice, no half file; what is bad is told."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_file import KINDS, File, fact, fill
from refusing import raises, refused
from samples import ANA, AWKWARD, episode, knowledge, message, summary, task
from tables import read_tables

from jiyi.errors import DiskFull, ImportFailed, StorageError
from jiyi.records import Query, Scope, Step


@pytest.fixture
def full(one):
    """The memory with something of every kind."""
    fill(one)
    return one


@pytest.mark.parametrize("text", ["你好 world", *AWKWARD.values()], ids=["plain", *AWKWARD])
def test_there_and_back_is_the_same(one, fresh, tmp_path, text):
    fill(one, text)
    told = one.export(tmp_path / "a.jsonl")
    receipt = fresh.import_(tmp_path / "a.jsonl")
    assert receipt.rejected == ()
    assert (receipt.added, receipt.known, dict(receipt.counts)) == (told.total, 0, dict(told.counts))
    assert told.counts["summary"] == 4
    assert fresh.everything() == one.everything()
    assert all(m.tokens for m in fresh.store.find(Query(scope=ANA, kinds=("message",), limit=100)))
    fresh.export(tmp_path / "b.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert told.bytes == (tmp_path / "a.jsonl").stat().st_size


TEXT = st.text(max_size=20)
IDS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=8).filter(str.strip)
MOMENTS = st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
NUMBERS = st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
TEXTS = st.lists(TEXT, max_size=2).map(tuple)
SOURCES = st.lists(IDS, max_size=2, unique=True).map(tuple)
NOTES = st.dictionaries(TEXT, JSON, max_size=2)
SOON = st.integers(0, 10)
SCOPES = st.builds(Scope, user_id=st.just("ana"), agent_id=st.none() | IDS, session_id=IDS)
PLACED = {"scope": SCOPES, "at": SOON}
SAID = {"session": IDS, "at": st.integers(-(10**6), 10**6), "agent": st.none() | IDS, "pinned": st.booleans()}
SAID |= {"importance": st.none() | st.floats(0, 1), "name": st.none() | TEXT}
MESSAGES = st.builds(message, TEXT, role=st.sampled_from(["user", "assistant", "system"]), **SAID)
STEPS = st.builds(
    Step, scope=SCOPES, task_id=st.just("?"), description=TEXT, args=NOTES,
    result=st.none() | TEXT, tool_name=st.none() | TEXT, started_at=st.none() | MOMENTS,
    status=st.sampled_from(["pending", "completed"]), seq=st.just(0),
)  # fmt: skip
PAST = {"tags": TEXTS, "target": st.none() | TEXT, "importance": st.floats(0, 1)}
HELD = {"valid_from": st.none() | MOMENTS, "valid_to": st.none() | MOMENTS, "confidence": st.floats(0, 1)}
HELD |= {"subject": TEXT, "predicate": TEXT, "sources": SOURCES, "supersedes": st.none() | IDS}
HELD |= {"status": st.sampled_from(["active", "superseded", "retracted", "expired"])}
OTHERS = st.one_of(
    st.builds(episode, TEXT, steps=st.lists(STEPS, max_size=2).map(tuple), **PLACED, **PAST),
    st.builds(knowledge, TEXT, at=SOON, source_episodes=SOURCES),
    st.builds(task, TEXT, context=NOTES, **PLACED),
    st.builds(fact, TEXT, **PLACED, **HELD),
)


@pytest.mark.slow
@settings(max_examples=60)
@given(records=st.lists(MESSAGES | OTHERS, max_size=12), steps=st.lists(STEPS, max_size=3))
def test_any_records_come_back_the_same(tmp_path_factory, records, steps):
    folder = tmp_path_factory.mktemp("any")
    one, two = File(folder / "one.db"), File(folder / "two.db")
    one.store.put(records)
    job = task("with steps")
    one.store.put([job, *(replace(step, task_id=job.id, seq=None) for step in steps)])
    one.export(folder / "a.jsonl")
    assert two.import_(folder / "a.jsonl").rejected == ()
    two.export(folder / "b.jsonl")
    assert (folder / "a.jsonl").read_bytes() == (folder / "b.jsonl").read_bytes()
    assert two.everything() == one.everything()
    again = two.import_(folder / "a.jsonl")
    assert (again.added, again.rejected) == (0, ())
    one.database.close()
    two.database.close()


def test_the_header_says_what_is_there_and_lines_say_their_kind(full, tmp_path):
    told = full.export(tmp_path / "a.jsonl")
    header, *lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text("utf-8").splitlines()]
    assert header == {
        "jiyi_export": 1, "user_id": "ana", "agent_id": None, "session_id": None, "counts": dict(told.counts),
    }  # fmt: skip
    assert [line["kind"] for line in lines] == [k for k in KINDS for _ in range(told.counts[k])]
    assert not any("user_id" in line or ("tokens" in line and line["kind"] == "message") for line in lines)
    places = [(line["session_id"], line["seq"]) for line in lines if line["kind"] == "message"]
    assert places == sorted(places)


def test_a_message_id_that_another_message_has_is_reported(full, fresh, tmp_path):
    fresh.store.put([message("taken", session="s9", id="parts")])
    full.export(tmp_path / "a.jsonl")
    receipt = fresh.import_(tmp_path / "a.jsonl")
    assert len(receipt.rejected) == 1
    assert "taken by a different message" in receipt.rejected[0].reason
    assert receipt.added == len(full.everything()) - 1


# --- summaries


def folded(one, count=3):
    """A session of so many messages, each in a version of its own."""
    said = one.store.put([message(f"m{n}", id=f"m{n}", at=n) for n in range(count)])
    made = [None]
    for n, stored in enumerate(said):
        made += one.store.put([summary(made[-1], [stored.id], n, f"up to {n}", at=n)])
    return made[1:]


def summaries(one, scope=ANA):
    return one.store.find(Query(scope=scope.in_session("s"), kinds=("summary",), limit=100))


def test_summaries_go_on_where_they_were(one, fresh, tmp_path):
    made = folded(one)
    one.export(tmp_path / "a.jsonl", ANA.in_session("s"))
    fresh.import_(tmp_path / "a.jsonl")
    assert summaries(fresh) == made
    later = fresh.store.put([message("more"), summary(made[-1], ["m2"], 3, "more")])
    assert later[0].seq == 3
    before = fresh.everything()
    receipt = fresh.import_(tmp_path / "a.jsonl")
    assert (receipt.added, receipt.known, receipt.rejected) == (0, 6, ())
    assert fresh.everything() == before
    assert fresh.export(tmp_path / "b.jsonl").counts["summary"] == 4
    assert one.import_(tmp_path / "b.jsonl").counts == {"message": 1, "summary": 1}
    assert summaries(one) == summaries(fresh)


def test_a_summary_alone_keeps_its_places(one, fresh, tmp_path):
    made = folded(one)
    one.store.delete(Query(scope=ANA, kinds=("message",), limit=100))
    one.export(tmp_path / "a.jsonl")
    fresh.import_(tmp_path / "a.jsonl")
    assert summaries(fresh) == made
    assert fresh.store.put([message("new")])[0].seq == 3


def test_another_summary_of_the_same_session_stays_and_the_others_are_reported(one, fresh, tmp_path):
    folded(one)
    one.export(tmp_path / "a.jsonl")
    fresh.import_(tmp_path / "a.jsonl")
    fresh.store.delete(Query(scope=ANA, kinds=("summary",), limit=100))
    (mine,) = fresh.store.put([summary(None, ["m0", "m1"], 1, "mine")])
    receipt = fresh.import_(tmp_path / "a.jsonl")
    assert summaries(fresh) == [mine]
    assert (receipt.added, receipt.known) == (0, 3)
    assert ["does not go on from version 1" in bad.reason for bad in receipt.rejected] == [True] * 3


def test_a_summary_that_knows_nothing_of_an_imported_message_makes_way(one, fresh, tmp_path):
    made = folded(one)
    one.export(tmp_path / "a.jsonl")
    fresh.store.put([summary(None, ["x"], 0, "written where m0 was not")])
    fresh.import_(tmp_path / "a.jsonl")
    assert summaries(fresh) == made


def test_summaries_of_messages_that_found_their_places_taken_are_reported(one, fresh, tmp_path):
    folded(one)
    one.export(tmp_path / "a.jsonl")
    fresh.store.put([message("was here first", id="mine")])
    receipt = fresh.import_(tmp_path / "a.jsonl")
    assert summaries(fresh) == []
    assert [m.id for m in fresh.store.find(Query(scope=ANA.in_session("s"), kinds=("message",)))] == [
        "mine", "m0", "m1", "m2",
    ]  # fmt: skip
    assert "went to the end of session 's'" in receipt.rejected[0].reason
    assert len(receipt.rejected) == 3


def test_an_export_of_before_there_were_summaries_is_whole(one, fresh, tmp_path):
    folded(one)
    one.store.delete(Query(scope=ANA, kinds=("summary",), limit=100))
    one.export(tmp_path / "a.jsonl")
    header, *lines = (tmp_path / "a.jsonl").read_text("utf-8").splitlines()
    counts = json.loads(header)["counts"]
    assert counts.pop("summary") == 0
    older = json.dumps({**json.loads(header), "counts": counts})
    (tmp_path / "b.jsonl").write_text("\n".join([older, *lines]), "utf-8")
    assert fresh.import_(tmp_path / "b.jsonl").rejected == ()


# --- the file itself


def test_a_failure_leaves_the_old_file_and_nothing_else(full, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "a.jsonl").write_text("the old one")
    full.store.put([message(f"m{n}", session="big") for n in range(2_500)])

    def fail(done):
        raise KeyboardInterrupt(done)

    raises(KeyboardInterrupt, full.export, folder / "a.jsonl", progress=fail)
    assert [p.name for p in folder.iterdir()] == ["a.jsonl"]
    assert (folder / "a.jsonl").read_text() == "the old one"
    seen = []
    full.export(folder / "a.jsonl", progress=seen.append)
    assert seen == [1_000, 2_000, len(full.everything())]
    assert [p.name for p in folder.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize("name", ["missing/a.jsonl", "file/a.jsonl", "."])
def test_a_place_that_cannot_be_written_is_told(one, tmp_path, name):
    (tmp_path / "file").write_text("x")
    refused(StorageError, r"cannot be written|is a folder", one.export, tmp_path / name)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full of Linux")
def test_a_full_disk_is_told(full, tmp_path, monkeypatch):

    def full_disk(folder):
        return os.open("/dev/full", os.O_WRONLY), folder / "a.part"

    monkeypatch.setattr("jiyi.storage.transfer.files._create_locked", full_disk)
    refused(DiskFull, "export again", full.export, tmp_path / "a.jsonl")
    assert not [name for name in os.listdir(tmp_path) if name.endswith((".jsonl", ".part"))]


def test_more_sessions_and_tasks_than_one_question_returns(one, fresh, tmp_path, monkeypatch):
    one.store.put([message(f"m{n}", session=f"s{n % 7}", at=n) for n in range(20)])
    one.store.put([task(f"t{n}", at=n // 4) for n in range(20)])
    whole = one.export(tmp_path / "a.jsonl")
    monkeypatch.setattr("jiyi.storage.store.MAX_LIMIT", 5)
    monkeypatch.setattr("jiyi.storage.transfer.export._BATCH_SIZE", 3)
    assert one.export(tmp_path / "b.jsonl").counts == whole.counts
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_only_a_session_or_an_agent(full, fresh, tmp_path):
    assert full.export(tmp_path / "s.jsonl", ANA.in_session("s1")).counts["message"] == 3
    ops = Scope(user_id="ana", agent_id="ops")
    told = full.export(tmp_path / "o.jsonl", ops)
    assert 0 < told.counts["message"] < full.export(tmp_path / "a.jsonl").counts["message"]
    fresh.import_(tmp_path / "o.jsonl")
    assert fresh.everything(ops) == full.everything(ops)
    fresh.export(tmp_path / "again.jsonl", ops)
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "o.jsonl").read_bytes()


def test_twice_changes_nothing_and_what_lives_on_is_left_alone(full, tmp_path):
    full.export(tmp_path / "a.jsonl")
    (known,) = full.store.find(Query(scope=ANA, kinds=("knowledge",)))
    full.store.put([replace(known, access_count=99)])
    before = full.everything()
    receipt = full.import_(tmp_path / "a.jsonl")
    assert (receipt.added, receipt.rejected, receipt.known) == (0, (), len(before))
    assert full.everything() == before


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
    refused(ImportFailed, "upgrade", read, [header, *lines[1:]])
    assert fresh.everything() == {}


def test_line_ends_and_marks_of_other_systems_are_read(one, lines, fresh, tmp_path):
    (tmp_path / "b.jsonl").write_bytes(b"\xef\xbb\xbf" + "\r\n\r\n".join(lines).encode())
    assert fresh.import_(tmp_path / "b.jsonl").rejected == ()
    assert fresh.everything() == one.everything()
