"""What the memory does for conversations that pass by, without HTTP."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_chat import call

import jiyi
from jiyi.integrations.recalling import Owner, Recalled, Recaller
from jiyi.records import Message
from jiyi.server.proxy import CHAT, RESPONSES, session_of

DOOR = "The blue door's code is 7341"


def said(*lines: str) -> list[dict[str, Any]]:
    """A conversation in which user and assistant take turns."""
    return [{"role": ("user", "assistant")[i % 2], "content": line} for i, line in enumerate(lines)]


def stored(memory: jiyi.MemoryManager, session: str = "s") -> list[str]:
    return [message.text for message in memory.session_messages(session)]


class Passing:
    """Ana's conversations, as they pass by."""

    def __init__(self, memory: jiyi.MemoryManager) -> None:
        self.owner = Owner(memory, "ana", "s")
        self.talk = Recaller(tokens=400)

    def recall(self, sent: list[Message], owner: Owner | None = None) -> Recalled:
        return self.talk.recall(owner or self.owner, sent)


@pytest.fixture
def talk(memory):
    return Passing(memory)


def passes(talk: Passing, sent: list[dict[str, Any]], reply: str = "", **how: Any) -> int:
    answered = CHAT.read([{"role": "assistant", "content": reply}])
    return talk.talk.save_new(talk.owner, CHAT.read(sent), answered, **{"full": True} | how)


def test_each_message_is_kept_once(talk, memory):
    lines: list[str] = []
    for n in range(5):
        lines.append(f"question {n}")
        assert passes(talk, said(*lines), f"answer {n}") == 2
        lines.append(f"answer {n}")
    assert stored(memory) == lines
    assert passes(talk, said(*lines[:-1]), lines[-1]) == 0  # the last request once more


def test_what_a_client_leaves_out_of_its_history_is_not_kept_twice(talk, memory):
    lines = ["yes", "ok", "yes", "fine", "and now?"]
    passes(talk, said(*lines[:1]), lines[1])
    passes(talk, said(*lines[:3]), lines[3])
    passes(talk, said(*lines[2:]), "done")
    assert stored(memory) == [*lines, "done"]


def test_an_edited_question_is_kept_beside_the_first(talk, memory):
    passes(talk, said("hello"), "hi")
    passes(talk, said("hello", "hi", "where is it?"), "where is what?")
    passes(talk, said("hello", "hi", "where is the key?"), "on the hook")
    assert stored(memory) == [
        "hello", "hi", "where is it?", "where is what?", "where is the key?", "on the hook",
    ]  # fmt: skip


def test_what_was_forgotten_does_not_come_back(talk, memory):
    lines = [DOOR, "noted", "what else?", "nothing", "good"]
    passes(talk, said(*lines[:1]), lines[1])
    passes(talk, said(*lines[:3]), lines[3])
    memory.forget(session_id="s")
    passes(talk, said(*lines), "bye")
    assert stored(memory) == ["good", "bye"]


def test_system_prompts_and_pictures_are_not_kept(talk, memory):
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    sent = [
        {"role": "system", "content": "I am Ana and I live in Oslo."},
        {"role": "developer", "content": "I prefer tea."},
        {"role": "user", "content": [picture]},
        {"role": "user", "content": [picture, {"type": "text", "text": "What is this?"}]},
    ]
    assert passes(talk, sent, "<think>a cat?</think>A cat.") == 2
    assert stored(memory) == ["What is this?", "A cat."]
    assert not memory.facts()
    assert b"AAAA" not in json.dumps([m.to_dict() for m in memory.session_messages("s")]).encode()


def test_new_items_of_a_conversation_kept_by_the_upstream_are_all_new(talk, memory):
    for _ in range(2):
        passes(talk, said("yes"), "ok", full=False)
    assert stored(memory) == ["yes", "ok"] * 2


def test_it_recalls_what_other_conversations_said_and_not_what_this_one_shows(talk, memory):
    elsewhere = memory.save_message("other", role="user", content=DOOR)
    passes(talk, said("My bicycle's lock has the code 9902"), "noted")
    sent = CHAT.read(said("My bicycle's lock has the code 9902", "noted", "What is the code of the door?"))
    found = talk.recall(sent)
    assert DOOR in found.text
    assert "9902" not in found.text
    assert elsewhere.id in found.ids
    assert 0 < found.tokens <= 400
    assert "9902" in talk.recall(sent[-1:]).text  # the client shows it no more
    assert not talk.recall(sent, Owner(memory, "bo", "s")).text


def test_what_is_recalled_stays_the_same_while_a_run_goes_on(talk, memory):
    memory.save_message("other", role="user", content=DOOR)
    sent = said("What is the code of the blue door?")
    first = talk.recall(CHAT.read(sent))
    kept = memory.save_message("other", role="user", content="No, the blue door's code is 8000 now")
    assert talk.recall(CHAT.read([*sent, {"role": "assistant", "tool_calls": [call("f")]}])) is first
    assert kept.id in talk.recall(CHAT.read(sent)).ids


def test_rules_of_the_user_are_shown_whatever_is_asked(talk, memory):
    memory.remember("Always answer in German", category="rule")
    assert "German" in talk.recall(CHAT.read(said("What is two and two?"))).text


def test_the_prefix_is_the_same_from_turn_to_turn():
    sent = [{"role": "system", "content": "Be brief. 简短"}, *said("one", "two", "three", "four", "five")]
    first = CHAT.with_recalled({"model": "m", "messages": sent[:4], "n": 1}, "recalled first")
    second = CHAT.with_recalled({"model": "m", "messages": sent, "n": 1}, "recalled second")
    upto = first.index(b'{"role": "user", "content": "recalled first"}')
    assert second[:upto] == first[:upto]
    assert json.loads(second)["messages"][-2:] == [
        {"role": "user", "content": "recalled second"},
        {"role": "user", "content": "five"},
    ]
    run = [*sent, {"role": "assistant", "tool_calls": [call("f")]}, {"role": "tool", "tool_call_id": "c1"}]
    messages = json.loads(CHAT.with_recalled({"messages": run}, "recalled"))["messages"]
    assert messages.pop(5)["content"] == "recalled"
    assert messages == run


def test_both_forms_say_the_same():
    chat = [
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": "Let me see.", "tool_calls": [call("get", '{"a": 1}')]},
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    ]
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "weather?"}]},
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me see."}]},
        {"type": "function_call", "call_id": "c1", "name": "get", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "rain"},
    ]

    def plain(messages: list[Message]) -> list[dict[str, Any]]:
        return [message.to_openai() for message in messages]

    assert plain(RESPONSES.read(items)) == plain(CHAT.read(chat))
    replied = RESPONSES.reply(json.dumps({"output": items[1:4]}).encode(), False)
    assert plain(RESPONSES.read(replied)) == plain(CHAT.read(chat[1:2]))
    assert RESPONSES.items_of({"input": "weather?"}) == [{"role": "user", "content": "weather?"}]


NAMES = (
    "role type content text tool_calls call_id function id name arguments user assistant tool message "
    "function_call function_call_output output_text response response.completed"
)
WORDS = st.sampled_from(NAMES.split())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=15,
)


@given(JSON)
def test_no_request_and_no_answer_is_too_strange(junk):
    for form in (CHAT, RESPONSES):
        assert all(message.role != "system" for message in form.read(form.items_of({form.items: junk})))
        for answer in ({"choices": [{"message": junk}]}, {"output": junk}, junk):
            for streamed in (False, True):
                written = json.dumps(answer).encode()
                written = b"data: " + written + b"\n\ndata: [DONE]\n" if streamed else written
                with suppress(ValueError):
                    form.read(form.reply(written, streamed))


@pytest.mark.parametrize("strange", [[{"type": []}], [{"role": "assistant", "content": 5}], [{"role": {}}]])
def test_strange_items_are_no_messages(strange):
    assert CHAT.read(strange) == RESPONSES.read(strange) == []


def test_a_session_is_known_by_its_first_words_or_its_picture_and_without_either_it_is_new():
    first, again = said("hello"), said("hello", "hi", "go on")
    assert session_of(first) == session_of(again) != session_of(said("good day"))
    cat, dog = ([{"type": "image_url", "image_url": {"url": f"data:{kind}"}}] for kind in ("cat", "dog"))
    sessions = [session_of([{"role": "user", "content": picture}, *said("hello")]) for picture in (cat, dog)]
    assert sessions[0] == session_of([{"role": "user", "content": cat}]) != sessions[1]
    for nothing in ([], said("hello")[1:], [{"role": "system", "content": "Be brief."}]):
        assert session_of(nothing) != session_of(nothing)
