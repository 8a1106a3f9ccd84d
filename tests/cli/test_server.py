"""`jiyi keys`, `jiyi serve` and `jiyi serve-db` as processes: they answer, refuse, and lose nothing."""

import http.client
import json
import os
import shlex
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import psutil
import psycopg
import pytest
from at_once import wait_until
from postgres_server import PASSABLE
from tables import read_tables


def test_a_key_is_made_listed_renewed_and_ended(run, run_json, tmp_path):
    assert "there are no keys yet" in run("keys", "list").stdout
    assert not list(tmp_path.rglob("*.db"))
    made = run("keys", "create", "--tenant", "acme", "--scopes", "read, write", "--expires", "90d")
    assert made.stdout.startswith("jiyi_")
    assert "shown once" in made.stderr
    (key,) = run_json("keys", "list")
    assert (key["tenant"], key["scopes"], key["user"]) == ("acme", ["read", "write"], None)
    assert "tenant acme, user any, read,write" in run("keys", "list", "--tenant", "acme").stdout
    renewed = run_json("keys", "rotate", key["name"], "--keep", "24h")
    assert renewed["key"].startswith(f"jiyi_{renewed['name']}_")
    assert run("keys", "revoke", renewed["name"]).stdout == f"revoked {renewed['name']}\n"
    assert all(kept["revoked_at"] for kept in run_json("keys", "list"))
    assert made.stdout.strip() not in run("keys", "list", "--json").stdout


@pytest.mark.parametrize(("options", "told"), read_tables(__file__)["options and what is told of them"])
def test_what_cannot_be_is_refused(run, options, told):
    run("keys", "create", "--tenant", "acme")
    assert told in run("keys", *shlex.split(options), code=1).stderr


@pytest.mark.parametrize("verb", ["revoke", "rotate"])
def test_a_database_that_is_not_there_is_not_made_for_a_key(run, tmp_path, verb):
    assert "there is no database" in run("keys", verb, "none", code=1).stderr
    assert not list(tmp_path.rglob("*.db"))


def test_it_listens_elsewhere_with_keys_only_and_a_port_that_is_taken_is_told_in_a_line(run):
    assert "jiyi keys create --tenant NAME" in run("serve", "--host", "0.0.0.0", "--port", "0", code=1).stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        complaint = run("serve", "--port", taken.getsockname()[1], code=1).stderr
    assert complaint.startswith("error: cannot listen on 127.0.0.1:")


@pytest.fixture
def process(start, tmp_path):
    """A server on a file, and its URL."""
    process = start("serve", "--db", tmp_path / "served.db", "--port", 0)
    running = next(line for line in process.stderr if b"running on" in line)
    process.url = json.loads(running)["message"].split()[3]
    return process


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_when_asked_and_loses_nothing(process, open_memory, tmp_path, number):
    saved: list[str] = []

    def save(client: int) -> None:
        with httpx.Client(timeout=60) as http:
            while True:
                body = {"user_id": "ana", "message": {"role": "user", "content": f"a secret {len(saved)}"}}
                try:
                    answer = http.post(f"{process.url}/v1/sessions/s{client}/messages", json=body)
                except httpx.HTTPError:
                    return
                saved.append(answer.json()["id"])

    with ThreadPoolExecutor(4) as pool:
        clients = pool.map(save, range(4))
        wait_until(lambda: len(saved) >= 40)
        process.send_signal(number)
        _, log = process.communicate(timeout=60)
        list(clients)
    assert process.returncode == 0
    assert b"secret" not in log
    assert all(json.loads(line) for line in log.splitlines())
    with open_memory(tmp_path / "served.db", check_embedder=False) as memory:
        kept = {message.id for client in range(4) for message in memory.session_messages(f"s{client}")}
    assert kept >= set(saved)


@pytest.mark.slow
def test_a_connection_stays_open_for_longer_than_clients_keep_it(process):
    line = http.client.HTTPConnection(process.url.removeprefix("http://"), timeout=60)
    line.auto_open = False
    line.connect()
    for idle in (0, 6):  # httpx, and with it OpenAI's client, lets go after 5 seconds
        time.sleep(idle)
        line.request("GET", "/healthz")
        assert line.getresponse().read() == b'{"status":"ok"}'
    line.close()


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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_where_one_runs_is_told_and_a_killed_one_leaves_a_server_that_can_be_stopped(serve, run, data):
    process, told = serve()
    port = told["url"].rpartition(":")[2].partition("/")[0]
    said = (
        f"a server runs on {data} already, as process {told['pid']}",
        f"postgresql://jiyi:***@127.0.0.1:{port}/jiyi",
        f"kill -INT {told['pid']} stops it",
    )
    for killed in (False, True):
        if killed:
            process.kill()
            process.wait()
        complaint = run("serve-db", "--data", data, code=1).stderr
        assert [words in complaint for words in said] == [True, True, True]
        with psycopg.connect(told["url"]) as server:
            assert server.execute("SELECT 1").fetchone() == (1,)
    os.kill(told["pid"], signal.SIGINT)
    wait_until(lambda: gone(told["pid"]), 60)
    process, _ = serve()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0


@pytest.mark.slow
def test_a_server_that_dies_is_told(serve):
    process, told = serve()
    os.kill(told["pid"], signal.SIGKILL)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"the server ended with code -9" in complaint
    assert b"server.log" in complaint


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root's server runs as somebody else")
def test_a_closed_folder_is_told_with_what_to_do(run, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    assert f"run: chmod o+x {closed}" in run("serve-db", "--data", closed / "server", code=1).stderr
    assert not (closed / "server" / "data").exists()


@pytest.mark.slow
def test_bad_ports_are_refused(run, data):
    for port in ("0", "70000", "many"):
        run("serve-db", "--data", data, "--port", port, code=2)
    assert not data.exists()
