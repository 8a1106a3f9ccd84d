"""The Claude Agent SDK on a memory: its own contracts, and what transcripts become."""

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from examples_run import printed_by

pytest.importorskip("claude_agent_sdk")

from claude_agent_sdk import list_sessions_from_store, project_key_for_directory
from claude_agent_sdk.testing import run_session_store_conformance

import jiyi
from jiyi.errors import BadMessage, InputError, WrongState
from jiyi.integrations.claude_agent_sdk import JiyiSessionStore

SAMPLE = Path(__file__).parents[2] / "importers" / "samples" / "claude_code.jsonl"
KEY = {"project_key": "-srv-app", "session_id": "s"}


def said(text: str, role: str = "user", **more: Any) -> dict[str, Any]:
    return {"type": role, "uuid": str(uuid4()), "message": {"role": role, "content": text}, **more}


async def test_the_sdk_s_contracts(open_memory, tmp_path):
    made = iter(range(100))
    await run_session_store_conformance(lambda: JiyiSessionStore(open_memory(tmp_path / f"{next(made)}.db")))


@pytest.mark.slow
async def test_the_sdk_s_contracts_on_a_server(open_memory, postgres_url):
    made = iter(range(100))
    await run_session_store_conformance(
        lambda: JiyiSessionStore(open_memory(postgres_url), user_id=f"user {next(made)}")
    )


def test_a_memory_on_a_server_is_refused():
    with pytest.raises(WrongState, match="open the memory"):
        JiyiSessionStore(jiyi.connect("http://127.0.0.1:9", user_id="ana"))


async def test_a_transcript_comes_back_and_is_read_as_the_importer_reads_it(memory):
    entries = [json.loads(line) for line in SAMPLE.read_text("utf-8").splitlines()]
    store = JiyiSessionStore(memory)
    await store.append(KEY, entries)
    assert await store.load(KEY) == entries
    memory.import_(SAMPLE, user_id="other")

    def words(user: str) -> list[tuple[str, str]]:
        sessions = memory.sessions(user_id=user)
        found = [m for s in sessions for m in memory.session_messages(s.id, user_id=user)]
        return [(m.role, m.search_text) for m in found if m.search_text]

    assert words("ana") == words("other")
    assert "raw" not in json.dumps(memory.build_context(memory.sessions()[0].id, "port?").messages)


async def test_an_entry_is_added_once_however_often_it_is_sent(memory):
    store, entry = JiyiSessionStore(memory), said("蓝色门的密码是 7341")
    title = {"type": "custom-title", "customTitle": "Doors"}
    for batch in ([entry, entry], [entry, title], [said("Thanks", "assistant"), title]):
        await store.append(KEY, batch)
    loaded = await store.load(KEY)
    assert [one["type"] for one in loaded] == ["user", "custom-title", "assistant", "custom-title"]
    hits = [hit.text for hit in memory.search("蓝色门的密码", kinds="message")]
    assert hits[0] == "蓝色门的密码是 7341"
    assert "" not in hits, "what says nothing is no answer"


async def test_a_batch_with_an_entry_that_cannot_be_kept_is_not_there(memory):
    store = JiyiSessionStore(memory)
    with pytest.raises(BadMessage):
        await store.append(KEY, [said("fine"), {"type": "user", "at": object()}])
    with pytest.raises(InputError):
        await store.append({**KEY, "subpath": ""}, [said("fine")])
    assert await store.load(KEY) is None
    odd = [{"type": "user", "message": {"content": [{"type": "tool_use"}]}}, {"type": "user"}]
    await store.append(KEY, odd)
    assert await store.load(KEY) == odd, "words in an unknown form are kept, if not understood"


async def test_projects_and_sessions_with_slashes_do_not_meet(memory):
    store = JiyiSessionStore(memory)
    keys = [
        {"project_key": "a", "session_id": "b/c"},
        {"project_key": "a/b", "session_id": "c"},
        {"project_key": "a", "session_id": "b", "subpath": "c"},
        {"project_key": "a%2Fb", "session_id": "c"},
    ]
    for number, key in enumerate(keys):
        await store.append(key, [{"type": "x", "n": number}])
    assert [await store.load(key) for key in keys] == [[{"type": "x", "n": n}] for n in range(4)]
    assert [one["session_id"] for one in await store.list_sessions("a")] == ["b/c"]
    assert [one["session_id"] for one in await store.list_sessions("a/b")] == ["c"]
    assert await store.list_subkeys({"project_key": "a", "session_id": "b"}) == ["c"]


async def test_what_an_agent_asks_of_another_says_nothing_of_the_user(memory):
    store, prompt = JiyiSessionStore(memory), "My name is Ana Quillfeather and I live in Porto."
    await store.append({**KEY, "subpath": "subagents/agent-1"}, [said(prompt, isSidechain=True)])
    assert not [fact for fact in memory.facts() if fact.speaker == "user"]
    assert memory.search("Quillfeather")
    await store.append(KEY, [said(prompt)])
    assert [fact for fact in memory.facts() if "Porto" in fact.text]
    await store.delete(KEY)
    assert memory.facts() == []
    assert not memory.search("Quillfeather")
    for receipt in store.last_receipts:
        memory.restore(forgotten_at=receipt.at)
    assert len(await store.load(KEY)) == len(await store.list_subkeys(KEY)) == 1
    assert [fact for fact in memory.facts() if "Porto" in fact.text]


async def test_writers_at_once_fold_one_summary(open_memory, tmp_path):
    stores = [JiyiSessionStore(open_memory()) for _ in range(2)]
    key = {"project_key": project_key_for_directory(tmp_path), "session_id": str(uuid4())}
    first = {"type": "custom-title", "customTitle": "Doors", "timestamp": "2026-01-01T00:00:00Z"}
    await asyncio.gather(
        stores[0].append(key, [first]),
        stores[1].append(key, [{"type": "tag", "tag": "open"}, said("Which door?")]),
    )
    (listed,) = await list_sessions_from_store(stores[0], directory=str(tmp_path))
    assert (listed.custom_title, listed.tag, listed.first_prompt) == ("Doors", "open", "Which door?")


async def test_a_change_is_whole_when_its_caller_is_cancelled(memory):
    store = JiyiSessionStore(memory)
    adding = asyncio.create_task(store.append(KEY, [said(f"{i}") for i in range(50)]))
    await asyncio.sleep(0)
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    assert len(await store.load(KEY) or []) in (0, 50)


SHOWN = {
    "anthropic_demo.py": ["the tool said: File created", "memories/doors.md", "it said: 7341."],
    "claude_agent_sdk_demo.py": ["as it was: True", "found: LISTEN", "after delete: None 0 found"],
}


@pytest.mark.slow
@pytest.mark.parametrize(("script", "shown"), SHOWN.items())
def test_a_script_shows_what_it_says(script, shown, tmp_path, monkeypatch):
    pytest.importorskip("anthropic")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    printed = printed_by(script)
    assert all(text in printed for text in shown), printed
