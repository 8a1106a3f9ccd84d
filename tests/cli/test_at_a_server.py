"""Commands that only call verbs work on a memory that is on a server, and the others say what they need."""

import pytest
from http_server import serving

from jiyi.server import Keys
from jiyi.server.app import make_app

OPS = '{"role": "user", "content": "nginx 又 502 了"}\n'


@pytest.fixture
def url(open_memory, tmp_path, monkeypatch):
    memory = open_memory(tmp_path / "served.db", user_id=None)
    key = Keys(memory.parts.ledger, clock=memory.parts.clock).create("acme", ("read", "write", "forget"))[1]
    monkeypatch.setenv("JIYI_API_KEY", key)
    with serving(make_app(memory)) as url:
        yield url


def test_a_memory_on_a_server_is_filled_read_and_forgotten(run, run_json, url, tmp_path):
    (tmp_path / "a.jsonl").write_text(OPS, "utf-8")
    there = ("--db", url, "--user", "ana")
    assert run("import", "a.jsonl", *there).stdout.startswith("1 message added")
    [hit] = run_json("search", "nginx 502", *there)["hits"]
    assert hit["session_id"] == "a"
    assert "502" in run("show", "a", *there).stdout
    assert run_json("context", "a", *there)["messages"]
    assert run_json("pin", hit["id"], *there) == {"pinned": 1, "unpinned": 0}
    assert run_json("stats", *there)["message"] == 1
    assert "1 session, 0 replies" in run("monitor", *there).stdout
    assert run("export", "b.jsonl", *there).stdout.startswith("1 record,")
    forgotten = run("forget", "--id", hit["id"], "--yes", *there).stdout
    at = forgotten.partition("--at ")[2].partition(" ")[0]
    assert f"jiyi restore --at {at} --db {url} --user ana" in forgotten
    assert "1 message brought back" in run("restore", hit["id"], *there).stdout


def test_the_user_of_the_settings_is_meant(run_json, url, monkeypatch):
    monkeypatch.setenv("JIYI_USER_ID", "ben")
    assert run_json("stats", "--db", url)["message"] == 0


@pytest.mark.parametrize("command", ["doctor", "maintain", "migrate", "reembed", "serve", "chat"])
def test_what_needs_the_database_itself_says_so(run, url, command):
    assert "names no backend" in " ".join(run(command, "--db", url, code=2).stderr.replace("│", " ").split())


def test_a_server_that_is_away_is_one_line(run):
    assert run("stats", "--db", "http://127.0.0.1:9", "--user", "ana", code=1).stderr.startswith("error: ")
