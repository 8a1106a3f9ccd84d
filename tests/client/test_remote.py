"""A memory on a real server: asked with keys, by asyncio, through files, and while the server goes away."""

import asyncio
import inspect
import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from http_server import serving
from refusing import raises, refused
from tables import literals, read_tables

import jiyi
from jiyi import errors
from jiyi.client.memory import AsyncRemoteMemory, RemoteMemory
from jiyi.compression import PruneTokens
from jiyi.server import Keys
from jiyi.server.app import make_app
from jiyi.testing import HashEmbedder


@pytest.fixture
def served(tmp_path):
    return jiyi.open(tmp_path / "served.db", embedder=HashEmbedder(), background=False)


@pytest.fixture
def keys(served):
    return Keys(served.parts.ledger, clock=served.parts.clock)


@pytest.fixture
def url(served, keys):
    keys.create("other", ("read",))
    with serving(make_app(served)) as url:
        yield url


@pytest.fixture
def memory(url, keys):
    key = keys.create("acme", ("read", "write", "forget"))[1]
    with jiyi.open(url, api_key=key, user_id="ana") as memory:
        yield memory


@pytest.mark.slow
def test_it_is_a_memory_manager_of_its_tenant(url, memory, keys, served, monkeypatch):
    assert isinstance(memory, jiyi.MemoryManager)
    saved = memory.save_message("日志/2026 #1?", role="user", content="I prefer tea 🍵")
    assert saved.scope == jiyi.Scope(user_id="ana", session_id="日志/2026 #1?")
    assert memory.session_messages("日志/2026 #1?") == [saved]
    assert memory.search_episodes("tea").hits == ()
    assert served.session_messages("日志/2026 #1?", user_id="acme//ana")[0].id == saved.id
    monkeypatch.setenv("JIYI_API_KEY", keys.create("other", ("read",), user="ana")[1])
    with jiyi.connect(f"{url}/v1/") as other:
        assert other.stats()["message"] == 0
        raises(errors.NotFound, other.get, saved.id)
        raises(errors.Forbidden, other.stats, user_id="ben")
        raises(errors.Forbidden, other.save_message, "s", role="user", content="x")
    with (
        jiyi.connect(url, api_key="jiyi_nobody", user_id="ana") as nobody,
        pytest.raises(errors.Unauthorized),
    ):
        nobody.stats()


def test_every_verb_goes_over_http_or_is_made_of_some_that_do():
    for mine, base in ((RemoteMemory, jiyi.MemoryManager), (AsyncRemoteMemory, jiyi.AsyncMemoryManager)):
        verbs = [name for name, one in inspect.getmembers(base, inspect.isfunction) if name[0] != "_"]
        inherited = {name for name in verbs if getattr(mine, name) is getattr(base, name)}
        assert inherited == {"pop_message", "search_episodes", "search_knowledge"}  # each calls another
        for name in verbs:
            assert inspect.signature(getattr(mine, name)) == inspect.signature(getattr(base, name))


@pytest.mark.parametrize("session", ["..", ".", "a/../b", "%2F", "a b", "x" * 255])
def test_odd_ids_arrive_as_they_are(memory, session):
    assert memory.save_message(session, role="user", content="x").scope.session_id == session
    assert [message.text for message in memory.session_messages(session)] == ["x"]


def test_code_cannot_travel(memory):
    for given in ({"compress": PruneTokens(0.5)}, {"policy": jiyi.SlidingWindow(2)}):
        refused(errors.InputError, "code, and cannot travel", memory.build_context, "s", "x", 500, **given)
    for odd in (object(), {1}, memory.zone, Path("x"), datetime.now(UTC)):  # none becomes text on the way
        refused(errors.InputError, "stored as JSON", memory.start_task, "s", "x", context={"a": odd})
        refused(errors.InputError, "value.a is .*no JSON", memory.put_item, "n", "k", {"a": odd})
        item = {"namespace": "n", "key": "k", "value": odd}
        refused(errors.InputError, "no JSON", memory.put_items, [item])
    with pytest.raises(errors.WrongState, match="on the server"):
        memory.parts  # noqa: B018
    refused(TypeError, "limt", memory.search, "x", limt=3)
    assert memory.monitor is None


@pytest.mark.slow
def test_files_go_out_whole_and_come_in_once(memory, tmp_path, url, keys):
    memory.save_messages("s", [{"role": "user", "content": f"note {n}"} for n in range(1_200)])
    file, told = tmp_path / "ana.jsonl", []
    receipt = memory.export(file, progress=told.append)
    assert (receipt.path, receipt.bytes, receipt.counts["message"]) == (file, file.stat().st_size, 1_200)
    assert json.loads(file.read_text("utf-8").splitlines()[0])["user_id"] == "ana"
    assert told[-1] == receipt.total
    assert memory.import_(file).known == receipt.total
    moved = memory.import_(file, user_id="ben", progress=told.append)
    assert memory.stats(user_id="ben")["message"] == 1_200
    assert moved.rejected == ()
    assert memory.export(tmp_path / "ana.md", format="markdown").counts == receipt.counts
    for wrong, error in (({"format": "csv"}, errors.InputError), ({"user_id": ""}, errors.BadScope)):
        raises(error, memory.export, file, **wrong)
    refused(errors.StorageError, "is a folder", memory.export, tmp_path)
    for missing, why in ((tmp_path / "none.jsonl", ""), (tmp_path, ": it is a folder.*zip it")):
        refused(errors.ImportFailed, f"cannot be read{why}", memory.import_, missing)
    database = Path(__file__).parents[1] / "importers" / "samples" / "openai_agents.sqlite"
    assert memory.import_(database).counts["message"] == 5
    assert sorted(os.listdir(tmp_path))[:2] == ["ana.jsonl", "ana.md"]
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]


@pytest.mark.slow
async def test_asyncio_has_the_same_verbs(url, keys, tmp_path):
    key = keys.create("acme", ("read", "write", "forget"))[1]
    async with jiyi.open_async(url, api_key=key, user_id="ana") as memory:
        saved = await asyncio.gather(
            *(memory.save_message("s", role="user", content=f"note {n}") for n in range(20))
        )
        assert sorted(message.seq for message in saved) == list(range(20))
        assert (await memory.search_knowledge("note")).hits == ()
        assert (await memory.pop_message("s")).seq == 19
        receipt = await memory.export(tmp_path / "ana.jsonl")
        assert (await memory.import_(tmp_path / "ana.jsonl")).known == receipt.total
        assert (await memory.maintain()).gate.dry_run is False
        assert str(memory.zone) == "UTC"
        with pytest.raises(errors.BudgetTooSmall):
            await memory.build_context("s", "x " * 400, 20)


def test_a_server_may_stop_and_come_back(tmp_path):
    def opened():
        return make_app(jiyi.open(tmp_path / "m.db", embedder=HashEmbedder(), background=False))

    with serving(opened()) as url:
        memory = jiyi.connect(url, user_id="ana", retries=1)
        memory.save_message("s", role="user", content="x")
    refused(errors.ServerUnreachable, "check that it runs", memory.stats)
    with serving(opened(), port=int(url.rpartition(":")[2])):
        assert memory.stats()["message"] == 1
        memory.close()


@pytest.mark.parametrize(("url", "options", "told"), literals(read_tables(__file__)["no servers"]))
def test_what_cannot_be_a_server_is_said_at_once(url, options, told):
    refused(errors.SettingsError, told, jiyi.open, url, **options)
