"""Messages: OpenAI dicts in, the same dicts out; what no model would accept is refused."""

import json
import re
from ast import literal_eval
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusing import raises, refused
from tables import each, literals, read_tables

from jiyi.errors import BadBudget, BadMessage, InputError, NaiveDatetime
from jiyi.records import Budget, Message, ToolCall

words = st.text(max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
TABLES = read_tables(__file__)
KNOWN = {"role", "content", "name", "tool_calls", "tool_call_id"}
unknown = st.dictionaries(words.filter(lambda k: k not in KNOWN), values, max_size=3)
parts = st.builds(
    lambda kind, body, more: {**more, "type": kind, kind: body},
    st.sampled_from(["text", "image_url", "input_audio", "file", "refusal", "video"]),
    values,
    unknown,
)
contents = words | st.none() | st.lists(parts, max_size=3)


@st.composite
def tool_calls(draw):
    kind = draw(st.sampled_from(["function", "custom"]))
    body = {"name": draw(words), "input" if kind == "custom" else "arguments": draw(words)}
    body |= draw(st.dictionaries(words.filter(lambda k: k not in ("name", "arguments", "input")), values))
    more = draw(st.dictionaries(words.filter(lambda k: k not in ("id", "type", kind)), values, max_size=2))
    return {**more, "id": draw(words.filter(bool)), "type": kind, kind: body}


@st.composite
def openai_messages(draw):
    role = draw(st.sampled_from(["system", "developer", "user", "assistant", "tool"]))
    message, calls = {"role": role, **draw(unknown)}, st.none() | st.lists(tool_calls(), max_size=2)
    for key, value in (
        ("content", contents),
        ("name", st.none() | words),
        ("tool_call_id", st.none() | words),
        ("tool_calls", calls if role == "assistant" else st.none()),
    ):
        if draw(st.booleans()):
            message[key] = draw(value)
    return message


@pytest.mark.slow
@given(openai_messages())
def test_every_valid_dict_comes_back_as_it_was(message):
    text = json.dumps(message)
    read = Message.from_openai(message)
    assert read.to_dict() == message
    assert json.dumps(message) == text
    assert Message.from_openai(read.to_dict(), id=read.id) == read
    assert json.loads(json.dumps(read.to_dict())) == json.loads(text)


@pytest.mark.slow
@given(openai_messages())
def test_only_fields_of_the_api_are_sent(message):
    sent = Message.from_openai(message).to_openai()
    assert set(sent) <= {*KNOWN, "refusal", "audio", "function_call"}
    assert all(message[key] == value for key, value in sent.items())
    assert {key for key in KNOWN if message.get(key) not in (None, [])} <= set(sent)


@pytest.mark.slow
@given(openai_messages())
def test_what_is_searched_holds_words_calls_and_arguments(message):
    read = Message.from_openai(message)
    assert isinstance(read.search_text, str)
    if isinstance(read.content, str):
        assert read.content in read.search_text
    for call in read.tool_calls:
        assert f"{call.name} {call.arguments}" in read.search_text


def test_later_changes_on_either_side_do_not_reach_the_other():
    given_dict = {"role": "user", "content": [{"type": "text", "text": "a"}], "meta": {"k": [1]}}
    read = Message.from_openai(given_dict)
    given_dict["content"][0]["text"] = "b"
    given_dict["meta"]["k"].append(2)
    out = read.to_dict()
    out["content"][0]["text"] = "c"
    out["meta"]["k"].append(3)
    assert read.to_dict() == {"role": "user", "content": [{"type": "text", "text": "a"}], "meta": {"k": [1]}}


def test_developer_is_read_as_system_and_arguments_that_are_no_text_are_kept():
    read = Message.from_openai({"role": "developer", "content": "x"})
    assert read.role == "system"
    assert read.to_openai()["role"] == "developer"
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"host": "web-7"}}}
    read = Message.from_openai({"role": "assistant", "tool_calls": [call]})
    assert "web-7" in read.search_text
    assert read.to_openai()["tool_calls"] == [call]


def deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


def endless():
    value = {}
    value["self"] = value
    return value


BAD = {name: literal_eval(bad) for name, bad in TABLES["what breaks the form"]} | {
    "nan": {"role": "user", "content": "x", "raw": float("nan")},
    "infinity": {"role": "user", "content": "x", "raw": {"a": [float("inf")]}},
    "a datetime": {"role": "user", "content": "x", "raw": datetime.now(UTC)},
    "an endless number": {"role": "user", "content": "x", "raw": 10**5000},
    "too deep": {"role": "user", "content": "x", "raw": deep(5_000)},
    "endless": {"role": "user", "content": "x", "raw": endless()},
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_what_breaks_the_form_is_named(bad):
    with pytest.raises(BadMessage) as caught:
        Message.from_openai(bad)
    assert 10 < len(str(caught.value)) < 500


SENSELESS = [
    *each(**dict(literals(TABLES["a field, values that make no sense"]))),
    {"importance": float("nan")},
    {"tool_calls": (ToolCall(id="c", name="f", arguments=""),)},
    {"created_at": datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))},
]


@pytest.mark.parametrize("fields", SENSELESS)
def test_fields_that_make_no_sense_are_refused(fields):
    raises(InputError, Message, **({"role": "user", "content": "x"} | fields))


def test_dates_become_utc_and_a_message_is_a_value_that_read_only_mappings_may_make():
    with pytest.raises(NaiveDatetime, match=r"timezone\.utc"):
        Message(role="user", created_at=datetime(2026, 1, 1))  # noqa: DTZ001
    there = datetime(2026, 1, 1, 8, tzinfo=timezone(timedelta(hours=8)))
    moment = Message(role="user", created_at=there).created_at
    assert (moment, moment.tzinfo) == (there, UTC)
    message = MappingProxyType({"role": "user", "content": "x", "meta": MappingProxyType({"a": (1, 2)})})
    assert Message.from_openai(message).to_dict()["meta"] == {"a": [1, 2]}
    one = Message(role="user", content="x")
    with pytest.raises(AttributeError):
        one.content = "y"
    assert replace(one, content="y").id == one.id


def test_what_is_too_deep_or_too_long_to_be_written_is_refused_in_short():
    deep: list[object] = []
    for _ in range(5_000):
        deep = [deep]
    for role, told in ((deep, "[[[...]]]"), (10**6_000, "a number of 19932 bits"), ("boss", "'boss'")):
        refused(BadMessage, re.escape(f"role {told} is not one of"), Message, role=role, content="x")
    with pytest.raises(BadBudget, match="profile_share=a number of 19932 bits must be"):
        Budget(max_input_tokens=16, profile_share=10**6_000)
