"""Keys: shown once, ended at once, one tenant's and no other's, whatever many tenants do."""

import hashlib
import json
import logging
from datetime import UTC, datetime, timedelta

import pytest
from refusing import refused
from tables import literals, read_tables
from walls_http import OPERATIONS, begin, parrot, tenants, walk

from jiyi.errors import Forbidden, InputError, NotFound, RateLimited, Unauthorized
from jiyi.server import LOCAL_CALLER, Keys
from jiyi.server.keys import KNOWN_SECONDS, Caller
from jiyi.server.served import RateLimit
from jiyi.settings import load_settings
from jiyi.storage import Ledger
from jiyi.storage.backend import open_database
from jiyi.storage.place import Place
from jiyi.testing import ManualClock

NOW = datetime(2026, 11, 23, tzinfo=UTC)
TABLES = read_tables(__file__)


@pytest.fixture
def clock():
    return ManualClock(NOW)


@pytest.fixture
def ledger(tmp_path):
    database = open_database(Place(path=tmp_path / "k.db"), load_settings())
    yield Ledger(database)
    database.close()


@pytest.fixture
def keys(ledger, clock):
    return Keys(ledger, clock=clock)


def test_only_the_hash_of_a_key_is_kept(keys, ledger):
    assert keys.caller(None) == LOCAL_CALLER
    key, secret = keys.create("acme", ["read", "write"], user="ana", expires_in=timedelta(days=90))
    (kept,) = ledger.keys().values()
    assert secret not in kept
    assert json.loads(kept)["digest"] == hashlib.sha256(secret.encode()).hexdigest()
    caller = keys.caller(secret)
    assert (caller.tenant, caller.access, caller.user) == ("acme", {"read", "write"}, "ana")
    assert keys.list() == keys.list("acme") == [key]
    assert keys.list("other") == []


def test_a_key_without_a_tenant_is_renewed_as_one(keys):
    assert keys.rotate(keys.create(None, ["admin"])[0].name)[0].caller.tenant == ""


def test_until_a_key_is_made_any_will_do_and_then_none_is_not_enough(keys, ledger, clock):
    assert keys.caller("m0-anything") == keys.caller("jiyi_aaaaaaaaaa_" + "b" * 43) == LOCAL_CALLER
    keys.create("acme", ["read"])
    refused(Unauthorized, "not known", keys.caller, "m0-anything")
    refused(Unauthorized, "send an API key", Keys(ledger, clock=clock).caller, None)


def test_a_tenant_has_no_admin_key_and_no_key_ends_before_it_is_made(keys):
    refused(InputError, "such as 90d", keys.create, "acme", ["read"], expires_in=timedelta(0))
    refused(Forbidden, "without a tenant", Caller(tenant="acme", access=frozenset({"admin"})).check, "admin")


@pytest.mark.parametrize(
    "change", [lambda s: s[:-1] + "_", lambda s: s + "x", lambda s: s[5:], lambda s: "茶"]
)
def test_another_secret_opens_nothing(keys, change):
    _, secret = keys.create("acme", ["read"])
    with pytest.raises(Unauthorized, match="not known"):
        keys.caller(change(secret) if change(secret) != secret else secret[:-1] + "A")


def test_a_key_ends(keys, clock):
    key, secret = keys.create("acme", ["read"], expires_in=timedelta(days=1))
    clock.forward(days=1)
    refused(Unauthorized, "expired", keys.caller, secret)
    key, secret = keys.create("acme", ["read"])
    assert keys.revoke(key.name) == keys.revoke(key.name)
    refused(Unauthorized, "revoked", keys.caller, secret)
    refused(NotFound, "keys list", keys.revoke, "none")


def test_another_process_notices_a_revoked_key_soon(keys, ledger, clock, monkeypatch):
    key, secret = keys.create("acme", ["read"])
    other = Keys(ledger, clock=clock)
    assert other.caller(secret).tenant == "acme"
    keys.revoke(key.name)
    monkeypatch.setattr("time.monotonic", lambda: 1e9 + KNOWN_SECONDS)
    refused(Unauthorized, "revoked", other.caller, secret)


def test_a_key_is_renewed_and_the_old_one_works_for_a_while(keys, clock):
    old, secret = keys.create("acme", ["read"], user="ana", expires_in=timedelta(days=9))
    new, renewed = keys.rotate(old.name, keep=timedelta(hours=1))
    assert keys.caller(secret).user == keys.caller(renewed).user == "ana"
    assert new.expires_at == NOW + timedelta(days=9)
    clock.forward(hours=1)
    refused(Unauthorized, "revoked", keys.caller, secret)
    refused(InputError, "revoked", keys.rotate, old.name)


@pytest.mark.parametrize(("tenant", "access", "user", "told"), literals(TABLES["odd keys"]))
def test_odd_keys_are_not_made(keys, tenant, access, user, told):
    refused(InputError, told, keys.create, tenant, access, user=user)
    assert keys.list() == []


def test_a_bucket_fills_again():
    seconds = [0.0]
    limit = RateLimit(2, clock=lambda: seconds[0])
    limit.take("a")
    limit.take("a")
    limit.take("b")
    with pytest.raises(RateLimited) as caught:
        limit.take("a")
    assert caught.value.retry_after == 30
    seconds[0] = 30
    limit.take("a")


def test_two_tenants_with_one_name_never_meet(serve):
    with serve() as server:
        acme, other = server.client("acme"), server.client("other")
        said = {"user_id": "ana", "message": {"role": "user", "content": "I live in Lisbon"}}
        saved = acme.post("/v1/sessions/s/messages", json=said).json()
        assert saved["scope"]["user_id"] == "ana"
        missing = other.get(f"/v1/records/{saved['id']}?user_id=ana")
        assert missing.status_code == 404
        assert missing.json()["detail"] == f"user 'ana' has nothing with the id {saved['id']!r}"
        assert other.get("/v1/facts?user_id=ana").json()["items"] == []
        assert other.get("/v1/users").json() == []
        assert acme.get("/v1/users").json() == ["ana"]
        assert "Lisbon" in acme.get("/v1/export?user_id=ana").text
        for form in ("jsonl", "markdown"):
            assert "acme//" not in acme.get(f"/v1/export?user_id=ana&format={form}").text
        assert "Lisbon" not in other.get("/v1/export?user_id=ana").text
        job = acme.post("/v1/maintenance", json={"user_id": "ana", "dry_run": True}).json()
        assert other.get(f"/v1/jobs/{job['id']}").status_code == 404
        acme.post("/v1/sessions/s/context", json={"user_id": "ana", "query": "where?"})
        assert acme.get("/v1/monitor").json()["windows"] == 1
        assert other.get("/v1/monitor").json()["windows"] == 0


ALLOWED = TABLES["scopes and user of a key, path, body, status"]


@pytest.mark.parametrize(("scopes", "user", "path", "body", "status"), ALLOWED)
def test_a_key_allows_what_it_says(server, scopes, user, path, body, status):
    client = server.client("acme", scopes=json.loads(scopes), user=user or None)
    assert client.post(path, json=json.loads(body)).status_code == int(status)


def test_what_takes_away_is_audited_without_words(server, caplog):
    caplog.set_level(logging.INFO, "jiyi.audit")
    client = server.client("acme")
    client.post("/v1/forget", json={"user_id": "ana", "query": "secret words"})
    client.post("/v1/forget", json={"user_id": "ana", "ids": ["none"]})
    client.get("/v1/export?user_id=ana")
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "jiyi.audit"]
    assert {(line["tenant"], line["user"]) for line in lines} == {("acme", "ana")}
    assert [line["audit"] for line in lines] == ["forget"] * 4 + ["export"]
    assert [line.get("outcome") for line in lines] == ["begun", "done", "begun", "failed", None]
    assert [line.get("error") for line in lines] == [None, None, None, "NotFound", None]
    assert "secret" not in str(lines)


@pytest.mark.slow
def test_no_answer_holds_anything_of_others(serve):
    with parrot() as upstream, serve(server_requests_per_minute=0, proxy_upstream=upstream.url) as server:
        world = begin(dict(tenants(server, 4)))
        walk(world, 3, 240, seed=3)
    assert world.faults == []
    assert set(world.counts) == {operation.__name__ for operation in OPERATIONS}
    assert world.statuses[200] > 200
    assert world.statuses[404] > 20
