"""What every backend promises about the parts of a query: each narrows, in every verb."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from samples import ANA, AWKWARD, BEN, START, by_words, episode, fact, knowledge, message, task
from tables import read_tables
from taken_out import embed, find

from jiyi.records import SEARCHABLE, Query, Scope, Step, read_filter

ODD = """ "quoted" $.a\\u0000 渠道 🎉 'x' % :name {0} """
LABELS = {"channel": "slack", "n": 1, "ok": True, "none": None, "list": ["a"], ODD: ODD}
MAIL = {"metadata": {"channel": "mail", "inner": {"metadata": {"channel": "slack"}}}}
EVERY = (*SEARCHABLE, "task")
LATER = START + timedelta(seconds=10)
NARROW = {
    name: (eval(asked), names)
    for name, asked, names in read_tables(__file__)["parts of a query, and which records they leave"]
}


def fill(store, user="ana"):
    own, day = {"user": user}, timedelta(days=1)
    gone = {"valid_from": START - 2 * day, "valid_to": START - day + timedelta(microseconds=1)}
    records = [
        message("w", id="m", extra={"metadata": LABELS}, **own),
        message("w", id="n", at=10, role="assistant", pinned=True, extra=MAIL, **own),
        episode("w", id="e", task_id="t", target="nginx 容器", **own),
        episode("w", id="f", at=20, pinned=True, consolidated=True, **own),
        knowledge("w", id="k", source_episodes=("e", "e"), **own),
        fact("w edge-02 网关", id="g", sources=("m", "n"), valid_to=START + day, **own),
        fact("w Ben", "likes", "Ana", id="h", at=20, status="superseded", pinned=True, **gone, **own),
        task(id="t", **own),
        replace(task(id="u", at=30, **own), status="completed"),
    ]
    places = (("t", "t.1"), ("u", "t.2"))
    steps = [Step(scope=Scope(user_id=user), task_id=job, id=id_, description="x") for job, id_ in places]
    store.put(records + steps)


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
