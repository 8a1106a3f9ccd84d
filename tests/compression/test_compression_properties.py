"""What every compressor guarantees, on arbitrary mixtures of Chinese, English, code and JSON."""

import json
import re
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusing import refused
from tables import read_tables

from jiyi.compression import Compressor, Extract, PruneTokens, Relevance, ToolOutput
from jiyi.compression.sentences import protected_spans
from jiyi.errors import InputError
from jiyi.records import Message
from jiyi.text import counter_for

COUNT = counter_for().count_text
QUERY = "which port does edge-02 listen on 端口"

PROSE, CODE = (st.sampled_from(read_tables(__file__)[kind]) for kind in ("prose", "code"))
JSON = st.dictionaries(
    st.text("ab的 ", min_size=1, max_size=4), st.integers() | st.text(max_size=6), max_size=4
).map(lambda value: json.dumps(value, ensure_ascii=False))
ODD = st.text(max_size=40)
TEXTS = st.lists(PROSE | PROSE | CODE | JSON | ODD, max_size=8).map("\n".join)
GIVEN = TEXTS | st.lists(TEXTS, min_size=1, max_size=4).map(
    lambda texts: [
        Message(role=("user", "assistant")[n % 2], content=text, id=f"m{n}") for n, text in enumerate(texts)
    ]
)
LIMITS = st.none() | st.integers(1, 120)
MANY = settings(max_examples=150, deadline=None)


def whole(texts) -> str:
    return texts if isinstance(texts, str) else "\n".join(message.search_text for message in texts)


def check(made, texts, limit) -> None:
    before = COUNT(whole(texts))
    assert made.tokens_before == before
    assert made.tokens == COUNT(made.text) <= before
    if limit is not None:
        assert made.tokens <= limit
        if before <= limit:
            assert made.text == whole(texts)
    if not isinstance(texts, str):
        assert [one for one in [message.id for message in texts] if one in made.sources] == list(made.sources)


WAYS = {
    "prune to a fifth": PruneTokens(0.2),
    "prune to nine tenths": PruneTokens(0.9),
    "relevance": partial(Relevance(), query=QUERY),
    "extract": Extract(),
}


@pytest.mark.slow
@pytest.mark.parametrize("compress", WAYS.values(), ids=WAYS)
@MANY
@given(texts=GIVEN, limit=LIMITS)
def test_what_is_made_is_counted_within_its_limit_and_the_same_again(compress, texts, limit):
    made = compress(texts, max_tokens=limit)
    check(made, texts, limit)
    assert made.text == compress(texts, max_tokens=limit).text


@MANY
@given(texts=st.lists(PROSE | CODE | JSON, min_size=1, max_size=6, unique=True).map("\n".join))
def test_pruning_by_rate_keeps_protected_spans_in_order(texts):
    made = PruneTokens(0.4)(texts).text
    place = 0
    for start, end in protected_spans(texts):
        span = texts[start:end]
        if texts.count(span) > 1:  # a line that comes again may go
            continue
        found = made.find(span, place)
        assert found >= 0, span
        place = found


@MANY
@given(texts=st.lists(PROSE, min_size=2, max_size=6).map(" ".join), limit=st.integers(1, 60))
def test_pruned_words_are_words_of_the_text_in_order(texts, limit):
    made = PruneTokens()(texts, max_tokens=limit).text
    left = iter(re.findall(r"[A-Za-z]+|\d+", texts))
    assert all(word in left for word in re.findall(r"[A-Za-z]+|\d+", made))


@MANY
@given(text=TEXTS, limit=st.integers(1, 120))
def test_a_tool_output_is_counted_within_its_limit(text, limit):
    message = Message(role="tool", content=text, tool_call_id="c1", id="out-1")
    check(ToolOutput(max_tokens=limit)(message), text, limit)


@pytest.mark.parametrize(
    "text", ["", " ", "\n\n", "\0", "\ud83d", "a\u0301" * 50, "\u200b", "的" * 500], ids=ascii
)
def test_any_text_is_accepted(text):
    for compress in (*WAYS.values(), ToolOutput(max_tokens=5)):
        assert compress(text).tokens <= COUNT(text)


@pytest.mark.parametrize("compress", WAYS.values(), ids=WAYS)
def test_misuse_is_named(compress):
    assert isinstance(getattr(compress, "func", compress), Compressor)
    refused(InputError, "text, a message", compress, 42)
    refused(InputError, "max_tokens", compress, "text", max_tokens=0)
