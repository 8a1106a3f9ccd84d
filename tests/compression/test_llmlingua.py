"""LLMLingua-2 on tiny models with random weights, made here: its form, not its wisdom."""

import importlib.util
import random
from pathlib import Path

import pytest
from refusing import refused

from jiyi.compression import Compressor, LLMLingua
from jiyi.errors import InputError, MissingExtra, SettingsError
from jiyi.records import Message
from jiyi.text import counter_for

COUNT = counter_for().count_text
INSTALLED = importlib.util.find_spec("llmlingua") is not None
needs_it = pytest.mark.skipif(not INSTALLED, reason="needs PyTorch: pip install torch 'jiyi[llmlingua]'")

TALK = "the disk of db-west-02 is full again and nginx gives 502 since monday please have a look"
TALK_ZH = "数据库的磁盘又满了，nginx 从周一开始返回 502，麻烦看一下"
TINY = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
WORDS = sorted(
    {
        *TALK.split(),
        *["the", "a", "of", "nginx", "502", "db", "west", "02", "-", ",", "."],
        *TALK_ZH.replace(" ", ""),
    }
)


@pytest.mark.skipif(INSTALLED, reason="llmlingua is installed")
def test_without_the_package_it_names_the_line_to_run():
    refused(MissingExtra, r'pip install "jiyi\[llmlingua\]"', LLMLingua, "somewhere")


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A multilingual BERT of two layers."""
    return saved_bert(tmp_path_factory.mktemp("models") / "tiny-bert", labels=2)


def saved_bert(folder: Path, labels: int) -> Path:
    import torch
    from transformers import BertConfig, BertForTokenClassification, BertTokenizerFast

    folder.mkdir()
    vocabulary = folder / "vocab.txt"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    vocabulary.write_text("\n".join(words) + "\n", "utf-8")
    torch.manual_seed(0)
    config = BertConfig(
        **TINY, vocab_size=len(words), max_position_embeddings=64, num_labels=labels, initializer_range=1.0
    )
    BertForTokenClassification(config).save_pretrained(folder)
    BertTokenizerFast(vocab=str(vocabulary), do_lower_case=False, model_max_length=64).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def xlmr(tmp_path_factory):
    """An XLM-RoBERTa of two layers with a unigram vocabulary."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaForTokenClassification

    folder = tmp_path_factory.mktemp("models") / "tiny-xlmr"
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    pieces = [*special, *(f"▁{word}" for word in WORDS), *WORDS, "▁"]
    vocabulary = [(piece, -float(n + 1) / 10) for n, piece in enumerate(dict.fromkeys(pieces))]
    made = Tokenizer(models.Unigram(vocabulary, unk_id=3))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    names = dict(
        zip(("bos_token", "pad_token", "eos_token", "unk_token", "mask_token"), special, strict=True)
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, cls_token="<s>", sep_token="</s>", model_max_length=64, **names
    )
    torch.manual_seed(0)
    config = XLMRobertaConfig(
        vocab_size=len(vocabulary),
        **TINY,
        max_position_embeddings=66,
        num_labels=2,
        pad_token_id=1,
        initializer_range=1.0,
    )
    XLMRobertaForTokenClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@needs_it
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
class TestWithTheLibrary:
    @pytest.fixture(params=["bert", "xlmr"])
    def folder(self, request):
        return request.getfixturevalue(request.param)

    @pytest.mark.parametrize("text", [TALK, TALK_ZH], ids=["en", "zh"])
    def test_words_are_dropped_and_none_is_chopped(self, folder, text, no_network):
        made = LLMLingua(folder, 0.5)(text)
        assert made.method == "llmlingua"
        assert made.tokens == COUNT(made.text) < made.tokens_before
        assert made.text
        assert set(made.text) <= set(text)
        if text == TALK:
            assert set(made.text.replace(" - ", "-").split()) <= {
                *text.split(),
                *["db", "west", "02", "-", "502"],
            }
        assert no_network == []

    def test_it_is_a_compressor_and_deterministic(self, folder):
        assert isinstance(LLMLingua(folder), Compressor)
        assert LLMLingua(folder)(TALK).text == LLMLingua(folder)(TALK).text

    def test_the_limit_holds(self, folder):
        for limit in (1, 4, 10):
            assert LLMLingua(folder)(TALK, max_tokens=limit).tokens <= limit
        assert LLMLingua(folder)(TALK, max_tokens=1_000).text == TALK

    def test_forced_tokens_stay(self, folder):
        made = LLMLingua(folder, 0.4, ["please", "disk"])(TALK)
        assert "please" in made.text.split()
        assert "disk" in made.text.split()

    def test_lines_and_sources_stay_in_order(self, folder):
        messages = [
            Message(role="user", content=TALK, id="a"),
            Message(role="user", content="the disk", id="b"),
        ]
        made = LLMLingua(folder, 0.6)(messages)
        assert list(made.sources) == sorted(made.sources)
        assert made.sources[0] == "a"

    def test_loading_leaves_the_dice_alone(self, folder):
        random.seed(5)
        expected = random.Random(5).random()
        LLMLingua(folder)(TALK)
        assert random.random() == expected

    @pytest.mark.parametrize(
        "text", ["", " \n", "\0 a b c d", "端口" * 200, "word " * 500, "a\n\n\nb c d e f"], ids=ascii
    )
    def test_any_text_is_accepted(self, folder, text):
        assert LLMLingua(folder)(text).tokens <= COUNT(text)

    def test_nothing_is_downloaded(self, tmp_path, no_network):
        for source in ("nobody/no-such-model", str(tmp_path)):
            refused(SettingsError, "hf download", LLMLingua(source), TALK)
        assert no_network == []

    def test_another_kind_of_model_is_refused(self, tmp_path):
        refused(SettingsError, "3 labels", LLMLingua(saved_bert(tmp_path / "three", labels=3)), TALK)

    def test_misuse_is_named(self, folder):
        refused(InputError, "rate=", LLMLingua, folder, 0)
        refused(InputError, "at most 100", LLMLingua, folder, force_tokens=[str(n) for n in range(101)])
        refused(SettingsError, "model must name", LLMLingua, " ")
        refused(InputError, "max_tokens", LLMLingua(folder), TALK, max_tokens=0)
