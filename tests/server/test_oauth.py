"""Tokens of an OAuth issuer at ``/mcp``: which open it, which do not, and how clients learn of the issuer."""

import json
import time

import httpx
import pytest
from at_once import at_once
from http_server import serving
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from jiyi.errors import SettingsError

jwt = pytest.importorskip("jwt")
rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")

ISSUER, RESOURCE = "https://login.example", "https://memory.example/mcp"
JSON = {"accept": "application/json, text/event-stream"}
OURS, FOREIGN = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))


class KeysOf:
    """An issuer's keys, or what it answers instead."""

    def __init__(self):
        algorithm = jwt.get_algorithm_by_name("RS256")
        public = json.loads(algorithm.to_jwk(OURS.public_key())) | {"kid": "1", "alg": "RS256", "use": "sig"}
        self.keys = json.dumps({"keys": [public]})
        self.url, self.body, self.asked = "", None, 0

    def answer(self, _):
        self.asked += 1
        return Response(self.keys if self.body is None else self.body)


@pytest.fixture
def issuer():
    keys = KeysOf()
    with serving(Starlette(routes=[Route("/keys", keys.answer)])) as url:
        keys.url = f"{url}/keys"
        yield keys


@pytest.fixture
def server(serve_at, tmp_path, issuer):
    told = {"oauth_issuer": ISSUER, "oauth_keys_url": issuer.url, "oauth_resource": RESOURCE}
    with serve_at(tmp_path / "m.db", **told, oauth_tenant="acme") as running:
        yield running


def token(key=OURS, algorithm="RS256", kid="1", **changed):
    claims = {"iss": ISSUER, "aud": RESOURCE, "sub": "ana", "exp": time.time() + 600, "scope": "read write"}
    claims |= changed
    told = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(told, key, algorithm=algorithm, headers={"kid": kid})


def call(server, bearer, name="remember", given=None):
    params = {"name": name, "arguments": given or {"text": "the gate opens with 4711"}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = JSON | ({"authorization": f"Bearer {bearer}"} if bearer else {})
    return httpx.post(f"{server.url}/mcp", json=asked, headers=headers, timeout=60)


def test_the_subject_is_a_user_of_the_tenant(server):
    assert call(server, token()).status_code == 200
    assert server.memory.facts(user_id="acme//ana")
    assert "4711" not in call(server, token(sub="ben"), "recall", {"query": "gate"}).text
    for allowed in (token(aud=["https://other.example", RESOURCE]), token(scope=None, scp=["write"])):
        assert not call(server, allowed).json()["result"].get("isError")


@pytest.mark.parametrize("scopes", ["read", "profile", "", None, 7])
def test_a_token_allows_what_its_scopes_say(server, scopes):
    told = call(server, token(scope=scopes)).json()["result"]
    assert told["isError"]
    assert "may not write" in told["content"][0]["text"]


def test_what_is_no_token_for_this_server_opens_nothing(server):
    none = jwt.encode({"iss": ISSUER, "aud": RESOURCE, "sub": "ana", "exp": 9e9}, None, algorithm="none")
    refused = {
        "nothing": None,
        "no token": "abc",
        "another's key": token(FOREIGN),
        "an unknown key": token(kid="2"),
        "another resource": token(aud="https://other.example/mcp"),
        "no resource": token(aud=None),
        "another issuer": token(iss="https://evil.example"),
        "ended": token(exp=time.time() - 120),
        "without an end": token(exp=None),
        "not begun": token(nbf=time.time() + 600),
        "without a subject": token(sub=None),
        "unsigned": none,
        "signed with the public key": _hmac(),
    }
    for name, bearer in refused.items():
        answer = call(server, bearer)
        assert answer.status_code == 401, name
        assert answer.headers["www-authenticate"] == (
            'Bearer resource_metadata="https://memory.example/.well-known/oauth-protected-resource/mcp"'
        )
    assert server.memory.facts(user_id="acme//ana") == []


def test_clients_learn_of_the_issuer_keys_stay_valid_and_tokens_open_nothing_else(server):
    told = httpx.get(f"{server.url}/.well-known/oauth-protected-resource/mcp").json()
    assert (told["resource"], told["authorization_servers"]) == (RESOURCE, [ISSUER])
    assert told["scopes_supported"] == ["read", "write", "forget"]
    assert call(server, server.keys.create("acme", ["write"], user="ana")[1]).status_code == 200
    headers = {"authorization": f"Bearer {token()}"}
    assert httpx.get(f"{server.url}/v1/facts", headers=headers).status_code == 401


def test_an_issuer_that_does_not_answer_is_no_reason_to_trust(serve_at, tmp_path):
    told = {"oauth_issuer": ISSUER, "oauth_keys_url": "http://127.0.0.1:9/keys", "oauth_resource": RESOURCE}
    with serve_at(tmp_path / "m.db", **told) as running:
        answer = call(running, token())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["type"].endswith("ServerUnreachable")


def test_many_tokens_at_once_ask_the_issuer_once(server, issuer):
    good = at_once(lambda _: call(server, token()).status_code, range(8))
    odd = at_once(lambda n: call(server, token(kid=f"k{n}")).status_code, range(8))
    assert (set(good), set(odd), issuer.asked) == ({200}, {401}, 1)


def test_an_issuer_that_comes_back_is_asked_again(server, issuer):
    for body in (b"<html>", b"[]", b'{"keys": []}'):
        issuer.body = body
        assert call(server, token()).status_code == 503
        time.sleep(1.05)
    issuer.body = None
    assert call(server, token()).status_code == 200


@pytest.mark.parametrize(
    "changed", [{"oauth_keys_url": None}, {"oauth_issuer": "http://login.example"}, {"oauth_resource": "mcp"}]
)
def test_settings_that_cannot_be_trusted_are_refused(serve_at, tmp_path, changed):
    told = {"oauth_issuer": ISSUER, "oauth_keys_url": f"{ISSUER}/keys", "oauth_resource": RESOURCE} | changed
    with pytest.raises(SettingsError, match=next(iter(changed))), serve_at(tmp_path / "m.db", **told):
        pass


def _hmac():
    """Return a token signed with the public key as if it were a shared secret."""
    import base64
    import hashlib
    import hmac

    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    claims = {"iss": ISSUER, "aud": RESOURCE, "sub": "ana", "exp": time.time() + 600, "scope": "write"}
    head = part({"alg": "HS256", "typ": "JWT", "kid": "1"}) + b"." + part(claims)
    public = OURS.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signed = base64.urlsafe_b64encode(hmac.digest(public, head, hashlib.sha256)).rstrip(b"=")
    return (head + b"." + signed).decode()
