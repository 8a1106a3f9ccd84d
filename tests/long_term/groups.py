"""Statements at random, for tests of what is computed from pairs of them."""

from dataclasses import fields

import numpy as np
from hypothesis import strategies as st
from tables import read_tables

from jiyi.long_term.recall.pairs import Statements, extract_features

SAID = [*read_tables(__file__)["said"], ""]


def group(seed, texts, *, vectors=True, dims=6):
    """Return statements with all else at random; without vectors all of them are zeros."""
    draw, count = np.random.default_rng(seed), len(texts)
    made = {}
    for name in ("vectors", "before"):
        some = draw.normal(size=(count, dims))
        made[name] = vectors * some / np.maximum(np.linalg.norm(some, axis=1, keepdims=True), 1e-9)
    return Statements(
        features=[extract_features(text) for text in texts],
        reply_to=draw.integers(-1, max(count, 1), count),
        after_assistant=draw.integers(0, 2, count).astype(float),
        after_question=draw.integers(0, 2, count).astype(float),
        at=draw.integers(0, 4, count) * 86_400 * 1_000_000,
        session=draw.integers(-1, 2, count),
        speaker=draw.integers(0, 2, count),
        role=draw.integers(0, 3, count),
        vector_count=int(draw.integers(1, 100)),
        **made,
    )


def reordered(some, order):
    """Return the same statements, the one that was at ``order[i]`` at place i."""
    place = np.full(len(order) + 1, -1)
    place[order] = np.arange(len(order))
    names = {field.name for field in fields(some) if field.init} - {"features", "vector_count"}
    moved = {name: np.asarray(getattr(some, name))[order] for name in names}
    moved["reply_to"] = place[moved["reply_to"]]
    return Statements(features=[some.features[old] for old in order], vector_count=some.vector_count, **moved)


texts = st.lists(st.sampled_from(SAID) | st.text(max_size=20), max_size=7)
seeds = st.integers(0, 2**32)
