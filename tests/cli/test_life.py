"""Forget, restore, pin, maintain, export and import at the prompt."""

import contextlib
import json
import os
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from jiyi.cli.terminal import ProgressBars
from jiyi.testing import ManualClock

LONG_AGO = datetime(2026, 1, 5, tzinfo=UTC)


@pytest.fixture
def old(open_memory, path):
    """Two users with old experiences: some failed, some alike; and a fact that is over."""
    for user in ("ana", "[red]bob"):
        with open_memory(user_id=user, clock=ManualClock(LONG_AGO)) as memory:
            for number in range(5):
                task = memory.start_task("s", f"重启 nginx \x1b[2J {number}", target="nginx 容器")
                memory.add_step(task.id, "docker restart nginx", tool_name="shell")
                if number < 2:
                    memory.fail_task(task.id, reason="端口被占用")
                else:
                    memory.complete_task(task.id, summary="恢复")
            memory.remember("the gate is open", valid_to=LONG_AGO + timedelta(days=2))
            memory.flush()
    return path


def test_forget_shows_what_goes_and_asks(run, run_json, db):
    result = run("forget", "502", "--db", db, code=1, typed="n\n")
    assert "1 message would be forgotten\n  message · asked for: nginx 又 502 了  m-502\n" in result.stdout
    assert "Forget this? [y/N]" in result.stderr
    assert "nothing was forgotten" in result.stderr
    assert run_json("stats", "--db", db)["message"] == 6
    told = run("forget", "502", "--db", db, typed="y\n").stdout
    assert "forgotten: 1 message\n" in told
    assert "bring it back with: jiyi restore --at " in told
    assert run_json("stats", "--db", db)["message"] == 5
    assert run_json("search", "502", "--kind", "message", "--db", db)["hits"] != []
    assert "m-502" not in [hit["id"] for hit in run_json("search", "502", "--db", db)["hits"]]


def test_without_an_answer_nothing_is_forgotten(run, run_json, db):
    assert "say --yes" in run("forget", "502", "--db", db, code=1).stderr
    for words in (("forget", "502"), ("forget", "--everything", "--purge")):
        assert "say --yes" in run(*words, "--json", "--db", db, code=1).stderr
    assert run_json("stats", "--db", db)["message"] == 6


def test_the_told_command_brings_it_back(run, run_json, two_users):
    db = two_users.rename(two_users.with_name("my memory.db"))
    before = run_json("stats", "--user", "ana", "--db", db)
    told = run("forget", "--everything", "--yes", "--user", "ana", "--db", db).stdout
    assert run_json("stats", "--user", "ana", "--db", db)["message"] == 0
    assert run_json("stats", "--user", "bob", "--db", db)["message"] == 1
    command = told.partition("bring it back with: ")[2].strip()
    assert f"--db '{db}' --user ana" in command
    back = run(*shlex.split(command)[1:]).stdout
    assert back.startswith("6 messages, 1 episode, 1 fact, 1 task brought back\n")
    assert {**run_json("stats", "--user", "ana", "--db", db), "vectors_pending": 0} == before


def test_restore_by_id(run, run_json, db, open_memory):
    run("forget", "--id", "m-502", "--yes", "--db", db)
    assert "m-502" in run("restore", "m-502", "--db", db).stdout
    assert "not in the trash" in run("restore", "m-502", "--db", db, code=1).stderr
    run("forget", "--id", "m-502", "--yes", "--db", db)
    with open_memory() as memory:
        memory.save_message("s9", role="user", content="taken meanwhile", id="m-502")
    text = run("restore", "m-502", "--db", db).stdout
    assert "nothing brought back\n1 message left in the trash\n" in text
    assert "there again under the same id" in text
    assert run_json("restore", "m-502", "--db", db)["left"] == {"message": 1}


def test_what_to_forget_can_be_narrowed_and_is_told_as_json(run_json, db):
    def would(*words):
        return run_json("forget", *words, "--dry-run", "--db", db)["counts"]

    assert would("nginx") == {"message": 1, "episode": 1, "task": 1}
    assert would("nginx", "--kind", "message") == {"message": 1}
    assert would("nginx", "--session", "s2") == {}
    assert would("--session", "s2") == {"message": 1, "fact": 1}
    assert would("--everything", "--kind", "message") == {"message": 6, "fact": 1}
    assert would("--since", "2100-01-01") == {}
    assert would("--until", "2100-01-01") == would("--everything")
    assert would("--id", "m-502") == {"message": 1}
    assert would("--speaker", "assistant") == {"message": 3}
    assert would("nginx", "--speaker", "assistant") == would("--speaker", "") == {}
    tried = run_json("forget", "--session", "s1", "--dry-run", "--db", db)
    done = run_json("forget", "--session", "s1", "--yes", "--db", db)
    assert tried["dry_run"] is True
    assert done["dry_run"] is False
    assert done["counts"] == tried["counts"] == {"message": 5, "episode": 1, "task": 1}
    assert {item["id"] for item in done["items"]} == {item["id"] for item in tried["items"]}
    assert run_json("restore", "--at", done["at"], "--db", db)["counts"] == done["counts"]


def test_a_purge_says_so_and_leaves_no_byte(run, db):
    def there():
        return any(b"certificate" in file.read_bytes() for file in db.parent.glob("agent.db*"))

    assert there()
    run("forget", "certificate", "--yes", "--db", db)
    asked = run("forget", "certificate", "--purge", "--db", db, code=1, typed="n\n")
    assert "Overwrite this for good?" in asked.stderr
    assert there(), "it lies in the trash still"
    text = run("forget", "certificate", "--purge", "--yes", "--db", db).stdout
    assert text == "forgotten: nothing\noverwritten on disk: 2 records\n"
    assert not there()


def test_pin(run, run_json, db):
    assert run("pin", "m-502", "--db", db).stdout == "1 record pinned\n"
    assert run_json("search", "502", "--db", db)["hits"][0]["id"] == "m-502"
    assert run_json("pin", "m-502", "--off", "--db", db) == {"pinned": 0, "unpinned": 1}
    assert run("pin", "m-502", "m-502", "--off", "--db", db).stdout == "1 record unpinned\n"


def test_maintain_goes_through_all_users(run, run_json, old):
    tried = run("maintain", "--dry-run", "--db", old)
    assert tried.stdout.count("4 records would be put into the trash") == 2
    for words in ("2 episodes: importance below 0.25", r"episode 0.15: 重启 nginx \x1b[2J 0", "[red]bob:"):
        assert words in tried.stdout
    assert "users" in tried.stderr
    assert "\x1b" not in tried.stdout
    done = run_json("maintain", "--db", old)
    assert set(done) == {"ana", "[red]bob"}
    for one in done.values():
        assert one["expired"] == 1
        assert one["gate"]["discarded"]["episode"] == {"importance below 0.25": 2}
        assert one["consolidation"]["groups"][0]["episodes"] == 5
    assert run_json("stats", "--user", "ana", "--db", old)["vectors_pending"] == 0
    assert run("maintain", "--db", old).stdout == "[red]bob:\n  nothing to do\nana:\n  nothing to do\n"


def test_maintain_follows_settings(run_json, old, monkeypatch):
    def gone():
        done = run_json("maintain", "--dry-run", "--user", "ana", "--db", old)
        return done["ana"]["gate"]["discarded"].get("episode", {})

    assert gone() == {"importance below 0.25": 2}
    monkeypatch.setenv("JIYI_FORGET_THRESHOLD", "0.1")
    assert gone() == {}
    monkeypatch.setenv("JIYI_FORGET_WEIGHTS", '{"failed": -0.3}')
    assert gone() == {"importance below 0.1": 2}
    monkeypatch.setenv("JIYI_CONSOLIDATION_MIN_EPISODES", "7")
    assert run_json("maintain", "--user", "ana", "--db", old)["ana"]["consolidation"]["groups"] == []


def test_maintain_of_one_user_shows_its_parts(run, run_json, old):
    result = run("maintain", "--user", "[red]bob", "--db", old)
    for part in ("[red]bob: forget gate", "[red]bob: consolidation", "[red]bob: vectors"):
        assert part in result.stderr
    assert "1 fact came to an end" in result.stdout
    assert "5 episodes went into 1 new and 0 grown knowledge" in result.stdout
    assert len(run_json("episodes", "--user", "ana", "--db", old)) == 5


def test_maintain_where_nobody_is(run, open_memory, path):
    open_memory().close()
    assert run("maintain", "--db", path).stdout == "nobody has a memory there\n"


def test_what_an_export_holds_comes_back(run, run_json, db, open_memory, tmp_path):
    out, new = tmp_path / "out.jsonl", tmp_path / "new.db"
    with open_memory() as memory:
        memory.save_message("s3", role="user", content="edge-02 的端口是 8443")
    told = run_json("export", out, "--db", db)
    there = {"message": 7, "task": 1, "episode": 1, "fact": 2}
    assert told["counts"] == {**there, "knowledge": 0, "item": 0, "summary": 0}
    assert told["bytes"] == out.stat().st_size
    assert f"11 records, {told['bytes']:,} bytes in {out}" in run("export", out, "--db", db).stdout
    text = run("import", out, "--db", new, "--user", "ana").stdout
    assert text == "7 messages, 1 episode, 2 facts, 1 task added, 0 were there already, 0 rejected\n"
    assert run_json("stats", "--db", new) == {**run_json("stats", "--db", db), "vectors_pending": 0}
    assert run_json("import", out, "--db", new)["known"] == 11
    assert {fact["object"] for fact in run_json("facts", "--db", new)} == {"8443", "May"}


def test_a_bar_never_shows_more_than_all():
    with ProgressBars(quiet=True) as bars:
        bars.show("vectors", 0, 1)
        bars.show("vectors", 185, 1)  # a flush also makes those of other users
        bars.show("records", 7)
    assert [(bar.completed, bar.total) for bar in bars.tasks] == [(185, 185), (7, None)]


def test_an_export_to_read_replaces_an_earlier_one_and_no_other_file_unless_told_so(run, db, tmp_path):
    out = tmp_path / "precious.txt"
    out.write_text("precious\n")
    for to in ("jsonl", "markdown", "mem0"):
        told = run("export", out, "--to", to, "--db", db, code=1).stderr
        assert "exists and would be replaced; name another file, or say --force" in told
    assert out.read_text() == "precious\n"
    run("export", out, "--force", "--db", db)
    run("export", out, "--db", db)
    run("export", out, "--to", "mem0", "--db", db, code=1)
    (tmp_path / "empty").touch()
    run("export", tmp_path / "empty", "--to", "markdown", "--db", db)
    out = tmp_path / "ana.md"
    assert "records, " in run("export", out, "--to", "markdown", "--db", db).stdout
    assert out.read_text("utf-8").startswith("# ")
    assert "nginx 又 502 了" in out.read_text("utf-8")


@pytest.mark.parametrize("columns", [20, 80])
def test_every_width_without_control_characters(run, old, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    for words in (("forget", "nginx", "--dry-run", "--user", "ana"), ("maintain", "--dry-run")):
        result = run(*words, "--db", old)
        assert "\x1b" not in result.stdout
        assert "重启" in result.stdout


@pytest.fixture
def in_a_terminal():
    """Run a command with a terminal for input and errors; return its code, its output and the screen."""
    pty = pytest.importorskip("pty")

    def in_a_terminal(typed: str, *words: object) -> tuple[int, str, str]:
        ours, theirs = pty.openpty()
        command, env = [sys.executable, "-m", "jiyi", *map(str, words)], os.environ | {"TERM": "xterm"}
        process = subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, env=env)
        os.close(theirs)
        os.write(ours, typed.encode())
        said = process.stdout.read().decode()
        screen = b""
        with contextlib.suppress(OSError):  # the other end is closed: that was all
            while more := os.read(ours, 4096):
                screen += more
        os.close(ours)
        process.stdout.close()
        return process.wait(timeout=60), said, screen.decode()

    return in_a_terminal


@pytest.mark.slow
def test_in_a_terminal_it_asks_there(in_a_terminal, real_db):
    code, said, screen = in_a_terminal("n\n", "forget", "502", "--db", real_db)
    assert (code, said.splitlines()[0]) == (1, "1 message would be forgotten")
    assert "Forget this? [y/N]" in screen
    assert "nothing was forgotten" in screen
    code, said, _ = in_a_terminal("y\n", "forget", "502", "--db", real_db)
    assert code == 0
    assert "\nforgotten: 1 message\n" in said
    assert "\x1b" not in said
    code, _, screen = in_a_terminal("", "show", "m-502", "--db", real_db)
    assert (code, "nothing with the id 'm-502'" in screen) == (1, True)


@pytest.mark.slow
@pytest.mark.parametrize("as_json", [True, False])
def test_in_a_terminal_progress_is_shown_there_alone(in_a_terminal, real_db, as_json):
    code, said, screen = in_a_terminal("", "maintain", "--db", real_db, *["--json"] * as_json)
    assert code == 0
    assert ("forget gate" in screen) is not as_json
    assert "\x1b" not in said
    if as_json:
        assert json.loads(said)["ana"]["gate"]["dry_run"] is False
        assert screen == ""
    else:
        assert said == "ana:\n  1 episode rated again\n"
