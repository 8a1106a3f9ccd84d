"""mem0's API and its clients: all memories of a user go in, once, whatever the network and the answers do."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from http_server import serving
from importers.damaged_variants import DAMAGES, damaged
from refusing import refused
from scripted_endpoint import Reply, ScriptedEndpoint
from typer.testing import CliRunner

import jiyi
from jiyi.cli.app import app as cli
from jiyi.errors import InputError, ServerError, ServerUnreachable, SettingsError
from jiyi.server.app import make_app
from jiyi.testing import HashEmbedder

SCRIPT = Path(__file__).with_name("mem0_client_script.py")
KEY = "m0-very-secret"
OWNERS = ("user_id", "agent_id", "app_id", "run_id")
AGAIN = {"Retry-After": "0"}


class Mem0(ScriptedEndpoint):
    """Answers as mem0's platform: an owner that filters leave out must be none, "*" is any."""

    def __init__(self, memories, *replies) -> None:
        super().__init__(*replies)
        self.memories = memories

    @property
    def address(self) -> str:
        return f"mem0+{self.url.removesuffix('/v1')}"

    def usual(self, asked):
        return Reply(body=self.page(self.memories, asked["filters"], self.paths[-1]))

    @staticmethod
    def page(memories, filters, path):
        wanted = {name: value for part in filters["AND"] for name, value in part.items()}
        asked = parse_qs(urlsplit(path).query)
        number, size = int(asked["page"][0]), int(asked["page_size"][0])

        def is_of(memory, name):
            asked_for, has = wanted.get(name), memory.get(name)
            return bool(has) if asked_for == "*" else has == asked_for

        found = [memory for memory in memories if all(is_of(memory, name) for name in OWNERS)]
        shown = found[(number - 1) * size : number * size]
        more = f"{path}&more" if number * size < len(found) else None
        return {"count": len(found), "next": more, "previous": None, "results": shown}


def memories_of(user, count, **owners):
    same = {"user_id": user, "created_at": "2025-03-01T10:00:00+00:00", **owners}
    ids = [f"{user}-{'-'.join(owners.values())}-{n}" for n in range(count)]
    said = [{"memory": f"{user} said thing {n}", "metadata": {"n": n}} for n in range(count)]
    return [{"id": id, **one, **same} for id, one in zip(ids, said, strict=True)]


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("MEM0_API_KEY", KEY)


def texts(memory, **whose):
    return sorted(fact.object for fact in memory.facts(limit=1_000, **whose))


def test_what_our_own_server_keeps_goes_over(memory, tmp_path, monkeypatch):
    with jiyi.open(tmp_path / "there.db", background=False, embedder=HashEmbedder()) as there:
        app = make_app(there, local=True)
        monkeypatch.setenv("MEM0_API_KEY", app.state.served.keys.create("acme", ["read"])[1])
        note = {"subject": "user", "predicate": "note", "category": "note"}
        for n in range(230):
            whose = {"user_id": "acme//ana", "agent_id": "bot" if n % 2 else None}
            there.remember(**note, object=f"thing {n}", metadata={"n": n}, **whose)
        there.remember(**note, object="Ben's", user_id="acme//ben")
        with serving(app) as url:
            place = f"mem0+{url}/compat/mem0"
            assert memory.import_(place, dry_run=True).counts == {"fact": 230}
            assert not memory.facts()
            done = memory.import_(place)
            assert (done.counts, dict(done.left_out), done.rejected) == ({"fact": 230}, {}, ())
            again = memory.import_(place)
            assert (again.added, again.known) == (0, 230)
    assert texts(memory) == sorted(f"thing {n}" for n in range(230))
    (one,) = (fact for fact in memory.facts(limit=1_000) if fact.object == "thing 7")
    assert (one.metadata["n"], one.metadata["agent_id"], one.metadata["source"]) == (7, "bot", "mem0")


def test_what_belongs_to_an_agent_or_a_run_as_well_is_not_forgotten(memory):
    there = memories_of("ana", 250) + memories_of("ana", 3, agent_id="bot")
    there += memories_of("ana", 2, run_id="r", app_id="web") + memories_of("ben", 5)
    there[0] |= {"expiration_date": "2025-04-01"}
    with Mem0(there) as mem0:
        done = memory.import_(mem0.address)
        assert (done.counts, dict(done.left_out), done.rejected) == ({"fact": 255}, {}, ())
        assert {asked["show_expired"] for asked in mem0.asked} == {True}
        assert set(mem0.keys) == {f"Token {KEY}"}
        before = memory.facts(limit=1_000)
        assert {fact.created_at.date().isoformat() for fact in before} == {"2025-03-01"}
        assert [fact.id for fact in memory.facts(status=("expired",))] == ["mem0:ana--0"]
        mem0.memories += memories_of("ana", 1, agent_id="new")
        again = memory.import_(mem0.address)
        assert (again.added, again.known) == (1, 255)
        other = memory.import_(f"{mem0.address}?user_id=ben", user_id="benjamin")
        assert (other.added, texts(memory, user_id="benjamin")[0]) == (5, "ben said thing 0")


def test_another_users_memories_stay_out(memory):
    with Mem0([], Reply(body={"results": [*memories_of("ana", 1), *memories_of("ben", 2)]})) as mem0:
        done = memory.import_(mem0.address)
    assert (texts(memory), dict(done.left_out)) == (["ana said thing 0"], {"memories of other users": 2})


def test_a_failure_on_the_way_is_told_and_a_repeat_goes_on(memory):
    page = Mem0.page(memories_of("ana", 450), {"AND": [{"user_id": "ana"}]}, "/?page=1&page_size=100")
    broken = [Reply(status=503, headers=AGAIN)] * 5
    with Mem0(
        memories_of("ana", 450), *[Reply(body=lambda _, n=n: at(n)) for n in (1, 2, 3)], *broken
    ) as mem0:

        def at(number):
            path = f"/?page={number}&page_size=100"
            return Mem0.page(mem0.memories, {"AND": [{"user_id": "ana"}]}, path)

        refused(ServerUnreachable, "503", memory.import_, mem0.address)
        assert len(texts(memory)) == 200
        done = memory.import_(mem0.address)
        assert (done.added, done.known) == (250, 200)
        mem0.replies += [Reply(cut=True, body=page), Reply(status=429, headers=AGAIN, body={})]
        assert memory.import_(mem0.address).known == 450
    assert len(texts(memory)) == 450


def test_the_key_is_told_nobody(memory):
    with Mem0([], Reply(status=401, body={"detail": f"bad key {KEY}"})) as mem0:
        with pytest.raises(ServerError, match="MEM0_API_KEY") as told:
            memory.import_(mem0.address)
        place = mem0.address.replace("http://", f"http://ana:{KEY}@")
        for address in (place, f"{mem0.address}?api_key={KEY}", f"{mem0.address}?user_id=", "mem0://"):
            with pytest.raises(SettingsError) as caught:
                memory.import_(address)
            assert KEY not in str(caught.value)
        assert len(mem0.asked) == 1
    assert KEY not in f"{told.value} {told.value.__cause__} {told.value.__context__}"


@pytest.mark.parametrize("body", [b"<html>", {"results": 7}, {"memories": []}, 7, b'{"results": [', b"\xff"])
def test_what_is_no_page_is_refused(memory, body):
    with Mem0([], Reply(body=body)) as mem0, pytest.raises(ServerError, match="as mem0 does"):
        memory.import_(mem0.address)


@pytest.mark.parametrize("status", [302, 404])
def test_what_is_no_mem0_is_refused(memory, status):
    replies = [Reply(status=status, headers={"Location": "http://127.0.0.1:9/"}, body={})]
    with Mem0([], *replies) as mem0, pytest.raises(ServerError, match=str(status)):
        memory.import_(mem0.address)


def test_nobody_there_is_told(memory, monkeypatch):
    monkeypatch.setattr("jiyi.endpoint._FIRST_PAUSE", 0.001)
    with Mem0([]) as mem0:
        address = mem0.address
    refused(ServerUnreachable, "could not be reached", memory.import_, address)


@pytest.mark.parametrize("seed", range(DAMAGES))
def test_damaged_answers_harm_nothing(memory, seed):
    there = [*memories_of("ana", 150), *memories_of("ana", 2, run_id="r")]
    path = f"/?page={seed % 2 + 1}&page_size=100"
    bad = damaged(json.dumps(Mem0.page(there, {"AND": [{"user_id": "ana"}]}, path)).encode(), seed)
    sound = Mem0.page(there, {"AND": [{"user_id": "ana"}]}, "/?page=1&page_size=100")
    with Mem0(there, *[Reply(body=sound)] * (seed % 2), Reply(body=bad)) as mem0:
        with suppress(ServerError):
            memory.import_(mem0.address)
        whole = memory.import_(mem0.address)
        assert {f"mem0:{one['id']}" for one in there} <= {fact.id for fact in memory.facts(limit=1_000)}
        assert (whole.rejected, whole.added + whole.known) == ((), 152)
        assert memory.import_(mem0.address).added == 0


class Kept:
    """What the clients below give back."""

    def __init__(self, memories) -> None:
        self.memories = memories


class Hosted(Kept):
    """Called as mem0's MemoryClient is."""

    api_key, fails_at = KEY, None

    def get_all(self, options=None, **kwargs):
        if kwargs["page"] == self.fails_at:
            raise ConnectionError(f"Token {KEY}")
        path = f"/?page={kwargs['page']}&page_size={kwargs['page_size']}"
        return Mem0.page(self.memories, kwargs["filters"], path)


class Local(Kept):
    """Called as mem0's Memory is: no pages, twenty unless asked for more."""

    def get_all(self, *, filters=None, top_k=20, show_expired=False, **kwargs):
        assert show_expired
        return {"results": [one for one in self.memories if one["user_id"] == filters["user_id"]][:top_k]}


class Older(Kept):
    """Called as Memory of mem0 1.0 is."""

    def get_all(self, *, user_id=None, agent_id=None, run_id=None, filters=None, limit=100):
        return {"results": [one for one in self.memories if one["user_id"] == user_id][:limit]}


@pytest.mark.parametrize("made", [Hosted, Local, Older])
def test_a_client_is_read_whole(memory, made):
    of_ana = memories_of("ana", 1_150) + memories_of("ana", 2, agent_id="bot")
    client = made(of_ana + memories_of("ben", 3))
    assert memory.import_(client, dry_run=True).counts == {"fact": 1_152}
    assert not memory.facts()
    assert memory.import_(client).counts == {"fact": 1_152}
    again = memory.import_(client)
    assert (again.added, again.known, dict(again.left_out)) == (0, 1_152, {})


def test_a_client_that_fails_is_told_without_its_key(memory):
    client = Hosted(memories_of("ana", 450))
    client.fails_at = 4
    with pytest.raises(ServerError, match="ConnectionError") as told:
        memory.import_(client)
    assert KEY not in f"{told.value} {told.value.__cause__}"
    client.fails_at = None
    assert memory.import_(client).known == 200
    assert len(texts(memory)) == 450


def test_a_client_for_asyncio_is_refused(memory):
    class Awaited:
        async def get_all(self, **kwargs):
            raise AssertionError(kwargs)

    refused(InputError, "MemoryClient", memory.import_, Awaited())


def test_the_command_takes_an_address(tmp_path):
    run = CliRunner().invoke
    here = ["--db", str(tmp_path / "c.db"), "--user", "ana", "--no-vectors"]
    with Mem0(memories_of("ana", 120)) as mem0:
        seen = run(cli, ["import", mem0.address, "--dry-run", *here])
        assert "120 facts would be added" in seen.output, seen.output
        done = run(cli, ["import", mem0.address, *here])
        assert (done.exit_code, "120 facts added" in done.output) == (0, True), done.output
        mem0.replies.append(Reply(status=401, body={"detail": KEY}))
        failed = run(cli, ["import", mem0.address, *here])
    assert (failed.exit_code, "MEM0_API_KEY" in failed.output, KEY in failed.output) == (1, True, False)


@pytest.mark.slow
def test_mem0s_own_client_is_read(tmp_path):
    python = os.environ.get("JIYI_TEST_MEM0_PYTHON", sys.executable)
    env = {**os.environ, "MEM0_TELEMETRY": "False", "MEM0_DIR": str(tmp_path)}
    if subprocess.run([python, "-c", "import mem0"], env=env, capture_output=True, check=False).returncode:
        pytest.skip("JIYI_TEST_MEM0_PYTHON names no Python with mem0ai: pip install mem0ai==2.2.1")
    env["JIYI_TEST_PATH"] = os.pathsep.join([str(Path(jiyi.__file__).parents[1]), *sys.path])
    with jiyi.open(tmp_path / "there.db", background=False, embedder=HashEmbedder()) as there:
        app = make_app(there, local=True)
        key = app.state.served.keys.create("acme", ["read", "write"])[1]
        with serving(app) as url:
            words = [python, SCRIPT, f"{url}/compat/mem0", key, tmp_path / "here.db"]
            done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "120 0 120\n30 0 30\n", done.stderr
