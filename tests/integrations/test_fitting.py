"""What is shown of a conversation that a framework keeps, without a framework."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jiyi
from jiyi.integrations.fitting import Fitting
from jiyi.integrations.recalling import Owner
from jiyi.records import Message
from jiyi.records.atoms import atoms
from jiyi.testing import HashEmbedder

TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {}}}


@pytest.fixture(scope="module")
def owner(tmp_path_factory):
    file = tmp_path_factory.mktemp("memory") / "a.db"
    with jiyi.open(file, user_id="ana", embedder=HashEmbedder(), background=False) as memory:
        yield Owner(memory, None, "s")


def said(role: str, words: int, call: str) -> Message:
    body = {"role": role, "content": "word " * words}
    if role == "tool":
        body["tool_call_id"] = call
    if role == "caller":
        function = {"name": "look_up", "arguments": "{}"}
        body |= {"role": "assistant", "tool_calls": [{"id": call, "type": "function", "function": function}]}
    return Message.from_openai(body)


MESSAGES = st.builds(
    said, st.sampled_from(["user", "assistant", "caller", "tool"]), st.integers(1, 60), st.sampled_from("ab")
)


@pytest.mark.slow
@given(st.lists(MESSAGES, max_size=30), st.integers(300, 900))
@settings(max_examples=30)
def test_what_is_shown_fits_and_every_call_has_its_results(owner, talk, budget):
    talk = [*talk, Message(role="user", content="And now?")]
    fitting = Fitting(owner.memory, budget, 100)
    fitted = fitting.fit(owner, talk, system="Be brief.", tools=[TOOL])
    shown = [talk[i] for i in fitted.kept]
    assert shown[-1].content == "And now?"
    assert all(atom.broken is None for atom in atoms(shown))
    assert fitted.tokens <= budget
    first, counter = Message(role="system", content="Be brief."), owner.memory.counter
    whole = counter.count_all([first, *shown]) + counter.count_tools([TOOL])
    assert whole + fitted.recalled.tokens == fitted.tokens


@pytest.mark.slow
def test_history_leaves_several_turns_at_a_time(owner):
    talk: list[Message] = []
    beginnings = []
    fitting = Fitting(owner.memory, 1_000, 100)
    for _ in range(60):
        talk += [said("user", 20, ""), said("assistant", 20, "")]
        beginnings.append(fitting.fit(owner, talk).kept[0])
    assert beginnings == sorted(beginnings)
    moves = sum(a != b for a, b in pairwise(beginnings))
    assert 5 <= moves <= 15


def test_a_memory_that_fails_leaves_the_conversation(open_memory):
    memory = open_memory()
    fitting = Fitting(memory, 1_000)
    memory.close()
    fitted = fitting.fit(Owner(memory, None, "s"), [said("user", 5, "")])
    assert fitted.kept == (0,)
    assert fitted.recalled.notes
