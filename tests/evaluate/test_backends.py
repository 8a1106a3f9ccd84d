"""Evaluations on a file and on a server: the same figures, and nothing left behind."""

from pathlib import Path

import psycopg
import pytest

from jiyi.evaluate import evaluate, load_dataset, open_sqlite, opener_for, openers_for
from jiyi.testing import HashEmbedder

HERE = Path(__file__).parent
EN, ZH = HERE / "small-en.json", HERE / "small-zh.json"


def run(dataset, **options):
    return evaluate(dataset, **({"embedder": HashEmbedder()} | options)).runs


def test_the_backends_that_are_there(empty_postgres_url):
    assert opener_for("sqlite") == ("sqlite", open_sqlite)
    found = openers_for(["sqlite", empty_postgres_url, "sqlite", f"{empty_postgres_url}?application_name=b"])
    assert list(found) == ["sqlite", "postgresql", "postgresql 2"]


@pytest.mark.slow
def test_nothing_of_an_evaluation_stays_on_a_server(empty_postgres_url):
    dataset = load_dataset(EN)
    [_, opener] = opener_for(empty_postgres_url)
    for _ in range(2):  # the users that an evaluation leaves are no hindrance to the next
        [jiyi] = run(dataset, open=opener, backend="postgresql")
        assert jiyi.scores.metrics["recall@10"] == 1
        opener_for(empty_postgres_url)
    with psycopg.connect(empty_postgres_url) as server:
        server.execute("SET jiyi.every_tenant TO 'on'")
        for table in ("documents", "vectors", "pending", "sessions", "trash"):
            assert server.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table
        users = [name for (name,) in server.execute("SELECT tenant_id FROM owners")]
    assert len(set(users)) == 2 * len(dataset.conversations)
    assert all(name.startswith("jiyi-evaluate-") for name in users)


def test_a_broken_evaluation_leaves_nothing_on_a_server(empty_postgres_url):
    [_, opener] = opener_for(empty_postgres_url)

    def broken():
        with opener(HashEmbedder()) as memory:
            memory.save_message("s-1", role="user", content="Forget this.")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken()
    with psycopg.connect(empty_postgres_url) as server:
        server.execute("SET jiyi.every_tenant TO 'on'")
        assert server.execute("SELECT count(*) FROM documents").fetchone() == (0,)


@pytest.mark.slow
def test_backends_are_filled_with_the_same_and_embedded_once(empty_postgres_url):
    embedded = []

    class Counting(HashEmbedder):
        def embed(self, texts, kind):
            embedded.extend(texts)
            return super().embed(texts, kind)

    places = openers_for(["sqlite", empty_postgres_url])
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
