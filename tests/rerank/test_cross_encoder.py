"""The cross-encoder on a tiny model with random weights, made here: its form, not its wisdom."""

from pathlib import Path

import pytest
from at_once import at_once
from refusing import refused

from jiyi.errors import InputError, RerankError, SettingsError
from jiyi.rerank import CrossEncoderReranker, Reranker, rerank

pytest.importorskip("sentence_transformers", reason="needs PyTorch: pip install torch 'jiyi[cross-encoder]'")

WORDS = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "nginx", "disk", "full", "the", "is", "port", "满", "磁",
    "盘",
]  # fmt: skip


def saved(folder: Path, labels: int) -> Path:
    """Make a BERT of two layers and save it as a model for cross-encoders."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    folder.mkdir()
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(WORDS) + "\n", "utf-8")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        num_labels=labels,
        initializer_range=1.0,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizerFast(vocab=str(vocabulary), model_max_length=64).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("models") / "tiny", labels=1)


def test_scores_are_one_per_text_and_depend_on_both(folder, no_network):
    reranker = CrossEncoderReranker(folder)
    texts = ["the disk is full", "nginx port", "磁盘满", "the disk is full"]
    scores = reranker.score("disk full", texts)
    assert isinstance(reranker, Reranker)
    assert reranker.name == "cross-encoder:tiny"
    assert [type(score) for score in scores] == [float] * 4
    assert scores[0] == pytest.approx(scores[3], abs=1e-6)
    assert len({round(score, 4) for score in scores}) == 3
    assert reranker.score("nginx", texts)[0] != pytest.approx(scores[0], abs=1e-4)
    assert reranker.score("q", []) == []
    assert no_network == []


def test_batches_do_not_change_scores_and_misuse_is_named(folder):
    texts = ["nginx " * n for n in range(1, 8)]
    one, many = (CrossEncoderReranker(folder, batch_size=n).score("port", texts) for n in (1, 16))
    assert one == pytest.approx(many, abs=1e-5)
    refused(InputError, "list of texts", CrossEncoderReranker(folder).score, "q", "one string")
    for options in ({"batch_size": 0}, {"max_length": 0}):
        refused(SettingsError, "at least 1", CrossEncoderReranker, folder, **options)
    refused(SettingsError, "name a model", CrossEncoderReranker, " ")


def test_any_text_is_accepted_and_long_ones_are_cut(folder):
    reranker = CrossEncoderReranker(folder, "cpu", max_length=16)
    odd = ["", " \n", "a\0b", "\ud83d x", "disk " * 100_000, "disk " * 50_000]
    scores = reranker.score("nginx " * 10_000, odd)
    assert len(scores) == len(odd)
    assert scores[4] == pytest.approx(scores[5], abs=1e-6), "both begin alike"
    wide = CrossEncoderReranker(folder, max_length=10_000)  # the model's own window is smaller
    assert len(wide.score("nginx", ["disk " * 100_000])) == 1


def test_several_threads_get_what_one_gets(folder):
    reranker = CrossEncoderReranker(folder)
    lists = [["disk " * n, "nginx"] for n in range(1, 7)]
    expected = [reranker.score("port", texts) for texts in lists]
    together = at_once(lambda texts: reranker.score("port", texts), lists)
    for got, scores in zip(together, expected, strict=True):
        assert got == pytest.approx(scores, abs=1e-5)


def test_nothing_is_downloaded_and_a_model_with_several_scores_is_refused(folder, tmp_path, no_network):
    for source in ("nobody/no-such-model", "no-such-model", str(tmp_path / "nowhere"), str(tmp_path)):
        refused(RerankError, "failed", CrossEncoderReranker(source).score, "q", ["a"])
    assert no_network == []
    model = saved(tmp_path / "three", labels=3)
    refused(RerankError, "cross-encoder:three failed", CrossEncoderReranker(model).score, "q", ["a"])
    assert "cross-encoder:three failed" in rerank(CrossEncoderReranker(model), "q", ["a"], time_limit=60).note
