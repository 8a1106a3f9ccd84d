"""Items through the verbs: put, get, list, expire, forget, search."""

import json
from datetime import timedelta

import pytest
from refusing import raises, refused
from tables import read_tables

from jiyi.errors import BadQuery, Changed, InputError, NotFound

ANA = ("users", "ana")


def test_a_value_is_kept_and_its_former_ones_stay_in_its_history(memory, clock):
    first = memory.put_item(ANA, "prefs", {"theme": "dark", "size": {"w": 3}})
    assert (first.version, first.text) == (1, "dark")
    between = clock()
    clock.forward(minutes=1)
    second = memory.put_item(ANA, "prefs", {"theme": "light"})
    assert (second.version, second.id, second.created_at) == (2, first.id, first.created_at)
    assert memory.get_item(ANA, "prefs") == second
    assert memory.get(first.id) == second
    assert memory.get_item(ANA, "prefs", as_of=between) == first
    assert memory.get_item(ANA, "prefs", as_of=between - timedelta(seconds=1)) is None
    assert memory.item_history(ANA, "prefs") == [first]
    for n in range(12):
        memory.put_item(ANA, "prefs", {"n": n})
    assert [old.value for old in memory.item_history(ANA, "prefs")] == [{"n": n} for n in range(10, 0, -1)]


def test_whoever_read_an_older_version_overwrites_nothing(memory):
    memory.put_item(ANA, "prefs", {"n": 1}, if_version=0)
    refused(Changed, "has version 1, not version 0", memory.put_item, ANA, "prefs", {"n": 2}, if_version=0)
    memory.put_item(ANA, "prefs", {"n": 2}, if_version=1)
    with pytest.raises(Changed):
        memory.put_items([{"namespace": ANA, "key": k, "value": {}, "if_version": 1} for k in ("prefs", "x")])
    assert memory.get_item(ANA, "prefs").value == {"n": 2}
    assert memory.get_item(ANA, "x") is None


def test_of_one_batch_the_last_value_of_a_key_counts_and_it_names_no_other_user(memory):
    made = memory.put_items([{"namespace": "n", "key": k, "value": {"n": n}} for n, k in enumerate("aba")])
    told = [(item.key, item.value["n"], item.version) for item in made]
    assert told == [("a", 2, 1), ("b", 1, 1), ("a", 2, 1)]
    with pytest.raises(InputError, match="not namespace, key, value, user_id"):
        memory.put_items([{"namespace": "n", "key": "k", "value": {}, "user_id": "ben"}])


def test_several_items_are_read_at_once(memory, clock):
    for key in ("a", "b", "over"):
        memory.put_item(ANA, key, {"n": 1}, ttl=5 if key == "over" else None)
    memory.put_item(ANA, "b", {"n": 2})
    memory.put_item("elsewhere", "c", {})
    clock.forward(seconds=10)
    found = memory.get_items(ANA, ["b", "c", "over", "a", "b"])
    assert found == [memory.get_item(ANA, "b"), memory.get_item(ANA, "a")]
    assert memory.get_items(ANA, []) == memory.get_items(ANA, ["b"], user_id="ben") == []
    for keys in ("ab", ["a", ""], [7]):
        raises(InputError, memory.get_items, ANA, keys)


def test_namespaces_match_by_labels_and_cut_to_a_depth(memory):
    for labels in (("a", "x", "1"), ("a", "y", "1"), ("b", "x", "2"), ("a",)):
        memory.put_item(labels, "k", {})
    assert memory.namespaces() == [("a",), ("a", "x", "1"), ("a", "y", "1"), ("b", "x", "2")]
    assert memory.namespaces(("*", "x")) == [("a", "x", "1"), ("b", "x", "2")]
    assert memory.namespaces("a", suffix="1") == [("a", "x", "1"), ("a", "y", "1")]
    assert memory.namespaces(depth=1, limit=1) == [("a",)]
    assert memory.namespaces(suffix=("*", "2")) == [("b", "x", "2")]


def test_items_that_are_over_take_no_place_of_what_is_there(memory, clock):
    for n in range(30):
        memory.put_item("n", str(n), {"t": "garden tea"}, ttl=60)
    memory.remember("My favourite place for reading long novels is the garden.")
    clock.forward(seconds=61)
    assert [hit.kind for hit in memory.search("garden tea", kinds=["item", "fact"], limit=3)] == ["fact"]


def test_an_item_whose_time_is_over_is_found_no_more_and_then_swept(memory, clock):
    put = memory.put_item("n", "k", {"t": "tea in the garden"}, ttl=60)
    clock.forward(seconds=50)
    assert memory.get_item("n", "k", refresh=True).expires_at == clock() + timedelta(seconds=60)
    clock.forward(seconds=59)
    assert [hit.id for hit in memory.search("garden tea")] == [put.id]
    assert memory.maintain().gate.discarded == {}
    clock.forward(seconds=1)
    assert (list(memory.search("garden tea")), memory.item_history("n", "k")) == ([], [])
    assert memory.maintain().gate.discarded == {"item": {"its time is over": 1}}
    assert memory.stats()["item"] == 0


def test_values_are_filtered_by_ways_into_them(memory):
    memory.put_items(
        [
            {"namespace": "n", "key": "1", "value": {"a": {"b": 1, "c": [1]}, "since": "x"}},
            {"namespace": "n", "key": "2", "value": {"a": {"b": "1"}, "a.b": 7}},
            {"namespace": "n", "key": "3", "value": {"a": [{"b": 1}], "o'brien\" --": True}},
        ]
    )

    def keys(**filters):
        return sorted(item.key for item in memory.items(filters=filters))

    assert keys(**{"a.b": 1}) == ["1"]
    assert keys(**{"a.b": {"ne": 1}}) == ["2", "3"]
    assert keys(**{"a.b": "*"}) == ["1", "2"]
    assert keys(since="x") == ["1"]
    assert keys(**{"o'brien\" --": True}) == ["3"]
    assert keys(**{"or": [{"a.b": "1"}, {"since": {"exists": True}}]}) == ["1", "2"]
    assert keys(**{"a.b.c.d": {"exists": False}}) == ["1", "2", "3"]
    refused(BadQuery, "asks for nothing", memory.items, filters={"a": {}})


def test_search_finds_items_by_their_text_and_narrows_to_a_namespace(memory):
    memory.save_message("s", role="user", content="I like mountain tea")
    for place in ("acme", "acme-corp"):
        memory.put_item(("t", place), "note", {"about": "mountain tea", "place": {"of": "喝茶的地方"}})
    memory.put_item(("t", "acme"), "silent", {"about": "mountain tea"}, text="")
    assert {hit.kind for hit in memory.search("mountain tea")} >= {"message", "item"}
    (hit,) = memory.search("mountain tea", namespace=("t", "acme"))
    assert hit.record.path == "t/acme/note"
    (hit,) = memory.search("喝茶", kinds="item", namespace=("t", "acme-corp"))
    assert hit.record.path == "t/acme-corp/note"
    assert len(memory.search("tea", filters={"value.place.of": "喝茶的地方"})) == 2
    window = memory.build_context("s", "where is the mountain tea?", budget=1000)
    assert any("**t/acme/note**\n> mountain tea" in m["content"] for m in window.messages)


def test_what_is_forgotten_comes_back_and_what_is_purged_does_not(memory):
    kept = memory.put_item(("t", "acme-corp"), "k", {"n": 1})
    gone = memory.put_item(("t", "acme"), "k", {"n": 1})
    memory.put_item(("t", "acme"), "k", {"n": 2})
    deep = memory.put_item(("t", "acme", "deep"), "k", {}, session_id="s")
    assert memory.forget(namespace=("t", "acme"), dry_run=True).counts == {"item": 2}
    assert memory.forget(namespace=("t", "acme")).counts == {"item": 2}
    assert memory.items() == [kept]
    memory.restore([gone.id])
    assert memory.get_item(("t", "acme"), "k").value == {"n": 2}
    assert [old.value for old in memory.item_history(("t", "acme"), "k")] == [{"n": 1}]
    memory.restore([deep.id])
    assert memory.forget(session_id="s").counts == {"item": 1}
    memory.forget(namespace=("t", "acme"), purge=True)
    for one in (gone, deep):
        refused(NotFound, "not in the trash", memory.restore, [one.id])
    assert memory.forget(everything=True).counts == {"item": 1}
    refused(BadQuery, "namespace=", memory.forget, namespace=())


def test_agents_and_users_have_items_of_their_own(memory):
    own = memory.put_item("n", "k", {"of": "ana"})
    bot = memory.put_item("n", "k", {"of": "bot"}, agent_id="bot")
    assert own.id != bot.id
    assert memory.get_item("n", "k", agent_id="bot") == bot
    assert memory.get_item("n", "k") == own
    assert memory.items(agent_id="bot") == [bot]
    assert len(memory.items()) == 2
    assert memory.get_item("n", "k", user_id="ben") is None
    assert memory.items(user_id="ben") == []
    refused(NotFound, "nothing of 'ben'", memory.forget, ids=[own.id], user_id="ben")


REFUSED = [
    [*map(json.loads, row)]
    for row in read_tables(__file__)["namespace, key, value, more of what cannot be kept"]
]
TOO_MUCH = (
    [("a",) * 33, "k", {}, {}],
    [("a" * 2_000,), "k", {}, {}],
    [("a",), "k", {"x": "y" * 1_000_001}, {}],
)


@pytest.mark.parametrize(("namespace", "key", "value", "more"), [*REFUSED, *TOO_MUCH])
def test_what_cannot_be_kept_is_refused(memory, namespace, key, value, more):
    raises(InputError, memory.put_item, tuple(namespace), key, value, **more)
    with pytest.raises(InputError):
        memory.put_items([{"namespace": tuple(namespace), "key": key, "value": value, **more}])
    assert memory.stats()["item"] == 0


def test_a_pinned_item_stays_pinned_with_its_next_value(memory):
    item = memory.put_item("n", "k", {"n": 1})
    memory.pin(item.id)
    assert memory.put_item("n", "k", {"n": 2}).pinned
    assert memory.update(item.id, pinned=False).value == {"n": 2}
    assert not memory.get_item("n", "k").pinned
