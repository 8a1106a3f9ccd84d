"""``/mcp`` with the SDK's own client over a real socket, and in the protocol's own suite."""

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from jiyi.errors import DiskFull

mcp = pytest.importorskip("mcp")


def answers(server, *calls, secret=None, mode=None, **headers):
    """Call tools one after the other; return their structured answers, or the words of their errors."""
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    given = dict(headers)
    if secret:
        given["Authorization"] = f"Bearer {secret}"

    async def run():
        http = create_mcp_http_client(headers=given)
        transport = streamable_http_client(f"{server.url}/mcp", http_client=http)
        async with http, mcp.Client(transport, **({"mode": mode} if mode else {})) as client:
            found = [await client.call_tool(name, arguments) for name, arguments in calls]
            return [one.content[0].text if one.is_error else one.structured_content for one in found]

    return asyncio.run(run())


def key(server, tenant, scopes=("read", "write", "forget"), user=None):
    return server.keys.create(tenant, scopes, user=user)[1]


SECRET = ("remember", {"text": "the gate opens with 4711"})
ASK = ("recall", {"query": "gate"})
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
JSON = {"accept": "application/json, text/event-stream"}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_tenants_and_their_users_are_apart(server, mode):
    ana, bob = key(server, "acme", user="ana"), key(server, "acme", user="bob")
    other = key(server, "umbrella", user="ana")
    answers(server, SECRET, secret=ana, mode=mode)
    assert "4711" in answers(server, ASK, secret=ana)[0]["hits"][0]["text"]
    for secret in (bob, other):
        assert answers(server, ASK, secret=secret, mode=mode)[0]["hits"] == []
    assert server.memory.facts(user_id="acme//ana")


def test_a_header_names_the_user_where_the_key_is_for_several(server):
    secret = key(server, "acme")
    answers(server, SECRET, secret=secret, **{"X-Jiyi-User": "%E5%B0%8F%E6%9D%8E"})
    assert server.memory.facts(user_id="acme//小李")
    assert "X-Jiyi-User" in answers(server, ASK, secret=secret)[0]
    one = key(server, "acme", user="ana")
    assert "one user" in answers(server, ASK, secret=one, **{"X-Jiyi-User": "bob"})[0]


def test_scopes_hold_and_errors_do_not_show_the_stored_name(server):
    secret = key(server, "acme", ("read", "forget"), user="ana")
    written, forgotten = answers(server, SECRET, ("forget", {"ids": ["none"]}), secret=secret)
    assert "may not write" in written
    assert "none" in forgotten
    assert "acme//" not in forgotten


def test_forgetting_is_written_down_without_words_and_so_is_one_that_fails(server, caplog, monkeypatch):
    caplog.set_level("INFO", "jiyi.audit")
    secret, forget = key(server, "acme", user="ana"), type(server.memory).forget

    def full(*which, dry_run=False, **what):
        if not dry_run:
            raise DiskFull("no room")
        return forget(*which, dry_run=True, **what)

    plan = answers(server, SECRET, ("forget", {"query": "gate"}), secret=secret)[1]
    confirmed = ("forget", {"query": "gate", "confirm": plan["confirm"]})
    with monkeypatch.context() as patched:
        patched.setattr(type(server.memory), "forget", full)
        assert "no room" in answers(server, confirmed, secret=secret)[0]
    assert "/v1/restore" in answers(server, confirmed, secret=secret)[0]["restore"]
    written = [json.loads(record.getMessage()) for record in caplog.records if record.name == "jiyi.audit"]
    assert {(line["audit"], line["user"]) for line in written} == {("forget", "ana")}
    told = [(line["outcome"], line.get("error")) for line in written]
    assert told == [("begun", None), ("failed", "DiskFull"), ("begun", None), ("done", None)]
    assert "4711" not in caplog.text


def test_without_a_valid_key_it_is_a_plain_401(serve):
    with serve() as server:
        key(server, "acme")
    with serve() as server:
        for headers in ({}, {"authorization": "Bearer jiyi_wrong"}, {"authorization": "Basic x"}):
            answer = httpx.post(f"{server.url}/mcp", json=HELLO, headers={**JSON, **headers})
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
            assert httpx.get(server.url + path).status_code == 404


def test_without_keys_it_is_for_programs_of_this_machine(server):
    answers(server, SECRET, **{"X-Jiyi-User": "ana"})
    assert server.memory.facts(user_id="ana")
    for headers in ({"host": "evil.example"}, {"origin": "http://evil.example"}):
        answer = httpx.post(f"{server.url}/mcp", json=HELLO, headers={**JSON, **headers})
        assert 400 <= answer.status_code < 500
    assert httpx.post(f"{server.url}/mcp/", json=HELLO, headers=JSON).status_code == 200


def test_bad_requests_are_refused_and_the_server_lives(server):
    assert httpx.get(f"{server.url}/mcp", headers={"accept": "text/event-stream"}).status_code == 405
    for body in (b"{", b"[]", b"\xff", b'{"jsonrpc":"2.0"}', b"[" * 100_000):
        answer = httpx.post(
            f"{server.url}/mcp", content=body, headers={**JSON, "content-type": "application/json"}
        )
        assert 400 <= answer.status_code < 500, body[:20]
    assert httpx.get(f"{server.url}/healthz").status_code == 200


EXPECTED = Path(__file__).with_name("conformance.yml")


def node_version() -> int:
    node = shutil.which("node")
    if node is None:
        return 0
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    return int(told.strip().removeprefix("v").partition(".")[0])


@pytest.mark.slow
@pytest.mark.skipif("JIYI_TEST_CONFORMANCE" not in os.environ, reason="JIYI_TEST_CONFORMANCE names no suite")
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_only_what_is_expected_fails(serve, version, tmp_path):
    if node_version() < 22:
        pytest.skip("the suite needs Node 22")
    lines = EXPECTED.read_text("utf-8").splitlines()
    expected = tmp_path / "expected.yml"
    expected.write_text("\n".join(line for line in lines if f"passes in {version}" not in line), "utf-8")
    with serve(user_id="ana") as server:  # the suite sends no key and names no user
        command = ["node", os.environ["JIYI_TEST_CONFORMANCE"], "server", "--url", f"{server.url}/mcp"]
        options = ["--suite", "all", "--spec-version", version, "--expected-failures", str(expected)]
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout[-3_000:]
