"""Files to messages: every form that is understood, what is said of the rest, and nothing twice."""

import json
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from refusing import refused
from tables import read_tables

import jiyi
from jiyi.errors import ImportFailed
from jiyi.records import Message, Scope
from jiyi.storage import Found, Rejected, read_conversations
from jiyi.testing import HashEmbedder

ANA = Scope(user_id="ana")
HI = {"role": "user", "content": "你好"}
YO = {"role": "assistant", "content": "hello"}
TABLES = read_tables(__file__)


def read(path: Path, **options) -> tuple[list[Message], list[Rejected]]:
    entries = list(read_conversations(path, ANA, **options))
    found = [e.record for e in entries if isinstance(e, Found)]
    return found, [e for e in entries if isinstance(e, Rejected)]


def written(tmp_path: Path, name: str, data: object) -> Path:
    path = tmp_path / name
    if isinstance(data, bytes):
        path.write_bytes(data)
    else:
        path.write_text(data if isinstance(data, str) else json.dumps(data, ensure_ascii=False), "utf-8")
    return path


def lines(*entries: object) -> str:
    return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)


SESSIONS = [
    {"session_id": "s1", "started_at": "2026-03-02T09:00:00+00:00", "messages": [HI, YO]},
    {"session_id": "s2", "messages": [{**HI, "id": "m3", "created_at": "2026-03-03T09:00:00Z"}]},
]
NEUTRAL = {"name": "tiny", "conversations": [{"conversation_id": "c1", "sessions": SESSIONS}]}


@pytest.mark.parametrize(("_form", "name", "data", "sessions"), TABLES["forms"])
def test_every_form_is_read(tmp_path, _form, name, data, sessions):
    messages, rejected = read(written(tmp_path, name, eval(data)))
    assert [m.scope.session_id for m in messages] == sessions.split()
    assert rejected == []
    assert len({m.id for m in messages}) == len(messages)


def test_neutral_messages_without_a_date_follow_their_session(tmp_path):
    messages, _ = read(written(tmp_path, "n.json", NEUTRAL))
    assert messages[0].created_at == datetime(2026, 3, 2, 9, tzinfo=UTC)
    assert messages[0].created_at < messages[1].created_at
    assert messages[2].created_at == datetime(2026, 3, 3, 9, tzinfo=UTC)
    assert messages[2].id == "m3"


def test_the_envelope_is_taken_off(tmp_path):
    inside = {**HI, "name": "Lin", "mood": "fine"}
    entry = {**inside, "id": "m1", "session_id": "s1", "created_at": "2026-03-02T08:00:00+08:00"}
    [message], _ = read(written(tmp_path, "e.jsonl", lines(entry)))
    assert (message.id, message.scope.session_id, message.scope.user_id) == ("m1", "s1", "ana")
    assert message.created_at == datetime(2026, 3, 2, tzinfo=UTC)
    assert message.to_dict() == inside


def test_metadata_comes_along_or_is_refused(tmp_path):
    entries = lines({**HI, "metadata": {"channel": "slack"}}, {**YO, "metadata": "slack"})
    [message], [rejected] = read(written(tmp_path, "e.jsonl", entries))
    assert message.metadata == {"channel": "slack"}
    assert "metadata must be a dict" in rejected.reason


def test_session_option_names_only_what_has_no_name(tmp_path):
    path = written(tmp_path, "e.jsonl", lines(HI, {**YO, "session_id": "own"}))
    messages, _ = read(path, session_id="given")
    assert [m.scope.session_id for m in messages] == ["given", "own"]


@pytest.mark.parametrize(("fields", "moment"), TABLES["dates"])
def test_dates(tmp_path, fields, moment):
    path = written(tmp_path, "d.jsonl", lines(HI | json.loads(fields)))
    [message], _ = read(path, zone=ZoneInfo("Asia/Shanghai"))
    assert message.created_at == (datetime.fromisoformat(moment) if moment else None)


@pytest.mark.parametrize("date", ["soon", 1e300, "nan", True, {"at": 1}, "9999-12-31T23:59:59", "0001-01-01"])
def test_impossible_dates_are_reported(tmp_path, date):
    path = written(tmp_path, "d.jsonl", lines({**HI, "created_at": date}))
    messages, [bad] = read(path, zone=ZoneInfo("Asia/Shanghai"))
    assert messages == []
    assert bad.where == "d.jsonl:1"
    assert "neither ISO 8601 nor seconds" in bad.reason


def test_bom_crlf_blank_lines_and_no_line_break_at_the_end(tmp_path):
    text = b"\xef\xbb\xbf" + lines(HI).replace("\n", "\r\n").encode() + b"\r\n\n" + lines(YO).encode()
    messages, rejected = read(written(tmp_path, "b.jsonl", text))
    assert [m.content for m in messages] == ["你好", "hello"]
    assert rejected == []
    messages, _ = read(written(tmp_path, "b.json", b"\xef\xbb\xbf" + json.dumps([HI]).encode()))
    assert messages[0].content == "你好"
    assert len(read(written(tmp_path, "e.jsonl", lines(HI, YO).rstrip()))[0]) == 2


BAD_LINES = dict(TABLES["bad lines"]) | {"[" * 100_000: "not JSON", "1" * 5_000: "not JSON"}


def test_bad_lines_are_reported_with_their_place_and_the_rest_goes_in(tmp_path):
    text = "".join(f"{lines(HI)}{bad}\n" for bad in BAD_LINES)
    messages, rejected = read(written(tmp_path, "b.jsonl", text))
    assert len(messages) == len(BAD_LINES)
    assert [bad.where for bad in rejected] == [f"b.jsonl:{2 * i + 2}" for i in range(len(BAD_LINES))]
    for bad, part in zip(rejected, BAD_LINES.values(), strict=True):
        assert part in bad.reason


def test_lines_that_are_not_utf8_are_reported(tmp_path):
    text = lines(HI).encode() + '{"role": "user", "content": "中文"}\n'.encode("gb18030") + lines(YO).encode()
    messages, [bad] = read(written(tmp_path, "g.jsonl", text))
    assert len(messages) == 2
    assert bad.where == "g.jsonl:2"
    assert "UTF-8" in bad.reason


def test_reasons_stay_readable_however_long_the_value(tmp_path):
    path = written(tmp_path, "l.jsonl", lines({"role": "x" * 5_000_000, "content": ""}))
    _, [bad] = read(path)
    assert len(bad.reason) <= 500


def test_a_line_of_five_megabytes(tmp_path):
    long = "记忆 memory " * 500_000
    [message, _], rejected = read(written(tmp_path, "h.jsonl", lines({"role": "user", "content": long}, YO)))
    assert message.content == long
    assert rejected == []


@pytest.mark.parametrize(("data", "where", "reason"), TABLES["nested garbage"])
def test_nested_garbage_is_reported_at_its_place(tmp_path, data, where, reason):
    _, [bad] = read(written(tmp_path, "n.json", eval(data)))
    assert bad.where.startswith("n.json")
    assert bad.where.endswith(where)
    assert reason in bad.reason


@pytest.mark.parametrize(("data", "reason"), TABLES["unreadable files"])
def test_files_that_cannot_be_read_at_all(tmp_path, data, reason):
    refused(ImportFailed, reason, read, written(tmp_path, "x.json", eval(data)))


@pytest.mark.parametrize("ending", [".json", ".jsonl"])
def test_missing_files_and_folders(tmp_path, ending):
    refused(ImportFailed, "No such file", read, tmp_path / f"missing{ending}")
    folder = tmp_path / f"folder{ending}"
    folder.mkdir()
    refused(ImportFailed, "directory", read, folder)


def test_ids_depend_on_session_and_content_only(tmp_path):
    before, _ = read(written(tmp_path, "s.jsonl", lines(HI, YO, HI, HI)))
    assert len({m.id for m in before}) == 4
    mended, _ = read(written(tmp_path, "s.jsonl", lines(HI, {**YO, "name": "x"}, YO, HI, HI, HI)))
    assert {m.id for m in before} < {m.id for m in mended}
    other, _ = read(written(tmp_path, "t.jsonl", lines(HI)))
    assert other[0].id not in {m.id for m in before}


def test_lone_surrogates_survive(tmp_path):
    [message], _ = read(written(tmp_path, "s.jsonl", '{"role": "user", "content": "a\\ud800b"}\n'))
    assert message.content == "a\ud800b"


def talk(tmp_path: Path, count: int, name: str = "talk.jsonl", **fields: object) -> Path:
    path = tmp_path / name
    entries = [{"role": "user", "content": f"第 {i} 条 message", **fields} for i in range(count)]
    path.write_text("".join(json.dumps(e, ensure_ascii=False) + "\n" for e in entries), "utf-8")
    return path


def figures(receipt) -> tuple[int, int, int]:
    return receipt.added, receipt.known, len(receipt.rejected)


@pytest.mark.slow
def test_twice_adds_nothing(tmp_path, memory):
    path = talk(tmp_path, 450)
    seen: list[int] = []
    assert figures(memory.import_(path, progress=seen.append)) == (450, 0, 0)
    assert seen == [200, 400, 450]
    before = memory.session_messages("talk")
    assert figures(memory.import_(path)) == (0, 450, 0)
    assert memory.session_messages("talk") == before
    assert [m.content for m in before] == [f"第 {i} 条 message" for i in range(450)]
    assert all(m.tokens for m in before)


def test_what_was_imported_is_found_and_appended_lines_are_the_only_new_ones(tmp_path, memory):
    path = talk(tmp_path, 30)
    memory.import_(path)
    assert memory.search("第 7 条", limit=20)
    assert memory.flush() == 30
    talk(tmp_path, 33)
    assert figures(memory.import_(path)) == (3, 30, 0)
    assert [m.content for m in memory.recent_messages("talk", 2)] == ["第 31 条 message", "第 32 条 message"]


def test_a_mended_line_is_the_only_new_one(tmp_path, memory):
    path = talk(tmp_path, 10)
    whole = path.read_text("utf-8")
    path.write_text(whole.replace('"content": "第 3 条', '"content" "第 3 条'), "utf-8")
    assert figures(memory.import_(path)) == (9, 0, 1)
    path.write_text(whole, "utf-8")
    assert figures(memory.import_(path)) == (1, 9, 0)


def test_two_users_import_the_same_file(tmp_path, memory):
    path = talk(tmp_path, 5)
    assert figures(memory.import_(path)) == (5, 0, 0)
    assert figures(memory.import_(path, user_id="bob")) == (5, 0, 0)
    assert memory.stats(user_id="bob")["message"] == 5
    assert memory.stats()["message"] == 5
    named = talk(tmp_path, 1, "named.jsonl", id="m1")
    assert figures(memory.import_(named)) == (1, 0, 0)
    assert figures(memory.import_(named, user_id="bob")) == (1, 0, 0)


def test_an_id_used_twice_goes_in_once_and_is_reported(tmp_path, memory):
    path = tmp_path / "d.jsonl"
    entries = [("m1", "one"), ("m2", "two"), ("m1", "other"), ("m2", "two"), ("m3", "three")]
    lines = [json.dumps({"id": i, "role": "user", "content": c}) for i, c in entries]
    path.write_text("\n".join(lines), "utf-8")
    receipt = memory.import_(path)
    assert figures(receipt) == (3, 1, 1)
    assert receipt.rejected[0].where == "d.jsonl:3"
    assert "taken" in receipt.rejected[0].reason
    assert [m.content for m in memory.session_messages("d")] == ["one", "two", "three"]
    assert figures(memory.import_(path)) == (0, 4, 1)


@pytest.mark.slow
def test_a_crash_leaves_whole_batches_and_the_next_import_completes(tmp_path, memory):
    path = talk(tmp_path, 1_000)

    def crash(seen: int) -> None:
        if seen >= 600:
            raise RuntimeError("the power went")

    refused(RuntimeError, "power", memory.import_, path, progress=crash)
    assert memory.stats()["message"] == 600
    assert figures(memory.import_(path)) == (400, 600, 0)
    assert [m.seq for m in memory.session_messages("talk")] == list(range(1_000))


def test_empty_files_and_only_bad_entries_add_nothing(tmp_path, memory):
    assert figures(memory.import_(talk(tmp_path, 0))) == (0, 0, 0)
    path = tmp_path / "bad.jsonl"
    path.write_text("{\n" * 300, "utf-8")
    assert figures(memory.import_(path)) == (0, 0, 300)
    assert memory.stats()["message"] == 0


@pytest.mark.slow
def test_any_text_goes_in_and_comes_back(tmp_path, memory):
    texts = ["a\ud800b", "nul \0 byte", "", " ", "😀" * 1000, "記憶" * 600_000]
    path = tmp_path / "odd.jsonl"
    path.write_text("".join(json.dumps({"role": "user", "content": t}) + "\n" for t in texts), "utf-8")
    receipt = memory.import_(path)
    assert figures(receipt) == (len(texts), 0, 0), receipt.rejected
    assert [m.content for m in memory.session_messages("odd")] == texts
    assert figures(memory.import_(path)) == (0, len(texts), 0)


def test_dates_without_a_zone_are_of_the_settings_zone(tmp_path):
    options = {"user_id": "ana", "embedder": HashEmbedder(), "background": False}
    path = talk(tmp_path, 1, created_at="2026-03-02T08:00:00")
    with jiyi.open(tmp_path / "z.db", timezone="Asia/Shanghai", **options) as memory:
        memory.import_(path)
        [message] = memory.session_messages("talk")
    assert message.created_at.isoformat() == "2026-03-02T00:00:00+00:00"
