"""How long texts are cut."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusing import refused

from jiyi.embeddings import split_parts
from jiyi.embeddings.e5.locate import model_file
from jiyi.embeddings.e5.tokenizer import Tokenizer
from jiyi.embeddings.e5.weights import Weights
from jiyi.errors import InputError

ENGLISH = "The deployment failed because the container ran out of memory. Nobody noticed until Friday!\n"
CHINESE = "服务器昨天晚上又出现了内存不足的问题，我们重启了容器之后恢复正常。谁来跟进？"
LOG = '10.3.27.91 - - [12/Nov/2025:10:31:07 +0000] "GET /api/v1/items/48211 HTTP/1.1" 502 1573 "-" "curl"\n'


def solid(text: str) -> str:
    return re.sub(r"\s", "", text)


@pytest.mark.parametrize("text", ["", " ", "\n\t\u3000 "])
def test_blank_text_has_no_parts(text):
    assert split_parts(text) == []


@pytest.mark.parametrize("text", ["a", "word " * 290, CHINESE * 14])
def test_a_text_of_about_one_part_is_one_part(text):
    assert split_parts(text) == [text.strip()]


@pytest.mark.parametrize(("text", "ends"), [(ENGLISH * 40, ".!"), (CHINESE * 60, "。？")])
def test_parts_end_with_sentences(text, ends):
    parts = split_parts(text)
    assert len(parts) > 2
    assert all(part[-1] in ends for part in parts)
    assert solid("".join(parts)) == solid(text)


def test_paragraphs_go_before_sentences_and_no_pause_or_scrap_hinders_a_cut():
    paragraphs = [f"{i} " + ENGLISH.strip() * 9 for i in range(5)]
    assert split_parts("\n\n".join(paragraphs)) == paragraphs
    parts = split_parts("x" * 5_000)
    assert "".join(parts) == "x" * 5_000
    assert max(map(len, parts)) <= 1_500
    for length in range(1_400, 4_000, 37):
        assert min(map(len, split_parts(("word " * 1_000)[:length]))) > 400


@pytest.mark.parametrize("text", [ENGLISH, CHINESE, LOG, "昨日の夜、メモリ不足で停止しました。", "🎉"])
def test_a_part_fits_the_models_window(text):
    tokenizer = Tokenizer(Weights(model_file()).vocabulary())
    assert max(len(tokenizer.ids(f"passage: {part}")) for part in split_parts(text * 150)) <= 510


def test_the_middle_of_a_very_long_text_is_left_out():
    words = [f"word{i}" for i in range(20_000)]
    parts = split_parts(" ".join(words), most=5)
    assert len(parts) == 5
    assert parts[0].startswith("word0 ")
    assert parts[-1].endswith("word19999")
    kept = " ".join(parts).split()
    head = next(i for i in range(len(kept)) if kept[i] != words[i])
    assert kept[:head] == words[:head]
    assert kept[head:] == words[-(len(kept) - head) :]
    assert " ".join(parts[:3]).split() == kept[:head]


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_few_parts_are_possible(most):
    parts = split_parts(ENGLISH * 200 + "the very end", most=most)
    assert len(parts) == most
    assert parts[0].startswith("The deployment")
    assert most == 1 or parts[-1].endswith("the very end")


@pytest.mark.parametrize("text", [ENGLISH, CHINESE, "x", "a" + " " * 999, "\n\n", "ab\n"])
def test_five_megabytes_are_quick(text):
    huge = text * (5_000_000 // len(text))
    started = time.process_time()
    parts = split_parts(huge)
    assert time.process_time() - started < 0.5
    assert len(parts) <= 8


def test_impossible_sizes_are_refused():
    for arguments in ({"size": 15}, {"most": 0}):
        refused(InputError, "size", split_parts, "text", **arguments)


texts = st.lists(
    st.sampled_from(["word ", "字", "。", ". ", "\n", "\n\n", " ", "x" * 30, "!?", "🎉", "A1-", " " * 50])
    | st.text(max_size=5),
    max_size=150,
).map("".join)


@settings(max_examples=80, deadline=None)
@given(text=texts, size=st.integers(16, 80), most=st.integers(1, 9))
def test_parts_are_pieces_in_order(text, size, most):
    parts = split_parts(text, size=size, most=most)
    assert len(parts) <= most
    place = 0
    for part in parts:
        assert part.strip()
        assert part == part.strip()
        assert len(part) <= 1.25 * size + 1
        found = text.find(part, place)
        assert found >= 0
        place = found + len(part)


@settings(max_examples=60, deadline=None)
@given(text=texts, size=st.integers(16, 80))
def test_all_parts_together_are_the_text(text, size):
    assert solid("".join(split_parts(text, size=size, most=10_000))) == solid(text)
