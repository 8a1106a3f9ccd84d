import base64
import json
import time
from pathlib import Path

import pytest
from at_once import at_once
from hypothesis import given
from hypothesis import strategies as st
from refusing import raises, refused
from tables import literals, read_tables

from jiyi.errors import InputError
from jiyi.records import Message
from jiyi.text import TokenCounter, counter_for
from jiyi.text.tokens import ENCODINGS

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))  # lone surrogates included
COUNTERS = [*(TokenCounter(encoding=name) for name in ENCODINGS), counter_for("deepseek-chat")]

# The conversation OpenAI's cookbook ("How to count tokens with tiktoken", MIT) counts with its API.
COOKBOOK = json.loads(Path(__file__).with_name("cookbook.json").read_text("utf-8"))
TABLES = read_tables(__file__)
GPT_4O = counter_for("gpt-4o")


def said(content, role="user", **fields):
    return Message.from_openai({"role": role, "content": content, **fields})


@pytest.mark.parametrize(("text", "cl100k", "o200k"), literals(TABLES["counts published in the cookbook"]))
def test_counts_published_in_the_cookbook(text, cl100k, o200k):
    assert counter_for("cl100k_base").count_text(text) == cl100k
    assert counter_for("o200k_base").count_text(text) == o200k


@pytest.mark.parametrize(("model", "tokens"), [("gpt-4", 129), ("gpt-3.5-turbo", 129), ("gpt-4o", 124)])
def test_conversation_counts_what_the_api_counted(model, tokens):
    messages = [Message.from_openai(message) for message in COOKBOOK["conversation"]]
    assert counter_for(model).count_all(messages) == tokens


@pytest.mark.parametrize(("model", "tokens"), [("gpt-4", 105), ("gpt-4o", 101), ("gpt-4o-mini", 101)])
def test_tools_count_what_the_api_counted(model, tokens):
    counter = counter_for(model)
    messages = [
        said("You are a helpful assistant that can answer to questions about the weather.", "system"),
        said("What's the weather like in San Francisco?"),
    ]
    assert counter.count_all(messages) + counter.count_tools([COOKBOOK["tool"]]) == tokens


@pytest.mark.parametrize(("pairs", "tokens"), [(1, 40), (2, 89), (3, 114)])
def test_tool_calls_count_what_the_api_counted(pairs, tokens):
    call = {"id": "a", "type": "function", "function": {"name": "calculator", "arguments": '{"a":2, "b":2}'}}
    messages = [
        said([{"type": "text", "text": "How much is 2 plus 2?"}]),
        Message.from_openai({"role": "assistant", "tool_calls": [call] * pairs}),
        *[said("4", "tool", tool_call_id="a")] * pairs,
    ]
    assert counter_for("gpt-3.5-turbo").count_all(messages) == tokens


def test_tool_result_under_a_name_is_not_undercounted():
    function = {"name": "get_current_weather", "arguments": '{\n  "location": "Boston, MA"\n}'}
    call = {"id": "c", "type": "function", "function": function}
    messages = [
        Message.from_openai({"role": "assistant", "content": None, "tool_calls": [call]}),
        said("29 degree celcius", "tool", tool_call_id="c", name="get_current_weather"),
    ]
    assert 35 <= counter_for("gpt-4").count_all(messages) <= 38  # the API said 35


@pytest.mark.parametrize("tool", [COOKBOOK["tool"]["function"], {"type": "function"}, {"name": "x"}])
@pytest.mark.parametrize("counter", COUNTERS, ids=lambda c: c.name)
def test_tools_of_any_shape_count_and_more_tools_count_more(counter, tool):
    assert counter.count_tools([]) == 0
    assert 0 < counter.count_tools([tool]) < counter.count_tools([tool, COOKBOOK["tool"]])


def test_nested_schemas_are_not_free():
    items = {"type": "object", "properties": {"host": {"type": "string", "description": "Where " * 50}}}

    def cost(**more):
        schema = {"type": "object", "properties": {"list": {"type": "array", **more}}}
        return GPT_4O.count_tools([{"type": "function", "function": {"name": "f", "parameters": schema}}])

    assert cost(items=items) > cost() + 50


@pytest.mark.parametrize(("model", "name"), TABLES["models and their encodings"])
def test_known_models_are_exact(model, name):
    counter = counter_for(model)
    assert (counter.name, counter.exact) == (name, True)


@pytest.mark.parametrize(
    "model", ["deepseek-chat", "anthropic/claude-sonnet-4", "glm-4.6", "llama3:8b", "qwen2.5-7b", "o1labs-x"]
)
def test_other_models_are_estimates_that_know_it(model):
    counter = counter_for(model)
    assert not counter.exact
    assert counter.name.startswith("estimate:")
    assert counter_for(counter.name) == counter


def test_estimate_does_not_undercount_a_vocabulary_it_was_not_made_from():
    true, estimate = counter_for("qwen3.5"), counter_for("deepseek-chat")
    for text in [text * 5 for text in literals(TABLES["texts of several kinds"])]:
        assert true.count_text(text) <= estimate.count_text(text) <= 2 * true.count_text(text)


def test_claude_counts_higher_than_gpt_and_special_tokens_and_surrogates_are_text():
    text = "The server was restarted. 服务器已经重启。"
    assert counter_for("claude-opus-4").count_text(text) > counter_for("gpt-4").count_text(text)
    assert counter_for("gpt-4o").count_text("<|endoftext|>") > 1
    assert GPT_4O.count_text("a\ud800b") == GPT_4O.count_text("a\ufffdb")


@pytest.mark.parametrize("model", ["", "  "])
def test_empty_model_is_refused(model):
    refused(InputError, "model is empty", counter_for, model)


@pytest.mark.parametrize("fields", [{"encoding": "gpt2"}, {"factor": 0.0}, {"factor": float("nan")}])
def test_impossible_counters_are_refused(fields):
    raises(InputError, TokenCounter, **fields)


def test_a_message_is_counted_once_by_the_same_counter_only():
    message = said("上次 502 是怎么修好的？")
    gpt4o, gpt4 = counter_for("gpt-4o"), counter_for("gpt-4")
    counted = gpt4o.counted(message)
    assert (counted.tokens, counted.tokens_by) == (gpt4o.count(message), "o200k_base")
    assert gpt4o.counted(counted) is counted
    stale = gpt4o.counted(message).__class__.from_openai(
        message.to_openai(), tokens=999, tokens_by="o200k_base"
    )
    assert gpt4o.count(stale) == 999
    assert gpt4.count(stale) == gpt4.count(message) != 999


@pytest.mark.parametrize(
    ("part", "least", "most"),
    [
        *literals(TABLES["content parts"]),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 99_999}}, 1445, 1445),
        ({"type": "input_audio", "input_audio": {"data": "A" * 99_999, "format": "wav"}}, 1445, 1445),
    ],
)
def test_content_parts(part, least, most):
    assert least <= (GPT_4O.count(said([part])) - GPT_4O.count(said([]))) <= most


def test_files_count_by_their_size_and_other_fields_where_they_are_sent():
    data = base64.b64encode(bytes(160_000)).decode()
    pdf = {"type": "file", "file": {"file_data": "data:application/pdf;base64," + data, "filename": "a.pdf"}}
    assert GPT_4O.count(said([pdf])) - GPT_4O.count(said([])) == pytest.approx(10_000, rel=0.01)
    plain = GPT_4O.count(said("hi", "assistant"))
    assert GPT_4O.count(said("hi", "assistant", refusal="so " * 100)) >= plain + 100
    assert GPT_4O.count(said("hi", "assistant", metadata={"a": "so " * 100})) == plain
    assert GPT_4O.count(said("hi", "assistant", refusal=None, annotations=[])) == plain


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda c: c.name)
@given(text=ANY_TEXT)
def test_any_text_counts(counter, text):
    tokens = counter.count_text(text)
    assert (tokens > 0) == bool(text)
    assert counter.count(said(text)) > tokens


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda c: c.name)
@given(text=ANY_TEXT, limit=st.integers(-2, 40))
def test_truncated_text_is_a_beginning_within_the_limit(counter, text, limit):
    kept = counter.truncate(text, limit)
    assert text.startswith(kept)
    assert counter.count_text(kept) <= max(0, limit)
    if counter.count_text(text) <= limit:
        assert kept == text


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda c: c.name)
def test_truncation_uses_the_limit_and_cuts_nothing_that_just_fits(counter):
    text = "nginx 又 502 了，e\u0301 重启之后恢复。🧠" * 200
    assert 95 <= counter.count_text(counter.truncate(text, 100)) <= 100
    text = "e\u0301 /var/log 重启 nginx"  # "nginx" takes fewer tokens than "ngin" in some vocabularies
    assert counter.truncate(text, counter.count_text(text)) == text


@pytest.mark.parametrize("unit", ["a", " ", "记忆系统", "word ", "\n", "e\u0301\u0316", "\ud800"])
@pytest.mark.parametrize("counter", COUNTERS, ids=lambda c: c.name)
def test_five_megabytes_count_quickly(counter, unit):
    counter.count_text("load the vocabulary")
    text = unit * (5_000_000 // len(unit.encode("utf-8", "surrogatepass")))
    start = time.process_time()
    assert counter.count_text(text) > 1000
    assert time.process_time() - start < 5  # about 0.1 s; busy machines get time


def test_threads_share_a_counter():
    texts = [json.dumps({"i": i, "text": "重启 nginx " * i}, ensure_ascii=False) for i in range(200)]
    alone = [GPT_4O.count_text(text) for text in texts]
    assert at_once(lambda _: [GPT_4O.count_text(text) for text in texts], range(8)) == [alone] * 8


@given(st.lists(st.text(max_size=30), max_size=8), st.integers(-3, 200), st.sampled_from(COUNTERS))
def test_what_is_spread_sums_to_the_whole(texts, total, counter):
    shares = counter.spread(texts, total)
    assert all(share >= 0 for share in shares)
    assert sum(shares) == (max(total, 0) if texts else 0)


def test_texts_that_meet_share_what_they_save():
    parts = ["端口改到 9443。", "\n\n", "旧的停用。"]
    whole = GPT_4O.count_text("".join(parts))
    shares = GPT_4O.spread(parts, whole)
    assert sum(shares) == whole < sum(map(GPT_4O.count_text, parts))
    assert max(abs(share - GPT_4O.count_text(part)) for share, part in zip(shares, parts, strict=True)) == 1
