"""LangGraph's store on a memory: what its operations promise, and what other stores got wrong."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from at_once import wait_until
from refusing import refused
from tables import read_tables

pytest.importorskip("langgraph.store.base")

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)

import jiyi
from jiyi.errors import InputError, WrongState
from jiyi.integrations.langgraph import AsyncJiyiStore, JiyiStore
from jiyi.testing import HashEmbedder, ManualClock


@pytest.fixture
def store(memory):
    return JiyiStore(memory)


def of_users(memory: jiyi.MemoryManager) -> JiyiStore:
    return JiyiStore(memory, user_from=lambda namespace: namespace[1])


def keys(found: list[Any]) -> list[str]:
    return [item.key for item in found]


def test_what_is_put_is_there_until_it_is_deleted(memory, store):
    value = {"theme": "dark", "sizes": [1, {"w": None}], "名": "蓝"}
    store.put(("users", "ana"), "settings", value)
    first = store.get(("users", "ana"), "settings")
    assert (first.value, first.namespace, first.key) == (value, ("users", "ana"), "settings")
    first.value["sizes"].append("mine")
    store.put(("users", "ana"), "settings", {"theme": "light"})
    second = store.get(("users", "ana"), "settings")
    assert second.value == {"theme": "light"}
    assert second.created_at == first.created_at
    assert [former.value for former in memory.item_history(("users", "ana"), "settings")] == [value]
    kept = memory.get_item(("users", "ana"), "settings")
    store.delete(("users", "ana"), "settings")
    store.delete(("users", "ana"), "never there")
    assert store.get(("users", "ana"), "settings") is None
    memory.restore([kept.id])
    assert store.get(("users", "ana"), "settings").value == {"theme": "light"}


def test_a_memory_on_a_server_is_refused():
    refused(WrongState, "open the memory", JiyiStore, jiyi.connect("http://127.0.0.1:9", user_id="ana"))


def test_a_batch_reads_first_and_the_last_put_of_a_key_counts(store):
    store.put(("a",), "k", {"n": 0})
    ops = [PutOp(("a",), "k", {"n": 1}), GetOp(("a",), "k"), PutOp(("a",), "gone", {"n": 1})]
    ops += [PutOp(("a",), "k", {"n": 2}), PutOp(("a",), "gone", None), SearchOp(("a",)), ListNamespacesOp()]
    results = store.batch(ops)
    assert results[1].value == {"n": 0}
    assert keys(results[5]) == ["k"]
    assert results[6] == [("a",)]
    assert [results[i] for i in (0, 2, 3, 4)] == [None] * 4
    assert store.get(("a",), "k").value == {"n": 2}
    assert store.get(("a",), "gone") is None


def test_a_batch_is_written_whole_or_not_at_all(memory):
    store = of_users(memory)
    store.put(("u", "ana"), "old", {"n": 0})
    for bad in (
        PutOp(("u", "bo"), "k", {"n": object()}),
        PutOp(("u.v", "bo"), "k", {}),
        PutOp((), "k", {}),
        PutOp(("langgraph", "bo"), "k", {}),
        PutOp(("u",), "k", {}),
        SearchOp(("u", "bo"), filter={"n": {"$like": 1}}),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - each its own, all of this kind
            store.batch([PutOp(("u", "ana"), "k", {"n": 1}), PutOp(("u", "ana"), "old", None), bad])
    assert keys(store.search(("u", "ana"))) == ["old"]


def test_namespaces_end_at_whole_labels(store):
    spaces = [("acme",), ("acme", "eu"), ("acme-corp",), ("acme/eu",), ("acme%",), ("Acme",), ("acme_",)]
    for n, space in enumerate(spaces):
        store.put(space, "k", {"text": "the door code", "n": n})
    below = {("acme",), ("acme", "eu")}
    assert {item.namespace for item in store.search(("acme",))} == below
    assert {item.namespace for item in store.search(("acme",), query="door code")} == below
    assert set(store.list_namespaces(prefix=("acme",))) == below
    assert store.list_namespaces(prefix=("*", "eu")) == [("acme", "eu")]
    assert store.list_namespaces(suffix=("acme",)) == [("acme",)]
    assert len(store.list_namespaces(max_depth=1)) == len(spaces) - 1
    assert store.list_namespaces()[2:4] == store.list_namespaces(limit=2, offset=2)
    many = (MatchCondition("prefix", ("acme",)), MatchCondition("prefix", ("*", "eu")))
    assert store.batch([ListNamespacesOp(many)]) == [[("acme", "eu")]]
    assert store.delete_namespace(("acme",)).total == 2
    assert not below & set(store.list_namespaces())
    assert len(store.list_namespaces()) == len(spaces) - 2


def test_users_are_read_from_the_namespace(memory):
    store = of_users(memory)
    for user in ("acme", "acme-corp"):
        store.put(("memories", user), "k", {"text": f"the door code of {user}"})
    for user in ("acme", "acme-corp"):
        found = store.search(("memories", user), query="door code")
        assert [item.value["text"] for item in found] == [f"the door code of {user}"]
        assert store.list_namespaces(prefix=("memories", user)) == [("memories", user)]
        assert [item.key for item in memory.items(user_id=user)] == ["k"]
    assert memory.items(user_id="ana") == []
    for reading in (
        lambda: store.search(("memories",)),
        store.list_namespaces,
        lambda: store.list_namespaces(prefix=("memories", "*")),
        lambda: store.delete_namespace(("memories",)),
    ):
        with pytest.raises(InvalidNamespaceError):
            reading()


VALUES: dict[str, dict[str, Any]] = {
    "ten": {"n": 10, "tags": ["a", "b"], "in": {"deep": {"x": 1}}, "flag": True},
    "text": {"n": "10", "tags": ["b", "a"], "in": {"deep": {"x": 2}}, "flag": 1},
    "null": {"n": None, "tags": [], "in": {"deep": None}},
    "none": {},
    "half": {"n": 9.5, "tags": "a", "in": "deep", "a-b": {"1c": "ok"}},
    "list": {"n": [10], "tags": {"a": 1}},
}
TABLE = read_tables(__file__)["filters, and which values they find"]
FILTERS = [(eval(asked), {*wanted.split()}) for asked, wanted in TABLE]


@pytest.mark.parametrize(("asked", "wanted"), FILTERS, ids=str)
def test_filters_compare_json_values(store, asked, wanted):
    for key, value in VALUES.items():
        store.put(("a",), key, {**value, "text": "door"})
    assert set(keys(store.search(("a",), filter=asked))) == wanted
    assert set(keys(store.search(("a",), query="door", filter=asked))) == wanted


@pytest.mark.parametrize("key", ["n') OR ('1'='1", 'n"', "n\\", "n`", "", "n\0", 7])
def test_a_filter_of_no_field_is_refused(store, key):
    store.put(("a",), "k", {"n": 1})
    refused(InputError, "Invalid filter key", store.search, ("a",), filter={key: 1})


def test_what_is_indexed_is_found(memory):
    with pytest.warns(UserWarning, match="own embedder"):
        store = JiyiStore(memory, index={"dims": 3, "embed": len, "fields": ["title", "parts[*].text"]})
    store.put(("a",), "fields", {"title": "zebra", "parts": [{"text": "lion"}], "body": "walrus"})
    store.put(("a",), "own", {"title": "zebra", "body": "walrus"}, index=["body"])
    store.put(("a",), "all", {"title": "zebra", "body": "walrus"}, index=["$"])
    store.put(("a",), "none", {"title": "zebra", "body": "walrus"}, index=False)
    memory.flush()

    def found(query: str) -> set[str]:
        return {item.key for item in store.search(("a",), query=query) if item.score > 0.6}

    assert found("zebra") == {"fields", "all"}
    assert found("lion") == {"fields"}
    assert found("walrus") == {"own", "all"}
    assert len(store.search(("a",))) == 4
    store.put(("a",), "fields", {"title": "heron"})
    memory.flush()
    assert found("lion") == set()
    assert found("heron") == {"fields"}


def test_what_is_found_says_how_sure_and_why(memory, store):
    store.put(("a",), "door", {"text": "蓝色门的密码是 7341。"})
    store.put(("a",), "trip", {"text": "我们周五去杭州。"})
    memory.flush()
    first, *others = store.search(("a",), query="蓝色门的密码是什么？")
    assert first.key == "door"
    assert first.relevance == pytest.approx(1 - first.nothing_relevant)
    assert all(other.score <= first.score for other in others)
    assert first.why
    assert store.search(("a",), query="蓝色门的密码", offset=1)[:1] == others[:1]
    alone = store.search(("a",), query="我们周五去杭州。")[0]
    assert alone.score == pytest.approx(1.0, abs=0.01), "the cosine of a text with itself"
    assert store.search(("a",), limit=0) == []


def test_without_a_query_the_last_changed_comes_first(open_memory, clock):
    store = JiyiStore(open_memory(clock=clock))
    for key in "abcde":
        store.put(("s",), key, {})
        clock.forward(seconds=1)
    store.put(("s",), "b", {"changed": True})
    assert keys(store.search(("s",))) == list("bedca")
    assert keys(store.search(("s",), limit=2, offset=1)) == list("ed")


@pytest.fixture
def clock():
    return ManualClock()


def test_items_end_with_their_time(open_memory, clock):
    memory = open_memory(clock=clock)
    store = JiyiStore(memory, ttl={"default_ttl": 10, "refresh_on_read": False})
    store.put(("a",), "default", {"text": "door"})
    store.put(("a",), "short", {"text": "door"}, ttl=1)
    store.put(("b",), "ever", {"text": "door"}, ttl=None)
    clock.forward(minutes=2)
    assert store.get(("a",), "short") is None
    assert {item.key for item in store.search(())} == {"default", "ever"}
    assert store.get(("a",), "default", refresh_ttl=True) is not None
    clock.forward(minutes=9)
    assert {item.key for item in store.search((), query="door", refresh_ttl=True)} == {"default", "ever"}
    clock.forward(minutes=9)
    assert store.get(("a",), "default") is not None, "refreshed by the search"
    clock.forward(minutes=2)
    assert store.get(("a",), "default") is None, "read without refreshing"
    assert store.list_namespaces() == [("b",)]
    assert store.sweep_ttl() == 2
    assert store.sweep_ttl() == 0


def test_a_thread_sweeps_for_all_users(open_memory, clock):
    memory = open_memory(clock=clock)
    store = JiyiStore(memory, user_from=lambda namespace: namespace[0], ttl={"sweep_interval_minutes": 1})
    for user in ("ana", "bo"):
        store.put((user,), "k", {}, ttl=1)
    clock.forward(minutes=2)
    store.start_ttl_sweeper(0.001)
    store.start_ttl_sweeper(0.001)
    wait_until(lambda: not any(memory.stats(user_id=user)["item"] for user in ("ana", "bo")))
    assert store.stop_ttl_sweeper(30)


async def test_calls_of_one_turn_of_the_loop_are_one_batch(memory):
    store = AsyncJiyiStore(memory)
    await asyncio.gather(*(store.aput(("a",), f"k{n % 7}", {"n": n}) for n in range(70)))
    found = await store.asearch(("a",), limit=100)
    assert {item.key: item.value["n"] for item in found} == {f"k{n}": n + 63 for n in range(7)}
    with pytest.raises(asyncio.InvalidStateError):
        store.get(("a",), "k0")
    assert (await asyncio.to_thread(store.get, ("a",), "k0")).value == {"n": 63}
    both = store.aget(("a",), "k0"), store.aget(("a.b",), "k0")
    one, other = await asyncio.gather(*both, return_exceptions=True)
    assert one.value == {"n": 63}
    assert isinstance(other, InvalidNamespaceError)
    asked = [store.aput(("a",), "bad", {"n": value}) for value in (object(), "\0")]
    asked += [store.asearch(("a",), filter={"n": {"$like": 1}}), store.aput(("a",), "k7", {"n": 70})]
    *bad, kept = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(error, InputError) for error in bad)
    assert kept is None
    assert (await store.aget(("a",), "k7")).value == {"n": 70}
    assert (await store.delete_namespace(("a",))).total == 8
    plain = JiyiStore(memory)
    await plain.aput(("a",), "k", {})
    assert keys(await plain.asearch(("a",))) == ["k"]


async def test_a_store_is_opened_by_a_path(tmp_path):
    options = {"embedder": HashEmbedder(), "background": False, "ttl": {"default_ttl": 1}}
    with JiyiStore.from_conn_string(str(tmp_path / "m.db"), **options) as store:
        store.setup()
        store.put(("a",), "k", {"n": 1})
        kept = store.get(("a",), "k")
    async with AsyncJiyiStore.from_conn_string(str(tmp_path / "m.db"), **options) as store:
        await store.setup()
        assert await store.aget(("a",), "k") == kept
        assert await store.sweep_ttl() == 0
    with jiyi.open(tmp_path / "m.db", user_id="langgraph", embedder=HashEmbedder()) as memory:
        item = memory.get_item(("a",), "k")
        assert item.expires_at >= item.updated_at + timedelta(minutes=1)
        assert [one.id for one in memory.forget(everything=True).items] == [item.id]


def test_it_is_the_same_on_postgresql(open_memory, postgres_url, clock):
    memory = open_memory(postgres_url, clock=clock)
    store = of_users(memory)
    for key, value in VALUES.items():
        store.put(("v", "acme"), key, {**value, "text": "蓝色门的密码"}, ttl=1 if key == "none" else None)
        store.put(("v", "acme-corp"), key, {"text": "another"})
    for asked, wanted in FILTERS:
        assert set(keys(store.search(("v", "acme"), filter=asked))) == wanted, asked
        assert set(keys(store.search(("v", "acme"), query="密码", filter=asked))) == wanted, asked
    with pytest.raises(ValueError, match="n"):
        store.batch([PutOp(("v", "acme"), "ten", None), PutOp(("v", "acme-corp"), "k", {"n": object()})])
    assert store.get(("v", "acme"), "ten") is not None
    clock.forward(minutes=2)
    assert store.get(("v", "acme"), "none") is None
    assert store.sweep_ttl() == 1
    assert store.delete_namespace(("v", "acme")).total == len(VALUES) - 1
    assert len(store.search(("v", "acme-corp"))) == len(VALUES)
