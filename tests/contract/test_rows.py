"""Rows of a snapshot stand for keys, in every vector index; see `jiyi.storage.VectorIndex.near`."""

import numpy as np
from samples import ANA, episode, message

from jiyi.records import Query, Scope
from jiyi.storage import VectorRow


def axis(*places):
    """Return a vector along each of these axes."""
    return np.eye(4, dtype=np.float32)[list(places)]


def test_rows_of_a_snapshot_stand_for_keys(store, vectors):
    store.put([message("long", id="x"), episode("short", id="x"), message("late", id="z")])
    store.put([message("left out", id="w"), message("waits", id="v")])
    by_text = {"long": axis(0, 1, 2), "late": axis(2), "left out": axis(1)}
    waiting = [one for one in vectors.pending(10, leased=False) if one.text != "waits"]
    vectors.add([VectorRow(key=one.key, vectors=by_text.get(one.text, axis(1))) for one in waiting])
    query, snapshot, asked = Query(scope=ANA, text="late", without=("w",)), store.snapshot("ana"), axis(1)[0]
    near = vectors.nearest_rows(query, asked, snapshot)
    keys = [match[:2] for match in vectors.nearest(query, asked)]
    assert snapshot.terms.keys(near) == keys
    assert sorted(keys) == [("episode", "x"), ("message", "x"), ("message", "z")]
    table = store.match(query, near, snapshot=snapshot)
    assert table.keys == store.match(query, keys).keys == tuple(snapshot.terms.keys(table.rows))
    for rows in (table.rows, near[::-1], near[:1]):
        parts, wanted = vectors.read_rows(snapshot, rows), vectors.read(ANA, snapshot.terms.keys(rows))
        np.testing.assert_array_equal(parts.rows, wanted.rows)
        np.testing.assert_array_equal(parts.vectors, wanted.vectors)
    assert len(vectors.read_rows(snapshot, near).rows) == 5, "a record has all its parts"


def test_who_has_nothing_has_no_rows(store, vectors):
    store.put([message("theirs", id="a")])
    nobody = store.snapshot("cy")
    near = vectors.nearest_rows(Query(scope=Scope(user_id="cy")), axis(0)[0], nobody)
    assert len(near) == len(vectors.read_rows(nobody, near).rows) == 0
