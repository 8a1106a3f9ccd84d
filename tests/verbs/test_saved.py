"""A message is saved with the date, the id and the metadata it carries; only what the API knows is sent."""

from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionMessage, ChatCompletionMessageParam
from pydantic import TypeAdapter
from refusing import refused

from jiyi.errors import BadMessage, DuplicateId, InputError, NaiveDatetime
from jiyi.records import Message

SAID = datetime(2024, 3, 1, 8, 30, tzinfo=UTC)
THERE = SAID.astimezone(timezone(timedelta(hours=8)))
SECONDS = SAID.timestamp()
DATES = [SAID, THERE, "2024-03-01T08:30:00Z", "2024-03-01T16:30:00+08:00", SECONDS, int(SECONDS)]


@pytest.mark.parametrize("name", ["created_at", "timestamp"])
@pytest.mark.parametrize("written", DATES, ids=str)
def test_the_date_of_a_dict_is_when_it_was_said(memory, name, written):
    given = {"role": "user", "content": "the port is 8443", name: written}
    (saved,) = memory.save_messages("s", [given])
    assert memory.get(saved.id).created_at == SAID
    assert memory.search("port", kinds="message")[0].created_at == SAID
    assert set(memory.get(saved.id).to_dict()) == {"role", "content"}
    assert given[name] == written


def test_a_keyword_wins_over_the_dict_and_seconds_may_be_nought(memory):
    given = {"role": "user", "content": "x", "id": "a", "created_at": "no date", "metadata": {"n": 1}}
    saved = memory.save_message("s", given, id="b", created_at="2024-03-01T08:30:00Z", metadata={"n": 2})
    assert (saved.id, saved.created_at, saved.metadata) == ("b", SAID, {"n": 2})
    assert memory.save_message("s", {"role": "user", "content": "x", "timestamp": 0}).created_at.year == 1970


def test_a_speaker_is_named_beside_the_content(memory):
    saved = memory.save_message("s", role="user", content="the port is 8443", name="Ana")
    assert (saved.name, saved.to_openai()["name"]) == ("Ana", "Ana")
    refused(BadMessage, "name= go with role=", memory.save_message, "s", saved.to_openai(), name="Ben")


@pytest.mark.parametrize("written", [datetime(2024, 3, 1), "2024-03-01T08:30:00", "2024-03-01"])  # noqa: DTZ001
def test_a_date_without_a_zone_is_refused(memory, written):
    with pytest.raises(NaiveDatetime, match="created_at"):
        memory.save_message("s", {"role": "user", "content": "x", "created_at": written})


@pytest.mark.parametrize("written", ["soon", True, [2024], 1.7e12, float("nan"), "9999-12-31T23:59:59-08:00"])
def test_what_is_no_date_is_refused(memory, written):
    with pytest.raises(InputError, match=r"created_at .* nor seconds since 1970"):
        memory.save_message("s", {"role": "user", "content": "x", "timestamp": written})
    assert memory.session_messages("s") == []


def test_the_id_of_a_dict_is_the_message_s(memory):
    given = {"id": "m-1", "role": "user", "content": "x", "metadata": {"n": 1}}
    memory.save_message("s", given)
    memory.save_messages("s", [given])
    assert [message.id for message in memory.session_messages("s")] == ["m-1"]
    for other in ({"content": "y"}, {"metadata": {"n": 2}}):
        refused(DuplicateId, "m-1", memory.save_message, "s", given | other)
    refused(BadMessage, "id", memory.save_message, "s", given | {"id": 7})


def test_metadata_comes_back_wherever_the_message_does(memory, open_memory, tmp_path):
    metadata = {"channel": "slack", "thread": {"ts": 1.5, "tags": ["a", None]}, "渠道": "微信", "ok": True}
    saved = memory.save_message("s", role="user", content="the port is 8443", metadata=metadata)
    assert saved.metadata == memory.get(saved.id).metadata == metadata
    assert memory.search("port", kinds="message")[0].record.metadata == metadata
    assert memory.session_messages("s")[0].metadata == memory.recent_messages("s")[0].metadata == metadata
    memory.export(tmp_path / "all.jsonl")
    copy = open_memory(tmp_path / "copy.db")
    copy.import_(tmp_path / "all.jsonl")
    assert copy.get(saved.id).metadata == metadata
    assert memory.save_message("s", role="user", content="x").metadata == {}


@pytest.mark.parametrize(
    ("metadata", "match"),
    [
        ("slack", "must be a dict"),
        ({"at": SAID}, "datetime, which is no JSON"),
        ({1: "a"}, "keys must be text"),
        ({"a": float("nan")}, "no JSON"),
        ({"a": "\0"}, "zero character"),
        ({"a": ["x" * 17_000]}, "at most 16,384"),
    ],
)
def test_metadata_that_cannot_be_kept_is_refused(memory, metadata, match):
    refused(BadMessage, match, memory.save_message, "s", role="user", content="x", metadata=metadata)
    with pytest.raises(BadMessage, match=match):
        memory.save_message("s", {"role": "user", "content": "x", "metadata": metadata})
    assert memory.session_messages("s") == []


def test_an_answer_of_openai_is_saved_as_it_is_and_sent_as_the_api_wants_it(memory):
    memory.save_message("s", {"role": "user", "content": "look", "metadata": {"a": 1}, "trace": "t-1"})
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    saying = {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "hm"}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": saying}
    answer = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    saved = memory.save_message("s", ChatCompletion.model_validate(answer).choices[0].message)
    assert saved.tool_calls[0].name == "look"
    assert saved.to_dict()["reasoning_content"] == "hm"
    memory.save_message("s", {"role": "tool", "tool_call_id": "c1", "content": "nothing", "timestamp": 5})
    memory.save_message("s", ChatCompletionMessage(role="assistant", content="Nothing.", refusal=None))
    memory.save_message("s", SimpleNamespace(model_dump=lambda: {"role": "user", "content": "well?"}))
    messages = memory.build_context("s", "and now?").messages
    assert len(TypeAdapter(list[ChatCompletionMessageParam]).validate_python(messages)) == len(messages) >= 6
    sent = {key for message in messages for key in message}
    assert sent == {"role", "content", "tool_calls", "tool_call_id"}
    assert memory.session_messages("s")[0].to_dict()["trace"] == "t-1"


def test_what_is_not_sent_takes_no_tokens(memory):
    plain = memory.save_message("s", role="user", content="hello")
    labelled = memory.save_message("s", {"role": "user", "content": "hello", "metadata": {"a": "b" * 500}})
    assert plain.tokens == labelled.tokens


@pytest.mark.parametrize("given", ["hi", SimpleNamespace(), Message, SimpleNamespace(model_dump=lambda: 1)])
def test_what_is_no_message_is_refused(memory, given):
    refused(BadMessage, "a message is a dict", memory.save_message, "s", given)
