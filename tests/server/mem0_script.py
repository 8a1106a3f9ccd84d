"""Run by the Python of an environment with mem0ai: its own clients against the server at argv[1].

MEM0_TELEMETRY=False python mem0_script.py http://127.0.0.1:8710/compat/mem0 KEY
"""

import asyncio
import sys

from mem0 import AsyncMemoryClient, MemoryClient
from mem0.client.types import DeleteAllMemoryOptions
from mem0.exceptions import MemoryNotFoundError, ValidationError

HOST, KEY = sys.argv[1:]
ANA = {"user_id": "ana"}
TALK = [
    {"role": "user", "content": "I moved to Lisbon, and the ceiling leaks."},
    {"role": "assistant", "content": "I'd call a roofer."},
]


def fails(kind, call):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def use(client):
    added = client.add(TALK, user_id="ana", run_id="r1", metadata={"topic": "home"})["results"]
    assert {one["event"] for one in added} == {"ADD"}
    assert "I'd call a roofer." in [one["memory"] for one in added]
    client.add("我喜欢喝茶", user_id="ana", agent_id="bot")
    kept = client.add("as it is / 50%", user_id="a/b", infer=False)["results"]
    assert [one["memory"] for one in kept] == ["as it is / 50%"]

    for words in ("ceiling", "roofer", "Lisbon", "喝茶"):
        assert client.search(words, filters=ANA)["results"], words
    assert client.search("roofer", filters=ANA, top_k=1)["results"][0]["memory"] == "I'd call a roofer."
    narrowed = client.search("喝茶", filters={"AND": [ANA, {"OR": [{"agent_id": "bot"}, {"run_id": "x"}]}]})
    assert {one["agent_id"] for one in narrowed["results"]} == {"bot"}
    at_home = client.get_all(filters={**ANA, "metadata": {"topic": "home"}})
    assert {one["run_id"] for one in at_home["results"]} == {"r1"}
    everything = client.get_all(filters=ANA, page=1, page_size=2)
    assert everything["count"] > 2
    assert "page=2" in everything["next"]

    meant = kept[0]["id"]
    assert client.get(meant)["user_id"] == "a/b"
    client.update(meant, text="teal curtains", metadata={"n": 1})
    assert client.get(meant)["memory"] == "teal curtains"
    assert client.get(meant)["metadata"] == {"n": 1}
    assert client.search("teal", filters={"user_id": "a/b"})["results"][0]["id"] == meant
    told = client.history(meant)
    assert [one["new_memory"] for one in told] == ["as it is / 50%", "teal curtains"], told
    client.batch_update([{"memory_id": meant, "text": "in a batch"}])
    assert client.get(meant)["memory"] == "in a batch"
    assert [one["name"] for one in client.users()["results"]] == ["a/b", "ana"]

    client.batch_delete([{"memory_id": meant}])
    assert "a/b" not in fails(MemoryNotFoundError, lambda: client.get("a%2Fb:none")).replace("'a/b'", "")
    fails(MemoryNotFoundError, lambda: client.get(meant))
    client.delete(added[-1]["id"])
    assert not client.search("roofer", filters=ANA)["results"]
    fails(ValidationError, lambda: client.search("x", filters={"user_id": "*"}))
    fails(ValidationError, client.delete_all)
    client.delete_all(options=DeleteAllMemoryOptions(filters={"user_id": "ana", "agent_id": "bot"}))
    assert not client.get_all(filters={**ANA, "agent_id": "bot"})["count"]
    assert client.get_all(filters=ANA)["count"]
    client.delete_all(user_id="ana")
    assert client.get_all(filters=ANA)["results"] == []
    client.add("something", user_id="ana", infer=False)
    client.reset()
    assert client.users()["results"] == []


async def use_async(client):
    await client.add("My name is Ana", user_id="ana")
    found = await client.search("name", filters=ANA)
    assert found["results"][0]["memory"] == "My name is Ana", found
    await client.delete_all(user_id="ana")


use(MemoryClient(host=HOST, api_key=KEY))
asyncio.run(use_async(AsyncMemoryClient(host=HOST, api_key=KEY)))
print("done")
