"""The bytes that reach a pseudo terminal, of every command, on a memory whose every text would steer it."""

import contextlib
import json
import os
import re
import subprocess
import sys
import threading

import pytest

from jiyi.cli.app import app

if sys.platform == "win32":
    pytest.skip("there are no pseudo terminals", allow_module_level=True)

import pty

import typer

OWNED = "\x1b[7;7;7m"  # told apart from the colours of the commands
BAD = f"{OWNED}\x1b]0;t\x07\x9b31m\u202e\u2066\u200b\U000e0041\x7f\r[red][link=http://x]y[/link]"
STEERING = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2066-\u2069\U000e0000-\U000e0fff]")
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


@pytest.mark.slow
def test_no_command_lets_a_stored_text_steer_the_terminal(tmp_path, steering):
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
