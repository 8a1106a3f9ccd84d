"""Evaluations on a file and on a server: the same figures."""

from contextlib import contextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex

import pytest

import jiyi
from jiyi.evaluate import evaluate, load_dataset, open_sqlite
from jiyi.testing import HashEmbedder

HERE = Path(__file__).parent
EN, ZH = HERE / "small-en.json", HERE / "small-zh.json"


def run(dataset, **options):
    return evaluate(dataset, **({"embedder": HashEmbedder()} | options)).runs


@contextmanager
def on_server(url, embedder):
    with jiyi.open(url, user_id=token_hex(8), embedder=embedder, background=False) as memory:
        yield memory


@pytest.mark.slow
def test_backends_are_filled_with_the_same_and_embedded_once(empty_postgres_url):
    embedded = []

    class Counting(HashEmbedder):
        def embed(self, texts, kind):
            embedded.extend(texts)
            return super().embed(texts, kind)

    places = {"sqlite": open_sqlite, "postgresql": partial(on_server, empty_postgres_url)}
    runs = run(load_dataset(EN), open=places, embedder=Counting(), budgets=[300], baselines=["bm25"])
    assert [(one.system, one.backend) for one in runs] == [
        ("jiyi", "sqlite"),
        ("jiyi", "postgresql"),
        ("bm25", None),
    ]
    assert len(embedded) == len(set(embedded))
    assert runs[0].ingest.seconds_vectors is not None
    assert runs[1].ingest.seconds_vectors is None  # they were there already
    assert runs[0].scores.metrics == runs[1].scores.metrics
    assert runs[0].evidence_in_context == runs[1].evidence_in_context
    assert 300 in runs[0].evidence_in_context
