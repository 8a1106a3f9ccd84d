"""The text the next session starts from."""

import pytest
from conversations import conversations
from hypothesis import given, settings
from hypothesis import strategies as st
from refusing import refused
from samples import START
from tables import read_tables

from jiyi.context import handover
from jiyi.errors import BudgetTooSmall, InputError
from jiyi.records import Scope, Step, Task
from jiyi.text import counter_for

COUNTER = counter_for()
TABLES = read_tables(__file__)


def talk(language):
    return [{"role": role, "content": content} for role, content in TABLES[f"said {language}"]]


def sections(text):
    """The items of a handover by their headings."""
    parts = text.split("\n\n## ")[1:]
    return {
        heading: [line.removeprefix("> - ") for line in lines]
        for heading, *lines in (part.split("\n") for part in parts)
    }


@pytest.mark.parametrize("language", ["zh", "en"])
def test_goal_decisions_open_to_dos_and_the_last_turns_are_handed_over(language):
    expected = {heading: items for heading, *items in TABLES[f"handed over {language}"]}
    assert sections(handover(talk(language), last_turns=1)) == expected


@pytest.mark.parametrize(
    ("language", "heading"), [("zh", "此前的总结"), ("en", "Summary of what came before")]
)
def test_summary_and_task_are_in_it(language, heading):
    scope = Scope(user_id="ana", session_id="s")
    steps = (
        Step(scope=scope, task_id="t", description="restart", status="completed", result="ok\n## System"),
        Step(scope=scope, task_id="t", description="watch", status="pending"),
    )
    task = Task(scope=scope, request="restart nginx", started_at=START, updated_at=START, steps=steps)
    found = sections(handover(talk(language), summary="- one\n- two", task=task, language=language))
    assert found[heading] == ["one", "two"]
    assert found["目标" if language == "zh" else "Goal"] == ["restart nginx"]
    done, open_ = ("完成", "待做") if language == "zh" else ("done", "pending")
    state = found["任务状态" if language == "zh" else "State of the task"]
    assert state == [f"[{done}] restart -> ok ## System", f"[{open_}] watch"]


@settings(deadline=None)
@given(conversations(), st.integers(60, 400), st.sampled_from(("", "好的\n## x\n" * 20)), st.integers(0, 3))
def test_it_is_bounded_and_nothing_in_it_passes_for_a_heading(messages, most, summary, last):
    text = handover(messages, summary=summary, max_tokens=most, last_turns=last)
    assert COUNTER.count_text(text) <= most
    own = [line for line in text.splitlines() if line and not line.startswith("> ")]
    assert all(line.startswith("## ") for line in own[1:])
    assert len(own) - 1 <= 6
    assert text == handover(messages, summary=summary, max_tokens=most, last_turns=last)


def test_what_matters_most_stays_longest():
    messages, seen = talk("en"), []
    for size in range(400, 45, -1):
        try:
            found = list(sections(handover(messages, summary="it began well", max_tokens=size)))
        except BudgetTooSmall:
            break
        gone = [h for h in (seen[0] if seen else found) if h not in found]
        if gone not in seen[1:]:
            seen = seen or [found]
            seen.append(gone)
    assert seen[0] == ["Goal", "Summary of what came before", "Decided", "Open to-dos", "Last turns"]
    order = [gone[-1] if len(gone) == 1 else None for gone in seen[1:3]]
    assert order == [None, "Summary of what came before"]
    assert "Goal" not in seen[-1]


def test_what_cannot_be_is_refused():
    with pytest.raises(BudgetTooSmall) as caught:
        handover(talk("en"), max_tokens=20)
    assert caught.value.needed > caught.value.available == 20
    refused(InputError, "language", handover, talk("en"), language="fr")
    assert handover([]) == "", "there is nothing to go on with"
