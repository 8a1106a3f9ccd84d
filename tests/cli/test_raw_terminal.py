"""Terminals as they come: narrow, without Chinese, closed, interrupted, and steered by no stored text."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import typer
from at_once import wait_until

from jiyi.cli.app import app
from jiyi.databases import check_database

pytestmark = pytest.mark.slow

OWNED = "\x1b[7;7;7m"  # told apart from the colours of the commands
BAD = f"{OWNED}\x1b]0;t\x07\x9b31m\u202e\u2066\u200b\U000e0041\x7f\r[red][link=http://x]y[/link]"
STEERING = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e0fff]"
)
PROGRAM = """
import json, sys, typer
from jiyi.testing import HashEmbedder
import jiyi.wiring
jiyi.wiring.embedder_for = lambda settings: HashEmbedder()
from jiyi.cli.app import app
for words in json.loads(sys.argv[1]):
    try:
        app(words, standalone_mode=False)
    except typer.Abort:
        pass
    except Exception as error:
        print("CRASHED" if not hasattr(error, "exit_code") else "", words[0], ascii(error))
    print("AFTER", words[0], flush=True)
"""
ENDLESS = {"serve", "serve-db", "mcp"}  # their logs have tests of their own
WITHOUT_TEXTS = {"demo", "evaluate", "model"}  # of no memory that anybody wrote


def commands(folder):
    db, lines = ["--db", str(folder / "a.db")], folder / f"in {BAD.replace('/', '')}.jsonl"
    lines.write_text(f'{{"role": "user", "content": {json.dumps(BAD)}}}\n{{"role": {json.dumps(BAD)}}}\n')
    some = {
        "show": [["show"], ["show", f"s{BAD}"], ["show", f"m{BAD}"], ["show", f"gone {BAD}"]],
        "search": [["search", "nginx restart", "--around", "1", "--why"], ["search", "x", "--role", BAD]],
        "context": [["context", f"s{BAD}", "nginx"], ["context", f"gone {BAD}"]],
        "stats": [["stats"], ["stats", "--user", BAD]],
        "chat": [["chat", "--session", f"s{BAD}"]],
        "forget": [["forget", "nginx", "--dry-run"], ["forget", "nginx", "--yes"]],
        "restore": [["restore", f"m{BAD}"], ["restore", BAD]],
        "pin": [["pin", f"m{BAD}"], ["pin", BAD]],
        "import": [["import", str(lines), "--session", BAD]],
        "export": [["export", str(folder / f"out {BAD.replace('/', '')}")]],
        "repair": [["repair", str(folder / "a.db"), str(folder / "c.db")], ["repair", BAD, BAD]],
        "copy": [["copy", str(folder / "a.db"), str(folder / "b.db"), "--user", f"u{BAD}"]],
        "keys": [*(["keys", "create", f"--{of}", BAD] for of in ("tenant", "user")), ["keys", "list"]],
    }
    plain = "doctor tasks episodes knowledge facts maintain monitor reembed migrate"
    return some | {name: [[name]] for name in plain.split()}, db


def test_no_command_lets_a_stored_text_steer_the_terminal(tmp_path, steering):
    pty = pytest.importorskip("pty", reason="there are no pseudo terminals")
    steering(tmp_path / "a.db", BAD)
    by_name, db = commands(tmp_path)
    assert set(by_name) == set(typer.main.get_command(app).list_commands(None)) - ENDLESS - WITHOUT_TEXTS
    every = [words if words[0] == "copy" else [*words, *db] for some in by_name.values() for words in some]
    every += [[*words, "--json"] for words in every if words[0] not in ("chat", "forget")]
    screen, other = pty.openpty()
    endpoint = {"JIYI_LLM_MODEL": "m", "JIYI_LLM_BASE_URL": "http://127.0.0.1:1", "OPENAI_API_KEY": "k"}
    more = {"COLUMNS": "100", "TERM": "xterm-256color", "PYTHONUTF8": "1"}
    command, env = [sys.executable, "-c", PROGRAM, json.dumps(every)], os.environ | endpoint | more
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=other, stderr=other, env=env)
    os.close(other)
    talk = f"/recall nginx {BAD}\n/{BAD}\n/forget {BAD}\n/quit\n".replace("\r", "")
    threading.Thread(target=process.communicate, args=[talk.encode()]).start()
    raw = b""
    with contextlib.suppress(OSError):  # the other end is closed: that was all
        while piece := os.read(screen, 65_536):
            raw += piece
    assert process.wait(30) == 0
    shown = raw.decode().replace("\r\n", "\n")
    assert "CRASHED" not in shown, shown[shown.index("CRASHED") :][:500]
    assert re.findall(r"^AFTER (\S+)", shown, re.MULTILINE) == [words[0] for words in every]
    assert OWNED not in shown
    plain = re.sub(r"\x1b\[(?:[0-9;]*m|\?25[lh]|[0-9]*[AK])|\r", "", shown)  # of rich: colours and progress
    found = STEERING.search(plain)
    assert found is None, plain[max(found.start() - 200, 0) : found.start() + 50]
    assert "[red][link=http://x]y" in plain
    assert r"\x1b[7;7;7m" in plain


ASCII = {"PYTHONIOENCODING": "ascii", "LANG": "C", "LC_ALL": "C"}
TOLD = 1_000  # messages of an import that is interrupted
SEARCH = ("search", "502", "--around", 1, "--why")


def test_as_a_module(out, real_db):
    assert b"6  message" in out("stats", "--db", real_db)
    assert json.loads(out("stats", "--db", real_db, "--json"))["message"] == 6


@pytest.mark.parametrize(
    ("words", "surroundings"),
    [
        (("show",), ASCII),
        (("show", "s1"), {"PYTHONIOENCODING": "latin-1"}),
        (("context", "s1"), {"PYTHONIOENCODING": "gbk"}),
    ],
)
def test_a_terminal_without_chinese(out, real_db, words, surroundings):
    assert out(*words, "--db", real_db, **surroundings)


def test_words_and_json_are_whole_in_a_terminal_without_chinese(out, real_db):
    told = out("forget", "nginx", "--dry-run", "--db", real_db, **ASCII)
    assert b"1 message, 1 episode, 1 task would be forgotten" in told
    shown = out("show", "m-502", "--json", "--db", real_db, **ASCII)
    assert json.loads(shown.decode("ascii"))[0]["content"] == "nginx 又 502 了"
    told = out("forget", "nginx", "--dry-run", "--json", "--db", real_db, **ASCII)
    assert "重启 nginx 容器" in [item["text"] for item in json.loads(told.decode("ascii"))["items"]]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_output_that_cannot_be_written_is_one_line(real_db):
    command = [sys.executable, "-m", "jiyi", "stats", "--db", str(real_db)]
    with Path("/dev/full").open("wb") as out:
        told = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, check=False)
    assert told.stderr == b"error: the output cannot be written: No space left on device\n"


def test_errors_in_a_terminal_without_chinese(start, tmp_path):
    process = start("stats", "--db", tmp_path / "记忆.db", **ASCII)
    said, complaint = process.communicate(timeout=60)
    assert (process.returncode, said) == (1, b"")
    assert b"there is no database" in complaint
    assert b"Traceback" not in complaint


@pytest.mark.parametrize("columns", [20, 60, 80, 140])
def test_every_width(run, db, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    for words in (("show",), ("show", "s1"), ("context", "s1"), SEARCH, ("stats",), ("--help",)):
        run(*words, *(() if words == ("--help",) else ("--db", db)))


@pytest.mark.parametrize("columns", [60, 80])
def test_a_report_has_one_line_for_each_message(run, db, open_memory, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("JIYI_SUMMARIES", "off")
    with open_memory() as memory:
        for number in range(18):
            memory.save_message("s3", role="user", content=f"第 {number} 个问题：nginx 又 502 了 " * 30)
    text = run("context", "s3", "怎么办？", "--budget", 700, "--db", db).stdout
    report = text[text.index("In the window") :]
    assert report.count("over the budget of") == 1
    assert report.count("no room") <= 1
    assert "more (use --json)" in report
    rows = [line for line in report.splitlines() if " user: 第 " in line]
    assert rows
    assert all("…" in row for row in rows)


def test_a_reader_that_leaves_early(start, open_memory, path):
    with open_memory(learn_facts=False) as memory:
        memory.save_messages("s1", [{"role": "user", "content": "记忆 " * 2_000}] * 20)
        memory.save_messages("s2", [{"role": "user", "content": "记忆 " * 30}] * 1_000)
        for number in range(300):
            memory.remember(subject=f"gw-{number}", predicate="note", object="记忆 " * 100)
    for words in ("show s1", "show s1 --json", "forget --everything --dry-run --json", "facts --limit 300"):
        process = start(*words.split(), "--db", path)
        assert process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        process.wait(timeout=60)


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent otherwise there")
def test_an_interrupted_command_says_so(start, tmp_path):
    process = start("demo", "--db", tmp_path / "demo.db")
    while not (tmp_path / "demo.db").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    assert complaint.endswith(b"note: stopped before the end\n")


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent otherwise there")
def test_an_interrupted_import_leaves_a_sound_database(start, run_json, open_memory, tmp_path):
    file, db = tmp_path / "talk.jsonl", tmp_path / "m.db"
    entries = ({"role": "user", "content": f"第 {i} 条 message " * 20} for i in range(TOLD))
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")
    process = start("import", file, "--no-vectors", "--db", db, "--user", "ana")
    wal = db.with_name(db.name + "-wal")
    wait_until(lambda: wal.exists() and wal.stat().st_size >= 500_000, 60)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode not in (0, None)
    assert b"Traceback" not in complaint
    with open_memory(db) as memory:
        here = memory.stats()["message"]
    assert 0 < here < TOLD
    assert here % 200 == 0
    assert "sound" in check_database(db)
    told = run_json("import", file, "--no-vectors", "--db", db)
    assert (told["added"], told["known"]) == (TOLD - here, here)
