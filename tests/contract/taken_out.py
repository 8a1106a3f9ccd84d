"""Short ways to take records out, to list them, and to see who stands beside whom."""

from contextlib import contextmanager

import numpy as np
import pytest
from samples import ANA, START, episode, fact, item, knowledge, message, task

from jiyi.records import SEARCHABLE, Query
from jiyi.storage import VectorRow

S = ANA.in_session("s")
KINDS = (*SEARCHABLE, "task")
SEARCHED = {"message": message, "episode": episode, "knowledge": knowledge, "fact": fact, "item": item}
MAKE = SEARCHED | {"task": task}


def ids(records):
    return [record.id for record in records]


def find(store, *kinds, scope=ANA, **parts):
    return store.find(Query(**({"scope": scope, "kinds": kinds or KINDS, "limit": 10_000} | parts)))


def pages(store, query):
    after = None
    while True:
        page = store.scan(query, after)
        yield page.records
        after = page.next
        if after is None:
            return


def discard(trash, *keys, scope=ANA, reason="asked to", at=START):
    return trash.discard(scope, keys, reason=reason, at=at)


def lying(trash, scope=ANA, **parts):
    return trash.discarded(Query(**({"scope": scope, "kinds": KINDS, "limit": 10_000} | parts)))


def embed(vectors):
    ones = np.ones((2, 4), np.float32)
    return vectors.add([VectorRow(key=p.key, vectors=ones) for p in vectors.pending(100, leased=False)])


def pending(store, scope=ANA):
    return store.count(Query(scope=scope))["vectors_pending"]


def cone(count, dims):
    """Vectors as embedding models give them: all in one narrow cone, in loose groups."""
    rng = np.random.default_rng(7)
    rows = 2 + rng.normal(size=(60, dims))[rng.integers(60, size=count)] + rng.normal(size=(count, dims))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16).astype(np.float32)


def neighbours(store, text):
    """Who stands before and after each message that search shows."""
    found = store.match(Query(scope=S, text=text, limit=100))
    names = [*(id_ for _, id_ in found.keys), None]
    pairs = zip(found.previous.tolist(), found.following.tolist(), strict=True)
    return {id_: (names[a], names[b]) for id_, (a, b) in zip(names, pairs, strict=False)}


def in_a_row(*names):
    return {b: (a, c) for a, b, c in zip([None, *names], names, [*names[1:], None], strict=False)}


class Undo(Exception):
    """Raised to take a transaction back."""


@contextmanager
def undone(store):
    """A transaction that fails in the end: nothing of it may be left."""
    with pytest.raises(Undo), store.transaction():  # noqa: PT012
        yield
        raise Undo
