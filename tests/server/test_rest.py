"""REST on a real socket: what is sent is kept, what is wrong is refused in one form, the pages are true."""

import json
import os
import re
import shutil
import subprocess
import time
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from schemas import campaign
from tables import read_tables

from jiyi.server.rest import describe_api
from jiyi.wire import ROUTES

SAID = {"message": {"role": "user", "content": "I moved to Lisbon. 我喜欢喝茶"}}


def say(client, user="ana", session="s-1", **headers):
    return client.post(f"/v1/sessions/{session}/messages", json={"user_id": user, **SAID}, headers=headers)


def test_what_is_saved_is_found_in_chinese_too(client):
    saved = say(client).json()
    assert saved["message"] == SAID["message"]
    assert saved["scope"] == {"user_id": "ana", "agent_id": None, "session_id": "s-1"}
    hits = client.post("/v1/search", json={"user_id": "ana", "query": "喜欢喝什么？"}).json()["hits"]
    assert any("茶" in json.dumps(hit["record"], ensure_ascii=False) for hit in hits)
    window = client.post("/v1/sessions/s-1/context", json={"user_id": "ana", "query": "where?"}).json()
    assert "Lisbon" in window["markdown"]
    assert "我喜欢喝茶" in client.get("/v1/sessions/s-1/messages?user_id=ana").text


def test_lists_take_filters_as_json(client):
    say(client)
    for role, count in (("user", 1), ("assistant", 0)):
        asked = {"user_id": "ana", "filters": json.dumps({"or": [{"role": role}]})}
        assert len(client.get("/v1/sessions/s-1/messages", params=asked).json()["items"]) == count
    for wrong in ("{", "[]", '{"colour": 1}'):
        assert client.get("/v1/facts", params={"user_id": "ana", "filters": wrong}).status_code == 400


@pytest.mark.parametrize(("method", "path", "body", "status", "name"), read_tables(__file__)["problems"])
def test_errors_are_problems(server, method, path, body, status, name):
    answer = server.client().request(method, path, json=json.loads(body or "null"))
    problem = answer.json()
    assert answer.status_code == problem["status"] == int(status)
    assert problem["type"] == f"/errors#{name}"
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["detail"]
    assert f'id="{name}"' in server.client().get("/errors").text


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"user_id": "\\ud800"}', b"null", b"[" * 9000])
def test_a_body_that_is_no_request_is_refused(server, body):
    answer = server.client().post("/v1/search", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["type"]) == (400, "/errors#InputError")
    assert "application/json" in server.client().post("/v1/search", content=b"query=x").json()["detail"]


def test_a_request_with_a_key_is_done_once(serve):
    with serve() as server:
        client = server.client()
        first = say(client, **{"idempotency-key": "k-1"})
        assert say(client, **{"idempotency-key": "k-1"}).json() == first.json()
        assert say(client, user="ben", **{"idempotency-key": "k-1"}).json()["id"] != first.json()["id"]
        assert len(client.get("/v1/sessions/s-1/messages?user_id=ana").json()["items"]) == 1
        other = say(client, session="s-2", **{"idempotency-key": "k-1"})
        assert (other.status_code, other.json()["type"]) == (422, "/errors#KeyReused")
        assert say(client, **{"idempotency-key": "é".encode()}).status_code == 400
        client.post("/v1/forget", json={"user_id": "ana", "session_id": "s-1", "purge": True})
        assert say(client, **{"idempotency-key": "k-1"}).json()["id"] != first.json()["id"]


def test_a_failed_request_leaves_nothing_for_its_key(server):
    client, headers = server.client(), {"idempotency-key": "k"}
    body = {"user_id": "ana", "message": {"role": "x", "content": "x"}}
    assert client.post("/v1/sessions/s/messages", json=body, headers=headers).status_code == 400
    assert say(client, session="s", **headers).status_code == 200


def test_a_record_has_an_etag(client):
    id_ = say(client).json()["id"]
    first = client.get(f"/v1/records/{id_}?user_id=ana")
    known = f'W/{first.headers["etag"]}, "other"'  # as a proxy that compresses makes it
    same = client.get(f"/v1/records/{id_}?user_id=ana", headers={"if-none-match": known})
    assert (same.status_code, same.content) == (304, b"")
    client.post("/v1/pin", json={"user_id": "ana", "ids": id_})
    assert client.get(f"/v1/records/{id_}?user_id=ana").headers["etag"] != first.headers["etag"]


def ended(client, job):
    while job["state"] not in ("done", "failed"):
        time.sleep(0.05)
        job = client.get(f"/v1/jobs/{job['id']}").json()
    return job


def test_long_work_is_a_job(client):
    say(client)
    begun = client.post("/v1/maintenance", json={"user_id": "ana", "dry_run": True})
    assert begun.status_code == 202
    job = ended(client, client.get(begun.headers["location"]).json())
    assert (job["state"], job["problem"]) == ("done", None)
    events = client.get(f"{begun.headers['location']}/events").text
    assert events.startswith("event: done\ndata: {")
    assert json.loads(events.split("data: ")[1]) == job


def test_the_description_names_every_route(server):
    told = server.client().get("/openapi.json").json()
    for route in ROUTES:
        assert told["paths"]["/v1" + route.path][route.method.lower()]["operationId"] == route.verb


def test_the_description_has_the_headers_that_are_read():
    told = describe_api()
    record = told["paths"]["/v1/records/{record_id}"]
    headers = {method: {one["name"] for one in record[method]["parameters"]} for method in ("get", "patch")}
    assert headers["get"] >= {"If-Match", "If-None-Match"}
    assert headers["patch"] >= {"If-Match", "Idempotency-Key"}
    assert told["components"]["securitySchemes"]["header"]["name"] == "X-API-Key"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_server_is_as_its_description_says(server, tmp_path):
    phases = ("--phases", "examples,coverage", "--max-examples", "1", "--generation-deterministic")
    seen, failed = campaign(server, tmp_path, *phases)
    assert not failed
    assert [label for label, cases in seen.items() if not cases["coverage"]] == []


def test_links_lead_to_what_is_there(server):
    """Every link names an operation and says what it asks for."""
    paths = server.client().get("/openapi.json").json()["paths"]
    operations = {told["operationId"]: told for methods in paths.values() for told in methods.values()}
    for told in operations.values():
        for link in told["responses"].get("200", {}).get("links", {}).values():
            named = {parameter["name"] for parameter in operations[link["operationId"]]["parameters"]}
            assert set(link.get("parameters", ())) <= named
            assert bool(link.get("requestBody")) == ("parameters" not in link)
    assert "links" in operations["save_message"]["responses"]["200"]


DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"```sh\n(.*?)```(?:\n\n```text output\n(.*?)```)?", re.DOTALL)
AT = "http://127.0.0.1:8710"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("page", ["rest.md", "zh/rest.md"])
def test_the_page_says_what_happens(server, tmp_path, page):
    key = server.client("acme").headers["authorization"].removeprefix("Bearer ")
    blocks, before = BLOCK.findall((DOCS / page).read_text("utf-8")), ""
    assert len(blocks) > 4
    for commands, shown in blocks:
        whole = before + "echo ----; set -e\n" + commands
        command, env = ["bash", "-c", whole.replace(AT, server.url)], {"PATH": os.environ["PATH"]}
        told = subprocess.check_output(command, cwd=tmp_path, env=env | {"KEY": key}, text=True)
        printed = told.rpartition("----\n")[2]
        wanted = ".*".join(map(re.escape, shown.strip().split("...")))
        assert re.fullmatch(wanted or ".*", printed.strip(), re.DOTALL), printed
        before += "".join(line + "\n" for line in commands.splitlines() if line.startswith("export "))


def brought(wanted):
    """Return the names of all packages that a requirement needs here, without its own."""
    found, waiting = {}, [Requirement(wanted)]
    own = canonicalize_name(waiting[0].name)
    while waiting:
        one = waiting.pop()
        extras = found.setdefault(canonicalize_name(one.name), set())
        for extra in {"", *one.extras} - extras:
            extras.add(extra)
            needed = map(Requirement, requires(one.name) or ())
            waiting += [n for n in needed if n.marker is None or n.marker.evaluate({"extra": extra})]
    return found.keys() - {own}


@pytest.mark.parametrize(("wanted", "most"), [("jiyi[api]", 36), ("jiyi[api,mcp]", 50)])
def test_the_server_brings_few_packages(wanted, most):
    names = sorted(brought(wanted))
    assert "uvicorn" in names
    assert len(names) <= most, names


@pytest.mark.parametrize("page", ["rest.md", "zh/rest.md"])
def test_the_page_lists_all_routes(page):
    lines = (DOCS / page).read_text("utf-8").splitlines()
    assert {f"{route.method:7}{route.path:39}{route.verb}" for route in ROUTES} <= set(lines)
