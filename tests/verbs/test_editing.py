"""A conversation changed from its end: the newest messages popped, all of them replaced."""

import random

import pytest
from refusing import raises, refused

from jiyi.errors import BadMessage, BadQuery, DuplicateId, NaiveDatetime

CALL = {"id": "c-1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
ASKED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c-1", "content": "all is well"}


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def memory(request, open_memory, path, clock):
    place = path if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    return open_memory(place, clock=clock)


def user(text, **more):
    return {"role": "user", "content": text, **more}


def texts(messages):
    return [message.text for message in messages]


def everything(memory):
    """Return all that is there of the user, for comparison."""
    talk = {s.id: memory.session_messages(s.id) for s in memory.sessions()}
    return talk, memory.facts(status=["active", "superseded"]), dict(memory.stats())


def test_the_newest_messages_are_popped_with_what_was_learned_from_them(memory):
    memory.save_messages("s", [user("My port is 8443."), user("hi"), user("My name is Ana.", id="m")])
    memory.save_message("other", user("My dog is called Rex."))
    before = everything(memory)
    assert texts(memory.recent_messages("s")) == ["My port is 8443.", "hi", "My name is Ana."]
    assert any("Ana" in fact.object for fact in memory.facts())
    popped = memory.pop_message("s")
    assert (popped.id, popped.text) == ("m", "My name is Ana.")
    for read in (memory.recent_messages, memory.session_messages):
        assert texts(read("s")) == ["My port is 8443.", "hi"]
    assert not any("Ana" in fact.object for fact in memory.facts())
    assert "m" not in [hit.id for hit in memory.search("name Ana")]
    assert texts(memory.pop_messages("s", 10)) == ["My port is 8443.", "hi"]
    assert memory.pop_messages("s") == []
    assert memory.pop_message("s") is None is memory.pop_message("never")
    assert [session.id for session in memory.sessions()] == ["other"]
    memory.restore(["m"])
    assert texts(memory.session_messages("s")) == ["My name is Ana."]
    memory.restore([message.id for message in before[0]["s"][:2]])
    assert everything(memory)[1] == before[1]


def test_a_popped_result_leaves_its_call_which_no_window_shows(memory):
    memory.save_messages("s", [user("look"), ASKED, RESULT])
    assert memory.pop_message("s").role == "tool"
    assert [m.role for m in memory.session_messages("s")] == ["user", "assistant"]
    assert "assistant" not in [m["role"] for m in memory.build_context("s", "and?").messages]
    memory.save_message("s", RESULT)
    assert {"assistant", "tool"} <= {m["role"] for m in memory.build_context("s", "and?").messages}


def test_the_summary_goes_back_to_before_what_is_popped(memory):
    memory.save_messages("s", [user(f"We decided on port {8000 + n}.") for n in range(60)])
    memory.summarize_session("s")
    memory.pop_messages("s", 60 - len(memory.summary("s").covers) + 1)
    assert memory.summary("s") is None


def test_what_a_conversation_begins_with_stays_and_the_rest_is_replaced(memory):
    begun = [user("My port is 8443.", metadata={"a": 1}), user("no"), ASKED, RESULT]
    first = memory.save_messages("s", begun)
    facts = {fact.id for fact in memory.facts()}
    assert facts
    kept = memory.replace_messages("s", [user("My port is 8443."), user("My name is Ana."), user("no")])
    assert kept[0] == first[0]
    assert memory.session_messages("s") == kept == memory.recent_messages("s")
    assert texts(kept) == ["My port is 8443.", "My name is Ana.", "no"]
    assert facts < {fact.id for fact in memory.facts()}
    assert memory.replace_messages("s", kept) == kept  # records as they came
    assert memory.replace_messages("s", [m.to_openai() for m in kept]) == kept
    assert memory.stats()["message"] == 3
    assert memory.replace_messages("s", [*kept, ASKED, RESULT])[:3] == kept
    assert [m.role for m in memory.recent_messages("s")][3:] == ["assistant", "tool"]
    assert memory.replace_messages("s", []) == [] == memory.session_messages("s") == memory.sessions()
    assert memory.facts() == []


def test_a_message_is_another_by_its_words_id_or_metadata(memory):
    (there,) = memory.save_messages("s", [user("hi", id="a", metadata={"n": 1})])
    for same in (user("hi"), user("hi", id="a"), user("hi", metadata={"n": 1}), there):
        assert memory.replace_messages("s", [same]) == [there]
    for n, other in enumerate((user("hi", id="b"), user("hi", metadata={"n": 2}), user("ho"))):
        (stored,) = memory.replace_messages("s", [other])
        assert stored.id != there.id, n
        assert memory.replace_messages("s", [user("hi", id="a", metadata={"n": 1})])[0].id == "a"


def test_what_cannot_be_saved_changes_nothing(memory):
    memory.save_messages("s", [user("My port is 8443.", id="a"), user("two", id="b")])
    memory.save_message("t", user("three", id="c"))
    before = everything(memory)
    for wrong, error in (
        ([user("x"), {"role": "nobody", "content": "y"}], BadMessage),
        ([user("x"), "y"], BadMessage),
        ([user("x", created_at="2026-01-01T00:00:00")], NaiveDatetime),
        ([user("x"), user("three", id="c")], DuplicateId),  # of another conversation
        ([user("My port is 8443."), user("My port is 8443.", id="a")], DuplicateId),
        ([user("x", id="d"), user("x", id="d")], DuplicateId),
    ):
        raises(error, memory.replace_messages, "s", wrong)
        assert everything(memory) == before
    for limit in (0, -1, True, "1", 10_001):
        refused(BadQuery, "limit", memory.pop_messages, "s", limit)
    assert memory.pop_message("s", user_id="ben") is None
    assert memory.replace_messages("s", [], user_id="ben") == []
    assert everything(memory) == before


def test_an_agent_changes_its_own_messages(memory):
    memory.save_message("s", user("of a"), agent_id="a")
    memory.save_message("s", user("of b"), agent_id="b")
    assert memory.pop_message("s", agent_id="a").text == "of a"
    assert texts(memory.replace_messages("s", [user("new")], agent_id="b")) == ["new"]
    assert texts(memory.session_messages("s")) == ["new"]


def test_random_changes_leave_exactly_the_messages_of_a_plain_list(memory, open_memory, path):
    drawn, wanted = random.Random(7), []
    for step in range(40):
        match drawn.randrange(4):
            case 0 | 1:
                wanted.append(user(f"My item {step} is {drawn.randrange(9)}."))
                memory.save_message("s", wanted[-1])
            case 2:
                taken = [wanted.pop() for _ in range(min(len(wanted), drawn.randrange(1, 3)))][::-1]
                if taken:
                    assert texts(memory.pop_messages("s", len(taken))) == [m["content"] for m in taken]
            case 3:
                cut = drawn.randrange(len(wanted) + 1)
                wanted = [*wanted[:cut], user(f"edited {step}")]
                memory.replace_messages("s", wanted)
        assert texts(memory.session_messages("s")) == [m["content"] for m in wanted]
        assert texts(memory.recent_messages("s")) == [m["content"] for m in wanted][-40:]
    sources = {source for fact in memory.facts() for source in fact.sources}
    assert sources <= {message.id for message in memory.session_messages("s")}
