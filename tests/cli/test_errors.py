"""What goes wrong is told in a line, with what to do next and an exit code."""

import json
import os
import subprocess
import sys

import apsw
import pytest
from tables import read_tables

from jiyi.testing import HashEmbedder

TABLES = read_tables(__file__)
LISTS = ["tasks", "episodes", "knowledge", "facts"]
READING = ["search x", "context s1", "show", "stats"]
OF_A_USER = [*READING, "forget x --yes", "restore x", "pin x", "export o.jsonl"]


@pytest.mark.parametrize("command", [*OF_A_USER, *LISTS, "reembed", "maintain"])
def test_no_database(run, tmp_path, command):
    result = run(*command.split(), "--db", tmp_path / "none.db", code=1)
    assert "there is no database" in result.stderr
    assert "jiyi import FILE" in result.stderr
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [*OF_A_USER, *LISTS])
def test_two_users_and_none_named_or_one_who_is_not_there(run, two_users, command):
    told = run(*command.split(), "--db", two_users, code=1).stderr
    assert "whose memory?" in told
    assert "ana, bob" in told
    told = run(*command.split(), "--user", "Ana", "--db", two_users, code=1).stderr
    assert "holds nothing of user 'Ana'; there are: ana, bob" in told


def test_two_users_and_one_named(run_json, two_users, monkeypatch):
    assert run_json("stats", "--user", "bob", "--db", two_users)["message"] == 1
    monkeypatch.setenv("JIYI_USER_ID", "bob")
    assert run_json("stats", "--db", two_users)["message"] == 1
    assert run_json("stats", "--user", "ana", "--db", two_users)["message"] == 6


def test_import_needs_a_user_and_a_file_that_is_there(run, tmp_path):
    file = tmp_path / "talk.jsonl"
    file.write_text('{"role": "user", "content": "hi"}\n')
    assert "whose memory?" in run("import", file, "--db", tmp_path / "new.db", code=1).stderr
    assert not (tmp_path / "new.db").exists()
    words = ("import", tmp_path / "none.jsonl", "--user", "ana", "--db", tmp_path / "new.db")
    assert "does not exist" in run(*words, code=2).stderr
    assert not (tmp_path / "new.db").exists()
    assert "no folder or zip of a program that is known" in run("import", tmp_path, *words[2:], code=1).stderr


def test_unknown_session(run, db):
    assert "no session 'nope'" in run("context", "nope", "--db", db, code=1).stderr
    assert "no session 'nope'" in run("context", "nope", "502?", "--db", db).stderr
    assert "no session" not in run("context", "s1", "502?", "--db", db).stderr
    assert "nothing with the id 'nope'" in run("show", "nope", "--db", db, code=1).stderr


def test_a_subject_without_facts_is_told_which_have_some(run, db):
    told = run("facts", "robin", "--db", db)
    assert (told.stdout, told.stderr) == ("nothing there\n", "note: there are facts about certificate\n")
    assert run("facts", "certificate", "--db", db).stderr == ""
    run("forget", "certificate", "--yes", "--db", db)
    assert run("facts", "robin", "--db", db).stderr == ""
    assert "subject is empty" in run("facts", " ", "--db", db, code=1).stderr


def test_a_repair_names_the_file_that_was_given(run, db, tmp_path):
    script, other, newer = tmp_path / "cli.sh", tmp_path / "other.db", tmp_path / "newer.db"
    script.write_text("#!/bin/sh\n")
    newer.write_bytes(db.read_bytes())
    for file, statement in ((other, "CREATE TABLE a (b)"), (newer, "PRAGMA user_version = 99")):
        connection = apsw.Connection(str(file))
        connection.execute(statement)
        connection.close()
    for file in (script, other, newer):
        told = run("repair", file, tmp_path / "new.db", code=1).stderr
        assert told.startswith(f"error: {file} ")
        assert "damaged.db" not in told
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize(("words", "code", "reason"), TABLES["words, exit code, reason"])
def test_bad_options(run, db, words, code, reason):
    before = db.read_bytes()
    result = run(*words.split(), *(() if words == "fly" else ("--db", db)), code=int(code))
    assert reason in " ".join(result.stderr.replace("│", " ").split())
    assert result.stdout == ""
    assert db.read_bytes() == before or words.startswith("context")  # which opens a session


@pytest.mark.parametrize("command", [*READING, "reembed", "demo"])
def test_a_file_of_another_program_stays_as_it_is(run, tmp_path, command):
    text, other = tmp_path / "notes.txt", tmp_path / "other.db"
    text.write_text("my notes " * 50)
    connection = apsw.Connection(str(other))
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    for file in (text, other):
        before = file.read_bytes()
        assert "name another file" in run(*command.split(), "--db", file, code=1).stderr
        assert file.read_bytes() == before


def test_the_demo_overwrites_no_memory_but_its_own_and_a_folder_is_no_database(run, db, tmp_path):
    before = db.read_bytes()
    assert "name another file" in run("demo", "--db", db, code=1).stderr
    assert db.read_bytes() == before
    for command in (("stats",), ("demo",)):
        assert "is a folder" in run(*command, "--db", tmp_path, code=1).stderr


def test_a_locked_database(run, run_json, db, tmp_path, monkeypatch):
    monkeypatch.setenv("JIYI_LOCK_TIMEOUT", "0.1")
    file = tmp_path / "talk.jsonl"
    file.write_text('{"role": "user", "content": "hi"}\n')
    other = apsw.Connection(str(db))
    other.execute("BEGIN IMMEDIATE")
    assert "locked by another process" in run("import", file, "--db", db, code=1).stderr
    assert run_json("stats", "--db", db)["message"] == 6  # reading goes on
    other.execute("ROLLBACK")
    other.close()
    assert run_json("import", file, "--db", db)["added"] == 1


def test_data_of_another_embedder(run, db, monkeypatch):
    monkeypatch.setattr("jiyi.wiring.embedder_for", lambda settings: HashEmbedder(32))
    assert "reembed" in run("search", "502", "--db", db, code=1).stderr
    run("reembed", "--db", db)
    assert "502" in run("search", "502", "--db", db).stdout


def test_unusable_settings(run, db, monkeypatch):
    monkeypatch.setenv("JIYI_MAX_TURNS", "none")
    assert "max_turns" in run("stats", "--db", db, code=1).stderr


def test_markup_in_names_is_shown_as_it_is(run, open_memory, path):
    session = "[bold]2026-03-22[/bold], an id that is whole on a line of 80 columns"
    with open_memory(user_id="[red]a") as memory:
        memory.save_message(session, role="user", content="[link=x]words[/nope]", id="[i]")
    assert f"1 message\n  {session}\ntasks\nnothing there\n" in run("show", "--db", path).stdout
    for words in (("show", session), ("search", "words"), ("context", session)):
        assert "[link=x]words[/nope]" in run(*words, "--db", path).stdout
    assert "[i]" in run("search", "words", "--db", path).stdout
    assert "[red]a" in run("stats", "--user", "b", "--db", path, code=1).stderr


PROGRAM = """
import importlib.util, json, os, sys
import apsw, numpy, pydantic_settings, rich, typer

def run(absent, words, settings):
    os.dup2(os.open("said", os.O_CREAT | os.O_TRUNC | os.O_WRONLY), 2)
    real = importlib.util.find_spec
    sys.modules |= dict.fromkeys([absent])
    importlib.util.find_spec = lambda name, *more: None if name == absent else real(name, *more)
    sys.argv, code = ["jiyi", *words.split()], 0
    os.environ |= json.loads(settings)
    try:
        from jiyi.cli.app import main
        main()
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.stderr.flush()
        os._exit(code)

for absent, words, settings in json.loads(sys.argv[1]):
    if not (child := os.fork()):  # a process for each, which has not loaded the package yet
        run(absent, words, settings)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(json.dumps([code, open("said").read()]), flush=True)
"""
WITHOUT = TABLES["extra, what is absent, words, settings"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_extra_is_named(db, monkeypatch):
    monkeypatch.setenv("JIYI_DB", str(db))
    command = [sys.executable, "-c", PROGRAM, json.dumps([case[1:] for case in WITHOUT])]
    told = subprocess.check_output(command, text=True, timeout=280)
    for (extra, *case), line in zip(WITHOUT, told.splitlines(), strict=True):
        code, said = json.loads(line)
        assert (code, said.count("\n")) == (1, 1), (case, said)
        assert said.startswith("error: ")
        assert f"jiyi[{extra}]" in said, case
