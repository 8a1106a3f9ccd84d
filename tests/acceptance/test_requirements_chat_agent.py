"""What a chat agent asks of its memory: a running summary, and conversation and execution apart."""

from collections.abc import Callable
from typing import Any

import pytest

import jiyi
from jiyi import Agent, RunningSummary, action
from jiyi.compression import Summarize
from jiyi.llm import Reply, Turn
from jiyi.records import ToolCall
from jiyi.text import counter_for
from jiyi.working import Scratch

Open = Callable[..., jiyi.MemoryManager]
COUNTER = counter_for("gpt-4o")


class Writer:
    """A language model that writes what it is told, and notes what it was asked."""

    def __init__(self, *texts: str) -> None:
        self.texts, self.asked = list(texts), list[str]()

    def complete(self, messages: Any, **options: Any) -> Reply:
        self.asked.append(messages[0]["content"])
        return Reply(text=self.texts.pop(0))


class Talker:
    """A chat model that takes these turns, and notes what it was shown."""

    def __init__(self, *turns: Turn) -> None:
        self.turns, self.shown = list(turns), list[list[dict[str, Any]]]()

    def chat(self, messages: Any, **options: Any) -> Turn:
        self.shown.append([dict(message) for message in messages])
        return self.turns.pop(0)


def talk(turns: int, words: int = 1) -> list[dict[str, Any]]:
    return [
        {"role": role, "content": f"{role} {n} " + "words " * words}
        for n in range(turns)
        for role in ("user", "assistant")
    ]


@action
def shell(cmd: str) -> str:
    """Run a command."""
    return f"output of {cmd}"


def test_a_summary_and_a_buffer_of_messages_make_the_conversation(memory: jiyi.MemoryManager) -> None:
    """What the summary covers and what is still whole together are the conversation, each once."""
    saved = memory.save_messages("s", talk(12))
    summary = memory.summarize_session("s")
    assert summary is not None
    shown = memory.build_context("s", "go on", 4_000).report.included
    buffer = [item.id for item in shown if item.section == "history"]
    assert [*summary.covers, *buffer] == [message.id for message in saved]
    assert memory.summary("s") == summary


def test_it_is_summarised_at_eighty_per_cent_of_the_limit() -> None:
    """The summary is due when the messages take more than 80 % of the window, and not before."""
    given = talk(5, words=30)
    tokens = COUNTER.count_all([jiyi.Message.from_openai(one) for one in given])
    assert not RunningSummary(-(-tokens * 10 // 8)).due(given)
    assert "80 %" in RunningSummary(tokens * 10 // 8 - 1).due(given)


def test_a_window_summarises_when_four_fifths_are_full(open_memory: Open) -> None:
    """A memory folds by itself at the same mark."""
    memory = open_memory()
    memory.save_messages("s", talk(6, words=40))
    full = sum(message.tokens for message in memory.session_messages("s")) + 3
    assert memory.build_context("s", "?", full * 10 // 7).report.steps == ()
    assert memory.summary("s") is None
    steps = memory.build_context("s", "?", full * 10 // 9).report.steps
    assert [step.what for step in steps] == ["summarised"]


def test_it_is_summarised_after_fifty_messages(open_memory: Open) -> None:
    """Fifty short messages stay as they are, one more sets the summary off."""
    memory = open_memory(max_turns=100)
    memory.save_messages("s", talk(25))
    memory.build_context("s", "?", 100_000)
    assert memory.summary("s") is None
    memory.save_message("s", role="user", content="one more")
    window = memory.build_context("s", budget=100_000)
    assert [step.what for step in window.report.steps] == ["summarised"]
    assert memory.summary("s") is not None


def test_it_is_summarised_by_hand(memory: jiyi.MemoryManager) -> None:
    """A short conversation can be folded whenever somebody asks for it."""
    memory.save_messages("s", talk(5))
    assert memory.summary("s") is None
    made = memory.summarize_session("s")
    assert made is not None
    assert len(made.covers) == 4


def test_the_prompt_updates_a_summary_after_an_example() -> None:
    """The current summary and the new dialogue go into the prompt, after a worked example."""
    model = Writer("- the shop moves to PostgreSQL")
    made = Summarize(llm=model)(talk(2), previous="- the shop runs MySQL")
    (prompt,) = model.asked
    example, _, real = prompt.rpartition("An example.")[2].partition("the shop runs MySQL")
    assert "Current summary:" in example
    assert "New messages:" in example
    assert "New summary:" in example
    for part in ("user 0", "assistant 1"):
        assert part in real
    assert made.text == "- the shop moves to PostgreSQL"


def test_what_a_summary_keeps_and_what_it_drops() -> None:
    """Questions, answers, tool results and conclusions stay; politeness and repetitions go."""
    call = {"id": "c", "type": "function", "function": {"name": "df", "arguments": "{}"}}
    given = [
        {"role": "user", "content": "Hello! Hope you are well."},
        {"role": "assistant", "content": "Thanks, how can I help you today?"},
        {"role": "user", "content": "Why does web-7 answer with error 502?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "ERROR /dev/sda1 is full: 100 %"},
        {
            "role": "assistant",
            "content": "The disk /dev/sda1 is full, nginx cannot write its log.",
        },
        {"role": "user", "content": "We decided to delete the old logs every Monday."},
        *[{"role": "user", "content": "ok, thanks a lot"}] * 8,
    ]
    text = Summarize(max_tokens=75)(given, previous="").text
    for part in ("error 502", "/dev/sda1", "100 %", "delete the old logs every Monday"):
        assert part in text
    assert "Hope you are well" not in text
    assert text.count("thanks a lot") <= 1


def test_the_prompt_says_what_to_keep_and_what_to_drop() -> None:
    """A model is told the same."""
    model = Writer("- nothing")
    Summarize(llm=model, max_tokens=20)(talk(9, words=9))
    for part in (
        "main questions",
        "core of the answers",
        "tools returned",
        "Leave out greetings, repetitions",
    ):
        assert part in model.asked[0]


def test_after_a_summary_the_messages_are_system_and_question(open_memory: Open) -> None:
    """The system prompt with the summary as bullets under its own heading, then the current question."""
    memory = open_memory(summary_keep_turns=1)
    memory.save_messages("s", talk(9))
    memory.save_message("s", role="user", content="Which port is it?")
    memory.summarize_session("s")
    window = memory.build_context("s", system="You run servers.")
    system, *recalled, question = window.messages
    assert window.report.sections["history"] == 0
    assert ["taken from memory" in message["content"] for message in recalled] in ([], [True])
    assert question == {"role": "user", "content": "Which port is it?"}
    prompt, _, summary = system["content"].partition("## Conversation so far")
    assert (system["role"], prompt.strip()) == ("system", "You run servers.")
    bullets = [line for line in summary.splitlines() if line.startswith("> ")]
    assert bullets
    assert all(line.startswith("> - ") for line in bullets)


def test_conversation_and_execution_are_two_memories(memory: jiyi.MemoryManager) -> None:
    """Questions and answers stay in the conversation; what was done for them does not, once it is done."""
    call = ToolCall(id="c", name="shell", arguments='{"cmd": "df"}')
    thought = Turn(text="I look at the disk.", tool_calls=(call,), finish="tool_calls")
    model = Talker(thought, Turn(text="It is full."), Turn(text="Yes, really."))
    agent = Agent("Keep the shop up", [shell], memory, llm=model)
    agent.run("How is the disk?", "s")
    while_at_work = [message["content"] for message in model.shown[1]]
    assert "I look at the disk." in while_at_work
    assert "output of df" in while_at_work
    agent.run("Really?", "s")
    assert [(m.role, m.content) for m in memory.session_messages("s")] == [
        ("user", "How is the disk?"),
        ("assistant", "It is full."),
        ("user", "Really?"),
        ("assistant", "Yes, really."),
    ]
    assert not [message for message in model.shown[2] if message["role"] == "tool"]
    assert [step.result for step in memory.episodes()[0].steps] == ["output of df"]


@pytest.mark.parametrize("over", [False, True])
def test_execution_memory_is_thought_action_and_observation_until_the_task_ends(over: bool) -> None:
    """A run's steps are messages a model takes, and are freed when it is over."""
    scratch = Scratch()
    scratch.think("The disk may be full.")
    scratch.act([ToolCall(id="c", name="df", arguments="{}")])
    scratch.observe("c", "100 %")
    if over:
        scratch.clear()
    roles = [message.role for message in scratch.messages]
    assert roles == ([] if over else ["assistant", "assistant", "tool"])
