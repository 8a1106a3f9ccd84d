"""What a caller may add to a window: tool definitions, an own policy; and the order chat APIs demand."""

from conversations import assistant, calls, conversations, materials_of, result, user
from hypothesis import given, settings
from hypothesis import strategies as st
from refusing import refused

from jiyi.context import build_window
from jiyi.errors import BudgetTooSmall, InputError
from jiyi.records import Budget
from jiyi.short_term import SlidingWindow
from jiyi.text import counter_for

COUNTER = counter_for("gpt-4o")
TAKES = {"type": "object", "properties": {"host": {"type": "string"}}}
SHELL = {"name": "shell", "description": "Run a command on a host", "parameters": TAKES}
TOOLS = [{"type": "function", "function": SHELL}]


def window_of(talk, size=2_000, tools=(), policy=None):
    materials, budget = materials_of(talk, tools=tools), Budget(max_input_tokens=size)
    return build_window(materials, budget, counter=COUNTER, language="en", policy=policy)


def test_tool_definitions_take_their_tokens_from_the_budget():
    talk = [user("a"), assistant("b"), user("c")]
    bare, with_tools = window_of(talk), window_of(talk, tools=TOOLS)
    cost = COUNTER.count_tools(TOOLS)
    assert with_tools.report.tokens == bare.report.tokens + cost
    assert with_tools.report.framing == bare.report.framing + cost
    least = cost + COUNTER.count_all(talk[-1:])
    refused(BudgetTooSmall, "1 more than", window_of, talk[-1:], size=least - 1, tools=TOOLS)
    assert window_of(talk[-1:], size=least, tools=TOOLS).messages


def test_an_own_policy_looks_first_and_the_budget_still_holds():
    talk = [m for n in range(9) for m in (user(f"question {n}"), assistant("word " * 30))] + [user("now")]
    window = window_of(talk, policy=SlidingWindow(2))
    asked = [m["content"] for m in window.messages if m["role"] == "user"]
    assert asked == ["question 7", "question 8", "now"]
    assert {i.reason for i in window.report.left_out} == {"older than the last 2 turns"}
    tight = window_of(talk, size=90, policy=SlidingWindow(2))
    assert tight.report.tokens <= 90
    assert len(tight.report.left_out) + len(tight.report.included) == len(talk)
    refused(InputError, "must return Kept", window_of, [user("hello"), user("now")], policy=lambda *_: None)


def test_results_stand_behind_their_call_however_late_they_came():
    talk = [user("a"), calls("x", "y"), user("b"), result("y"), assistant("c"), result("x"), user("d")]
    sent = [m["role"] for m in window_of(talk).messages]
    assert sent == ["user", "assistant", "tool", "tool", "user", "assistant", "user"]


@settings(deadline=None, max_examples=80)
@given(conversations(max_size=20), st.integers(20, 800))
def test_no_message_stands_between_a_call_and_its_results(talk, size):
    try:
        sent = window_of(talk, size=size).messages
    except BudgetTooSmall:
        return
    owed: list[str] = []
    for message in sent:
        if message["role"] == "tool":
            owed.remove(message["tool_call_id"])
        else:
            assert not owed
            owed = [call["id"] for call in message.get("tool_calls") or ()]
    assert not owed
