"""mem0's routes: the shapes its client expects, in its order of calls; and the client itself where it is."""

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from tables import read_tables

from jiyi.testing import HashEmbedder

SCRIPT = Path(__file__).with_name("mem0_script.py")
MEMORY = {
    "id", "memory", "user_id", "agent_id", "run_id", "metadata", "categories", "created_at", "updated_at",
    "expiration_date",
}  # fmt: skip
ANA = {"filters": {"user_id": "ana"}}


class Client:
    """Sends what mem0's client sends."""

    def __init__(self, server, **whose) -> None:
        self.http = server.client(**whose)
        key = self.http.headers.pop("authorization", "Bearer none").partition(" ")[2]
        self.http.headers["authorization"] = f"Token {key}"

    def ask(self, method, path, status=200, **more):
        answer = self.http.request(method, f"/compat/mem0{path}", **more)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/json"
        return answer.json() if status == 200 else answer.json()["detail"]

    def add(self, *texts, status=200, **more):
        messages = [{"role": "user", "content": text} for text in texts]
        done = self.ask("POST", "/v3/memories/add/", status, json={"messages": messages, **more})
        return done["results"] if status == 200 else done

    def search(self, query, **more):
        return self.ask("POST", "/v3/memories/search/", json={"query": query, **ANA, **more})["results"]

    def get_all(self, params=None, **more):
        return self.ask("POST", "/v3/memories/", json={**ANA, **more}, params=params)

    def one(self, method, memory_id, status=200, after="", **more):
        return self.ask(method, f"/v1/memories/{quote(memory_id, safe='')}/{after}", status, **more)


@pytest.fixture
def server(serve):
    with serve(embedder=HashEmbedder()) as running:
        yield running


@pytest.fixture
def acme(server):
    return Client(server, tenant="acme")


def test_what_was_added_is_found_listed_changed_and_deleted(acme):
    assert {"org_id", "project_id"} < acme.ask("GET", "/v1/ping/").keys()
    added = acme.add("I moved to Lisbon, and the ceiling leaks.", "我喜欢喝茶", user_id="ana", run_id="r1")
    assert {one["event"] for one in added} == {"ADD"}
    for words in ("Lisbon", "ceiling", "喝茶"):
        found = acme.search(words)
        assert found[0].keys() == MEMORY | {"score"}
        assert {one["run_id"] for one in found} == {"r1"}
    page = acme.get_all({"page": 1, "page_size": 2})
    assert page["count"] == len(added) > 2
    assert (len(page["results"]), page["previous"]) == (2, None)
    assert "page=2" in page["next"]
    (kept,) = acme.add("a note", user_id="ana", infer=False, metadata={"n": 1}, app_id="web")
    changed = acme.one("PUT", kept["id"], json={"text": "another note", "metadata": {"n": 2}})
    assert changed.keys() == MEMORY
    assert acme.one("GET", kept["id"]) == changed
    assert (changed["memory"], changed["metadata"]) == ("another note", {"n": 2})
    told = acme.one("GET", kept["id"], after="history/")
    assert [(e["event"], e["new_memory"]) for e in told] == [("ADD", "a note"), ("UPDATE", "another note")]
    assert acme.ask("GET", "/v1/entities/")["results"] == [{"id": "ana", "name": "ana", "type": "user"}]
    assert "message" in acme.one("DELETE", kept["id"])
    acme.one("GET", kept["id"], 404)
    assert "message" in acme.ask("DELETE", "/v1/memories/", params={"user_id": "ana"})
    assert acme.get_all()["results"] == acme.search("Lisbon") == []
    assert acme.ask("GET", "/v1/entities/")["results"] == []


def test_a_batch_is_changed_whole_or_not_at_all_and_deleting_leaves_no_earlier_version(acme):
    (kept,) = acme.add("The wifi password is hunter2", user_id="ana", infer=False)
    for text in ("The wifi password was changed", "There is no wifi"):
        acme.one("PUT", kept["id"], json={"text": text})
    acme.one("DELETE", kept["id"])
    assert acme.get_all()["results"] == []
    first, second = acme.add("one", "two", user_id="ana", infer=False)
    changes = [{"memory_id": first["id"], "text": "1"}, {"memory_id": "ana:none", "text": "2"}]
    acme.ask("PUT", "/v1/batch/", 404, json={"memories": changes})
    assert {one["memory"] for one in acme.get_all()["results"]} == {"one", "two"}
    changes[1]["memory_id"] = second["id"]
    acme.ask("PUT", "/v1/batch/", json={"memories": changes})
    assert {one["memory"] for one in acme.get_all()["results"]} == {"1", "2"}


def test_every_role_is_kept_but_the_system(acme):
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Which roofer?"},
        {"role": "assistant", "content": "Call Ortiz on Larch Street."},
    ]
    acme.ask("POST", "/v3/memories/add/", json={"messages": messages, "user_id": "ana"})
    assert acme.search("Ortiz")[0]["memory"] == "Call Ortiz on Larch Street."
    assert {one["memory"] for one in acme.get_all()["results"]} == {
        "Which roofer?", "Call Ortiz on Larch Street."
    }  # fmt: skip


def test_filters_narrow_as_mem0_writes_them_and_memories_of_an_agent_alone_are_nobodys(acme):
    acme.add("red", user_id="ana", agent_id="bot", infer=False, metadata={"n": 1})
    acme.add("green", user_id="ana", run_id="r1", infer=False, metadata={"n": 2}, app_id="web")
    acme.add("blue", user_id="ana", infer=False, expiration_date="2020-01-01", timestamp=1_500_000_000)

    def texts(**more):
        return sorted(one["memory"] for one in acme.get_all(**more)["results"])

    def narrowed(**filters):
        return texts(filters={"user_id": "ana", **filters})

    assert texts() == ["green", "red"]
    assert texts(show_expired=True) == ["blue", "green", "red"]
    assert narrowed(agent_id="bot") == narrowed(agent_id="*") == ["red"]
    assert narrowed(run_id="r1") == narrowed(app_id="web") == ["green"]
    assert narrowed(metadata={"n": {"gte": 2}}) == ["green"]
    assert narrowed(OR=[{"agent_id": "bot"}, {"run_id": {"in": ["r1", "r2"]}}]) == ["green", "red"]
    assert narrowed(NOT=[{"metadata": {"n": 1}}]) == ["green"]
    assert narrowed(keywords={"contains": "ree"}) == narrowed(keywords={"icontains": "GREE"}) == ["green"]
    assert narrowed(keywords={"contains": "GREE"}) == []
    assert narrowed(NOT=[{"keywords": {"icontains": "RE"}}]) == []
    assert narrowed(keywords={"contains": "re"}, agent_id="bot") == ["red"]
    assert narrowed(categories={"contains": "not"}) == ["green", "red"]
    assert narrowed(app_id={"icontains": "WE"}) == ["green"]
    assert narrowed(created_at={"gte": "2000-01-01"}) == ["green", "red"]
    assert texts(end_date="2000-01-01") == []
    assert texts(filters={"AND": [{"user_id": "ana"}, {"metadata": {"n": 1}}]}) == ["red"]
    acme.ask("DELETE", "/v1/memories/", params={"filters": "{'user_id': 'ana', 'run_id': 'r1'}"})
    assert texts() == ["red"]
    acme.add("I use metric units", agent_id="bot", infer=False)
    found = acme.search("metric", filters={"agent_id": "bot"})
    assert [(one["user_id"], one["agent_id"]) for one in found] == [(None, "bot")]


def test_a_tenant_meets_no_other(server, acme):
    other, (kept,) = Client(server, tenant="beta"), acme.add("secret", user_id="ana", infer=False)
    assert other.search("secret") == other.get_all()["results"] == []
    for method, body in (("GET", None), ("PUT", {"text": "x"}), ("DELETE", None)):
        assert "acme" not in other.one(method, kept["id"], 404, json=body)
    assert "//" not in other.one("GET", kept["id"], 404)
    other.ask("DELETE", "/v2/entities/user/ana/", 404)
    assert other.ask("GET", "/v1/entities/")["results"] == []
    assert acme.one("GET", kept["id"])["memory"] == "secret"
    reader = Client(server, tenant="acme", scopes=["read"], user="ana")
    reader.one("DELETE", kept["id"], 403)
    reader.add("x", user_id="ana", status=403)
    reader.ask("POST", "/v3/memories/search/", 403, json={"query": "x", "filters": {"user_id": "ben"}})
    assert reader.search("secret", filters={})[0]["id"] == kept["id"], "the key says whose"


@pytest.mark.parametrize(("method", "path", "body", "status"), read_tables(__file__)["what is wrong"])
def test_what_is_wrong_is_told_in_mem0s_form(acme, method, path, body, status):
    assert acme.ask(method, path, int(status), json=json.loads(body or "null"))


def test_without_a_key_nothing_is_told(server):
    Client(server).add("mine", user_id="ana", infer=False)  # until a key is made any will do
    Client(server, tenant="acme").add("theirs", user_id="ben", infer=False)
    server.keys.create(None, ["read"])
    assert [e["name"] for e in Client(server, tenant="").ask("GET", "/v1/entities/")["results"]] == ["ana"]
    assert "API key" in Client(server).ask("POST", "/v3/memories/search/", 401, json={})


@pytest.mark.slow
def test_mem0s_own_clients_work_unchanged(server, tmp_path):
    python = os.environ.get("JIYI_TEST_MEM0_PYTHON", sys.executable)
    env = {**os.environ, "MEM0_TELEMETRY": "False", "MEM0_DIR": str(tmp_path)}
    if subprocess.run([python, "-c", "import mem0"], env=env, capture_output=True, check=False).returncode:
        pytest.skip("JIYI_TEST_MEM0_PYTHON names no Python with mem0ai: pip install mem0ai==2.2.1")
    key = server.keys.create("acme", ["read", "write", "forget"])[1]
    words = [python, SCRIPT, f"{server.url}/compat/mem0", key]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stderr
