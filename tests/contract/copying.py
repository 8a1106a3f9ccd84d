"""Memories to copy: opened by the protocols, filled with everything there is, and looked at whole."""

from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import numpy as np
from samples import START, episode, fact, item, knowledge, message, summary, task

from jiyi.long_term import Indexer
from jiyi.records import SEARCHABLE, Query, Scope, Step
from jiyi.settings import load_settings
from jiyi.storage.backend import Backend, open_backend
from jiyi.storage.place import locate
from jiyi.testing import HashEmbedder

LISTED = (*SEARCHABLE, "task", "session", "summary")
MANY = 10_000


def opened(place) -> Backend:
    return open_backend(locate(place), load_settings())


@contextmanager
def both_ends(source, target):
    here = opened(source)
    try:
        there = opened(target)
        try:
            yield here, there
        finally:
            there.database.close()
    finally:
        here.database.close()


def embed(side, embedder=None):
    return Indexer(side.vectors, embedder or HashEmbedder()).flush()


def whole(side):
    """Everything an end holds: the users, their records and trash, their vectors, and what waits for one."""
    held = {user: whole_of(side, user) for user in side.database.users()}
    return {user: parts for user, parts in held.items() if any(parts.values())}


def whole_of(side, user):
    scope = Scope(user_id=user)
    out = {
        kind: sorted(side.store.find(Query(scope=scope, kinds=(kind,), limit=MANY)), key=lambda r: r.id)
        for kind in LISTED
    }
    trash = side.trash.discarded(Query(scope=scope, kinds=(*SEARCHABLE, "task"), limit=MANY))
    keys = [(kind, record.id) for kind in SEARCHABLE for record in out[kind]]
    parts = side.vectors.read(scope, keys, exact=True)
    order = np.argsort(parts.rows, kind="stable")
    return out | {
        "trash": sorted(trash, key=lambda e: (e.kind, e.record.id)),
        "rows": parts.rows[order].tolist(),
        "vectors": parts.vectors[order].tolist(),
        "pending": side.store.count(Query(scope=scope))["vectors_pending"],
    }


FORMER = ({"version": 1, "value": {"a": "b"}, "text": "b", "updated_at": START.isoformat()},)


def found(side, query_text, user="ana"):
    """What a search by words and by vectors finds."""
    scope = Scope(user_id=user)
    vector = HashEmbedder().embed([query_text], "query")[0]
    by_words = side.store.match(Query(scope=scope, text=query_text, limit=50))
    by_vector = side.vectors.nearest(Query(scope=scope, limit=50), vector)
    words = sorted(zip(by_words.keys, by_words.text.tolist(), strict=True))
    return words, sorted((m.kind, m.id, round(m.score, 5)) for m in by_vector)


def fill(side, user="ana", messages=30, embedder=None):
    """Two sessions and something of every kind; forgotten, purged, folded, given again, pending."""
    scope = Scope(user_id=user)
    own, said = {"user": user}, []
    for i in range(messages):
        text = f"消息 {i} about disks" if i % 3 else "x" * 700 + f" {i}"
        where = {"session": f"s{i % 2}", "agent": "ops" if i % 5 == 0 else None}
        counted = {"tokens": i, "tokens_by": "counted"}
        said.append(message(text, at=i, id=f"m{i}", pinned=i % 7 == 0, **where, **counted, **own))
    side.store.put(said)
    job = task("清理磁盘", id="job", user=user)
    steps = [Step(scope=job.scope, task_id="job", id=f"step{n}", description="d") for n in "ab"]
    side.store.put([job, *steps])
    side.store.put([task("gone", id="gone", user=user, at=1)])
    side.store.put([Step(scope=job.scope, task_id="gone", id="its step", description="d")])
    past = [episode(id=f"e{n}", at=n, consolidated=n == 1, importance=n / 4, **own) for n in range(3)]
    side.store.put(past)
    side.store.put([knowledge(id="k", user=user, source_episodes=("e0", "e1"), confidence=0.5)])
    side.store.put([fact("redis", "port", str(n), id=f"f{n}", user=user, at=n) for n in range(2)])
    kept = item("mountain tea", user=user, former=FORMER, ttl=60.5, at=3)
    side.store.put([kept, item("disks", user=user, key="gone")])
    first = summary(covers=("m0", "m2"), upto=1, scope=Scope(user_id=user, session_id="s0"), id="v1")
    side.store.put([first])
    side.store.put([summary(first, covers=("m4",), upto=2, user=user, at=9, id="v2")])
    own = Scope(user_id=user, session_id="s0", agent_id="ops")
    side.store.put([summary(covers=("m0",), upto=0, user=user, scope=own, id="own")])
    embed(side, embedder)
    newest = [f"m{messages - 1}", f"m{messages - 2}"]  # the last of each session, and one in the middle
    forgotten = [("message", id_) for id_ in (*newest, "m3")]
    its_place = replace(kept, key="gone", id="").id
    keys = [*forgotten, ("task", "gone"), ("episode", "e2"), ("fact", "f0"), ("item", its_place)]
    side.trash.discard(scope, keys, reason="asked for", at=START + timedelta(days=1))
    side.trash.erase(scope, keys=[("message", newest[0])])
    side.store.put([message("said again", session="s1", at=messages + 1, id="m3", user=user)])  # its id again
    side.store.put([replace(fact("redis", "port", "7000", id="f0", user=user), confidence=0.3)])
    side.store.put([message("pending", session="s3", at=messages + 2, id="late", user=user)])
