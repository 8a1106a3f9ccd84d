"""REST on a real socket: what is sent is kept, what is wrong is refused in one form."""

import json
import time

import pytest
from tables import read_tables

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


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"\xff", b'{"user_id": "\\ud800"}', b"null", b"[" * 9_000]
)
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
    same = client.get(f"/v1/records/{id_}?user_id=ana", headers={"if-none-match": first.headers["etag"]})
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


def test_users_are_listed(client):
    for user in ("ana", "ben"):
        say(client, user=user)
    assert client.get("/v1/users").json() == ["ana", "ben"]


def test_the_description_names_every_route(server):
    told = server.client().get("/openapi.json").json()
    for route in ROUTES:
        assert told["paths"]["/v1" + route.path][route.method.lower()]["operationId"] == route.verb
