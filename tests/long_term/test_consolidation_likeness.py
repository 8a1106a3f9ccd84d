"""Episodes without a target: which of them belong together."""

import random
import time

import numpy as np
import pytest
from consolidation_tools import themed
from tables import read_tables

from jiyi.long_term.consolidation.clusters import TextSimilarity, cluster_texts
from jiyi.one_thread import one_blas_thread


def grouped(texts, vectors=None, at_least=3, leaders=()):
    rest = [place for place in range(len(texts)) if place not in leaders]
    return cluster_texts(TextSimilarity(texts, vectors), leaders, rest, at_least)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_themes_are_told_apart_with_the_bundled_model(model, language):
    episodes, theme = themed(language)
    texts = [one.search_text for one in episodes]
    found = grouped(texts, model.embed(texts, "passage"))
    groups = [[theme[episodes[place].id] for place in members] for members in found.values()]
    assert len(groups) >= 5
    assert sum(map(len, groups)) >= 16
    assert sum(len(group) - max(map(group.count, group)) for group in groups) <= 1, groups


@pytest.mark.parametrize("language", ["en", "zh"])
def test_words_alone_find_fewer_but_no_wrong_ones(language):
    episodes, theme = themed(language)
    for members in grouped([one.search_text for one in episodes]).values():
        assert len({theme[episodes[place].id] for place in members}) == 1


@pytest.mark.parametrize("texts", read_tables(__file__)["alike"])
def test_a_few_texts_alone_meet_by_their_words(texts):
    assert list(grouped(list(texts)).values()) == [[0, 1, 2]]
    assert list(grouped([*texts, "order a pizza for Friday"]).values()) == [[0, 1, 2]]


def test_nothing_is_found_in_nothing():
    assert (grouped([]), grouped(["", " ", "!!!"])) == ({}, {})
    assert grouped(["alone"], np.zeros((1, 4), np.float32)) == {}
    assert grouped(["a b"] * 30, np.zeros((30, 0), np.float32))


def test_later_ones_join_the_leader_there_is():
    texts = ["the backup failed", "backup failed again", "a lamp broke", "the backup failed twice"]
    assert grouped(texts, leaders=[0]) == {0: [1, 3]}


def test_grouping_again_what_is_left_finds_nothing():
    words = [f"w{n}" for n in range(40)]
    for seed in range(30):
        rng = random.Random(seed)
        texts = [" ".join(rng.sample(words, 5)) for _ in range(60)]
        vectors = np.random.default_rng(seed).standard_normal((60, 8)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        likeness = TextSimilarity(texts, vectors)
        found = cluster_texts(likeness, [], range(60), 3)
        assert found
        taken = {place for members in found.values() for place in members}
        left = [place for place in range(60) if place not in taken]
        assert cluster_texts(likeness, list(found), left, 3) == {}


def test_every_member_is_like_its_leader_and_in_one_group():
    episodes, _ = themed("en")
    likeness = TextSimilarity([one.search_text for one in episodes])
    found = cluster_texts(likeness, [], range(len(episodes)), 2)
    members = [place for group in found.values() for place in group]
    assert len(members) == len(set(members))
    for leader, group in found.items():
        assert group[0] == leader
        assert (likeness.similarities(leader)[group] >= 1).all()


@pytest.mark.slow
def test_two_thousand_texts_take_seconds():
    rng = random.Random(1)
    texts = [" ".join(f"w{rng.randrange(5_000)}" for _ in range(20)) for _ in range(2_000)]
    vectors = np.random.default_rng(1).standard_normal((2_000, 384)).astype(np.float32)
    began = time.process_time()
    with one_blas_thread():
        grouped(texts, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    assert time.process_time() - began < 30
