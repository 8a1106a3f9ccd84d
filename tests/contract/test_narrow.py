"""What every backend promises about the parts of a query: each narrows, in every verb."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from samples import ANA, AWKWARD, BEN, START, by_words, episode, fact, knowledge, message, task
from taken_out import embed, find

from jiyi.records import SEARCHABLE, Query, Step, read_filter

ODD = """ "quoted" $.a\\u0000 渠道 🎉 'x' % :name {0} """
LABELS = {"channel": "slack", "n": 1, "ok": True, "none": None, "list": ["a"], ODD: ODD}
MAIL = {"metadata": {"channel": "mail", "inner": {"metadata": {"channel": "slack"}}}}
EVERY = (*SEARCHABLE, "task")
LATER = START + timedelta(seconds=10)
NARROW = {
    "ids": ({"ids": ("m",)}, "m"),
    "no ids": ({"ids": ()}, ""),
    "roles": ({"roles": ("user",)}, "m"),
    "since": ({"since": LATER}, "n f h u t.2"),
    "until": ({"until": LATER}, "m e g k t t.1 s"),
    "without": ({"without": ("m", "g", "t", "t.1", "s", "x")}, "n e f k h u t.2"),
    "pinned": ({"pinned": True}, "n f h"),
    "unpinned": ({"pinned": False}, "m e g k t u t.1 t.2 s"),
    "metadata": ({"where": read_filter({"metadata": {"channel": "slack"}})}, "m"),
    "two of the metadata": ({"where": read_filter({"metadata": {"ok": True, "n": 1.0}})}, "m"),
    "metadata that is null": ({"where": read_filter({"metadata": {"none": None}})}, "m"),
    "an odd key of metadata": ({"where": read_filter({"metadata": {ODD: ODD}})}, "m"),
    "other metadata": ({"where": read_filter({"metadata": {"channel": "mail"}})}, "n"),
    "one of two": ({"where": read_filter({"metadata": {"channel": "slack", "n": 2}})}, ""),
    "true is not one": ({"where": read_filter({"metadata": {"n": True}})}, ""),
    "one is not true": ({"where": read_filter({"metadata": {"ok": 1}})}, ""),
    "a number is no text": ({"where": read_filter({"metadata": {"n": "1"}})}, ""),
    "no such key": ({"where": read_filter({"metadata": {"none of these": None}})}, ""),
    "a list is no value": ({"where": read_filter({"metadata": {"list": "a"}})}, ""),
    "a field of its own": ({"where": read_filter({"subject": "w edge-02 网关"})}, "g"),
    "one of a task": ({"where": read_filter({"status": ["completed", "superseded"]})}, "h u"),
    "later": ({"where": read_filter({"created_at": {"gte": LATER}})}, "n f h u"),
    "task": ({"task_id": "t"}, "e t t.1"),
    "status": ({"status": "completed"}, "u t.2"),
    "after": ({"after_seq": 0}, "n"),
    "before": ({"before_seq": 1}, "m"),
    "a stretch": ({"stretches": (("s", 1, 9),)}, "n"),
    "two stretches": ({"stretches": (("s", 0, 0), ("x", 0, 9), ("s", 1, 1))}, "m n"),
    "a stretch of nothing": ({"stretches": (("half \ud800", 0, 9), ("s", 5, 9))}, ""),
    "no stretches": ({"stretches": ()}, ""),
    "target": ({"target": "The nginx container"}, "e"),
    "unknown target": ({"target": "nginx"}, ""),
    "no target": ({"target": ""}, "f"),
    "consolidated": ({"consolidated": True}, "f"),
    "not consolidated": ({"consolidated": False}, "e"),
    "entity as subject": ({"entity": "w EDGE-02 的网关"}, "g"),
    "entity as object": ({"entity": "Ana"}, "h"),
    "unknown entity": ({"entity": "edge-03"}, ""),
    "subject": ({"subject": "w edge-02 网关"}, "g"),
    "an object is no subject": ({"subject": "ana"}, ""),
    "predicate": ({"predicate": "listening port"}, "g"),
    "unknown predicate": ({"predicate": "version"}, ""),
    "held from when it was said": ({"as_of": START}, "g"),
    "held before it was said": ({"as_of": START - timedelta(days=1)}, "h"),
    "ended": ({"as_of": START + timedelta(days=1)}, ""),
    "a moment before its end": ({"as_of": START + timedelta(days=1, microseconds=-1)}, "g"),
    "active": ({"fact_status": ("active",)}, "g"),
    "not active": ({"fact_status": ("superseded", "retracted", "expired")}, "h"),
    "no status": ({"fact_status": ()}, ""),
    "sources": ({"sources": ("m", "x")}, "g"),
    "sources of both": ({"sources": ("n", "e")}, "g k"),
    "unknown source": ({"sources": ("x",)}, ""),
    "half a source": ({"sources": ("half \ud800",)}, ""),
    "no sources": ({"sources": ()}, ""),
    "two at once": ({"predicate": "port", "as_of": START, "sources": ("n",)}, "g"),
    "two that no kind has both": ({"target": "nginx 容器", "subject": "w edge-02 网关"}, ""),
}


def fill(store, user="ana"):
    scope = ANA if user == "ana" else BEN
    store.put(
        [
            message("w", id="m", user=user, extra={"metadata": LABELS}),
            message("w", id="n", at=10, role="assistant", pinned=True, user=user, extra=MAIL),
            episode("w", id="e", task_id="t", target="nginx 容器", user=user),
            episode("w", id="f", at=20, pinned=True, consolidated=True, user=user),
            knowledge("w", id="k", source_episodes=("e", "e"), user=user),
            fact("w edge-02 网关", id="g", sources=("m", "n"), valid_to=START + timedelta(days=1), user=user),
            fact(
                "w Ben",
                "likes",
                "Ana",
                id="h",
                at=20,
                valid_from=START - timedelta(days=2),
                valid_to=START - timedelta(days=1, microseconds=-1),
                status="superseded",
                pinned=True,
                user=user,
            ),
            task(id="t", user=user),
            replace(task(id="u", at=30, user=user), status="completed"),
            Step(scope=scope, task_id="t", id="t.1", description="x"),
            Step(scope=scope, task_id="u", id="t.2", description="x"),
        ]
    )


@pytest.mark.parametrize("part", NARROW)
def test_every_part_of_a_query_narrows_every_kind(store, vectors, part):
    """A part that a kind does not have must never mean "all of them": deletes use the same query."""
    fill(store, "ben")
    fill(store)
    embed(vectors)
    asked, names = NARROW[part]
    kinds, expected = (*EVERY, "step", "session"), {*names.split()}
    searchable, whole = {*"mnefkgh"}, {*"mnefkghtu"}
    assert {r.id for r in find(store, *kinds, **asked)} == expected
    counted = store.count(Query(scope=ANA, kinds=kinds, **asked))
    assert sum(counted[kind] for kind in kinds) == len(expected)
    assert {*by_words(store, Query(scope=ANA, text="w", limit=100, **asked))} == expected & searchable
    near = vectors.nearest(Query(scope=ANA, limit=100, **asked), np.ones(4, np.float32))
    assert {m.id for m in near} == expected & searchable
    gone = store.delete(Query(scope=ANA, kinds=EVERY, limit=100, **asked))
    assert sum(gone.values()) == len(expected & whole)
    assert {r.id for r in find(store, *EVERY)} == whole - expected
    assert {r.id for r in find(store, *EVERY, scope=BEN)} == whole


@pytest.mark.parametrize("name", AWKWARD)
def test_metadata_is_found_whatever_the_message_says(store, name):
    text = AWKWARD[name] + "\\u0000 \\\\ud83d"
    store.put([message(text, id=n, extra={"metadata": {"a": n, ODD: ODD}}) for n in ("m", "🎉")])
    store.put([message(text, id="x", extra={"metadata": "slack"}), message('"metadata":{"a":"m"}', id="y")])
    for n in ("m", "🎉"):
        assert [r.id for r in find(store, where=read_filter({"metadata": {"a": n, ODD: ODD}}))] == [n]


def test_a_retracted_fact_held_at_no_moment(store):
    store.put([fact(id=s, status=s) for s in ("active", "superseded", "retracted", "expired")])
    held = find(store, "fact", as_of=START)
    assert {f.id for f in held} == {"active", "superseded", "expired"}


def test_a_fact_is_found_under_every_form_of_its_names(store):
    store.put([fact("the nginx container", "端口", "8080", id="f"), fact("nginx", "port", "80", id="other")])
    for name in ("nginx 容器", "Nginx-Container", "nginx的容器", "our nginx containers"):
        assert [f.id for f in find(store, "fact", entity=name)] == ["f"], name
        assert [f.id for f in find(store, "fact", subject=name, predicate="Port")] == ["f"], name
    assert {f.id for f in find(store, "fact", predicate="监听端口")} <= {"f", "other"}


def test_what_a_record_rests_on_follows_each_put(store):
    store.put([fact(id="f", sources=("a", "b")), knowledge(id="f", source_episodes=("a",))])
    store.put([fact(id="f", sources=("b", "c"))])
    assert [type(r).__name__ for r in find(store, sources=("a",))] == ["Knowledge"]
    store.put([fact(id="f", object="9000", sources=("d",)), knowledge("other words", id="f")])
    assert find(store, sources=("a", "b", "c")) == []
    assert [r.object for r in find(store, sources=("d",))] == ["9000"]
    store.delete(Query(scope=ANA, kinds=("fact",)))
    assert find(store, sources=("d",)) == []
