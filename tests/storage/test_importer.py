"""Importing into a store: in batches, nothing twice, and the rest despite bad entries."""

import json
from pathlib import Path

import pytest

import jiyi
from jiyi.testing import HashEmbedder


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

    with pytest.raises(RuntimeError, match="power"):
        memory.import_(path, progress=crash)
    assert memory.stats()["message"] == 600
    assert figures(memory.import_(path)) == (400, 600, 0)
    assert [m.seq for m in memory.session_messages("talk")] == list(range(1_000))


def test_bad_entries_between_good_ones(tmp_path, memory):
    path = talk(tmp_path, 250)
    lines = path.read_text("utf-8").splitlines()
    for place in (0, 120, 251):
        lines.insert(place, "{")
    path.write_text("\n".join(lines), "utf-8")
    receipt = memory.import_(path)
    assert figures(receipt) == (250, 0, 3)
    assert [bad.where for bad in receipt.rejected] == ["talk.jsonl:1", "talk.jsonl:121", "talk.jsonl:252"]


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
