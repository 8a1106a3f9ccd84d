"""How large a window is and what goes in: the model, own kinds of task, numbers of records, the prompt."""

import re

import pytest
from refusing import refused
from scripted_chat import ScriptedChat, says

from jiyi.errors import BadQuery, InputError, SettingsError
from jiyi.records import Budget
from jiyi.settings import load_settings

SUPPORT = {"system": 800, "knowledge": 3_000, "history": 1_000, "input": 700, "output": 2_500}


def sizes(memory, **options):
    budget = memory.build_context("s", "?", **options).report.budget
    return budget.max_input_tokens, budget.max_output_tokens


def test_windows_are_as_set_and_never_more_than_the_model_takes(open_memory):
    assert sizes(open_memory()) == (8_000, 2_000)
    assert sizes(open_memory(max_input_tokens="model")) == (126_000, 2_000)
    small = open_memory(model="gpt-4")
    assert sizes(small) == (6_192, 2_000)
    assert small.build_context("s", "?").report.notes == (
        "the model 'gpt-4' takes less than is set: 6,192 tokens of input and 2,000 for the reply",
    )
    assert sizes(small, budget=7_000) == (7_000, 0)
    own = {"model": "gpt-4", "models": {"gpt-4": {"max_input_tokens": 7_500}}}
    assert sizes(open_memory(**own)) == (7_500, 2_000)
    assert sizes(open_memory(**own, max_output_tokens=77)) == (7_500, 77)


def test_an_unknown_model_says_what_was_assumed(open_memory):
    (note,) = open_memory(model="my-own").build_context("s", "?").report.notes
    assert note.startswith("the limits of the model 'my-own' are not known; 8,000 tokens of input and 2,000")
    assert open_memory(model="my-own", max_input_tokens=9_000).build_context("s", "?").report.notes == ()
    assumed = open_memory(model="my-own", max_input_tokens="model").build_context("s", "?")
    assert assumed.report.budget.max_input_tokens == 8_192 - 2_000
    assert "not known" in assumed.report.notes[0]
    given = open_memory().build_context("s", "?", Budget.for_model("my-own"))
    assert "8,192 tokens was assumed" in given.report.notes[0]


def test_own_task_types_and_an_unknown_one_which_is_a_conversation_as_the_report_says(open_memory):
    memory = open_memory(task_types={"support": SUPPORT})
    report = memory.build_context("s", "?", 2_000, task_type="support").report
    assert report.budget.shares["history"] == pytest.approx(0.25)
    assert report.notes == ()
    report = memory.build_context("s", "?", 2_000, task_type="cooking").report
    assert report.budget.shares == Budget(max_input_tokens=1).shared_as("conversation").shares
    (note,) = report.notes
    assert note.startswith("no task type is named 'cooking', so the budget is shared as for a conversation")
    assert note.endswith("code_generation, conversation, analysis, support")


def test_own_task_types_in_a_file(monkeypatch, tmp_path):
    (tmp_path / "jiyi.toml").write_text(
        "[task_types.support]\nsystem = 800\nknowledge = 3000\nhistory = 1000\noutput = 2500\n"
    )
    monkeypatch.chdir(tmp_path)
    assert load_settings().task_types["support"].history == 1_000


@pytest.mark.parametrize(
    "bad", [{"x": {"system": 1}}, {"x": SUPPORT | {"output": -1}}, {"x": SUPPORT | {"more": 1}}, {"x": 5}, 5]
)
def test_impossible_task_types_are_refused(bad):
    refused(SettingsError, "task_types", load_settings, task_types=bad)


def shown(window, kind):
    return sum(item.kind == kind for item in window.report.included)


def experienced(memory):
    for n in range(12):
        task = memory.start_task("old", f"restart nginx {n} after a 502", target="nginx")
        memory.add_step(task.id, f"docker restart nginx, try {n}", status="completed")
        memory.complete_task(task.id, summary=f"nginx {n} answered again after restart {n}")
    memory.flush()
    return memory


def test_as_many_episodes_and_knowledge_as_asked_for(open_memory):
    memory = experienced(open_memory(recall_floor=0))
    memory.run_consolidation()
    memory.flush()
    question, budget = "how do I restart nginx after a 502?", 20_000
    assert shown(memory.build_context("s", question, budget), "episode") == 5
    for count in (0, 1, 2, 7):
        window = memory.build_context("s", question, budget, episodes=count, knowledge=0)
        assert shown(window, "episode") == count
        assert shown(window, "knowledge") == 0
    assert shown(memory.build_context("s", question, budget, knowledge=1), "knowledge") == 1
    for wrong in (-1, 101, 1.5, True, "3"):
        refused(BadQuery, "episodes=", memory.build_context, "s", question, episodes=wrong)
        refused(BadQuery, "knowledge=", memory.build_context, "s", question, knowledge=wrong)


def test_as_many_as_the_settings_say(open_memory):
    memory = experienced(open_memory(recall_floor=0, max_episodes=2, max_knowledge=0))
    window = memory.build_context("s", "how do I restart nginx after a 502?", 20_000)
    assert (shown(window, "episode"), shown(window, "knowledge")) == (2, 0)


def test_the_compression_prompt_is_replaced_by_a_setting(open_memory, llm_at):
    with ScriptedChat(says("- talked"), says("- talked more")) as server:
        llm = llm_at(server.url, time_limit=10)
        memory = open_memory(llm=llm, reader="off", summary_prompt="Sum up in $limit tokens, $$1:\n$dialogue")
        for first in (0, 10):
            for n in range(first, first + 10):
                memory.save_message("s", role="user", content=f"question {n}")
            assert memory.summarize_session("s").method == "llm"
    first, second = (asked["messages"][0]["content"] for asked in server.asked)
    assert re.match(r"Sum up in \d+ tokens, \$1:\n> \[\d{4}-\d\d-\d\d\] User: question 0\n", first)
    assert re.match(r"Sum up in \d+ tokens, \$1:\n> - talked\n> \[[\d-]{10}\] User: question 7\n", second)


@pytest.mark.parametrize("bad", ["no place", "$dialogue and $other", "$dialogue costs $ 5"])
def test_a_prompt_that_cannot_be_filled_is_refused(bad):
    from jiyi.compression import Summarize

    refused(SettingsError, "summary_prompt", load_settings, summary_prompt=bad)
    refused(InputError, "places are", Summarize, prompt=bad)
