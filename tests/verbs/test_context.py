"""The window from the outside: summary, skills, task types, tool outputs."""

import json
from datetime import UTC, datetime

import pytest
from doing import talk
from reading_model import FixedModel
from refusing import refused

from jiyi.compression import PruneTokens
from jiyi.errors import LLMUnreachable, NotFound
from jiyi.records import Message


def returned(memory, name, result, question):
    """Save a question, a call of a tool and what came of it; return the message of the last."""
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": "{}"}}
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    answer = {"role": "tool", "tool_call_id": "c1", "content": result}
    return memory.save_messages("s", [{"role": "user", "content": question}, asked, answer])[-1]


@pytest.fixture
def skills(write_skill):
    for name, description, body in (
        ("restart-nginx", "Restart nginx after a 502 error.", "Run `systemctl restart nginx`."),
        ("write-report", "Write the weekly report for the board.", "Begin with the figures."),
    ):
        folder = write_skill(name, f"name: {name}\ndescription: {description}", f"# {name}\n\n{body}\n")
    return folder.parent


def test_a_long_conversation_shows_its_summary_and_its_last_turns(memory):
    memory.save_message("s", role="user", content="记住：生产数据库的端口是 6543")
    memory.save_message("s", role="assistant", content="好的，记住了")
    talk(memory, 30)
    window = memory.build_context("s", "what next?", 3_000, system="You run servers.")
    first = window.messages[0]
    assert first["role"] == "system"
    assert first["content"].startswith("You run servers.")
    assert "记住：生产数据库的端口是 6543" in first["content"]
    assert [step.what for step in window.report.steps][:1] == ["summarised"]
    assert window.report.sections["summary"] > 0
    assert window.report.tokens <= 3_000
    assert len([i for i in window.report.included if i.section == "history"]) == 6
    summary = memory.summary("s")
    assert summary.method == "extractive"
    assert len(summary.covers) == 62 - 6


def test_by_hand_and_as_a_message_of_its_own(open_memory):
    memory = open_memory(summary_place="message")
    assert memory.summarize_session("s") is None
    talk(memory, 5)
    assert memory.summary("s") is None
    made = memory.summarize_session("s")
    assert len(made.covers) == 4
    first = memory.build_context("s", "?", 3_000, system="You run servers.").messages[:2]
    assert first[0] == {"role": "system", "content": "You run servers."}
    assert first[1]["role"] == "user"
    assert made.text.splitlines()[0] in first[1]["content"]


def test_switched_off_nothing_is_folded(open_memory):
    memory = open_memory(summaries="off")
    talk(memory, 40)
    window = memory.build_context("s", "?", 3_000)
    assert memory.summary("s") is None
    assert window.report.sections["summary"] == 0
    assert any("older messages" in note for note in window.report.notes)


def test_a_window_begins_with_cards_and_opens_what_the_question_is_for(open_memory, skills):
    memory = open_memory(skills=[str(skills)])
    assert [skill.name for skill in memory.skills()] == ["restart-nginx", "write-report"]
    window = memory.build_context("s", "how are you?", 2_000)
    head = window.messages[0]["content"]
    assert "restart-nginx" in head
    assert "systemctl" not in head
    assert window.report.saved["skills"] > 0
    window = memory.build_context("s", "restart nginx, it gives a 502 error", 2_000)
    assert "systemctl restart nginx" in window.messages[0]["content"]
    assert memory.opened_skills("s") == ("restart-nginx",)
    assert memory.opened_skills("elsewhere") == ()


def test_a_task_changes_the_skills_and_what_the_user_opened_stays_whatever_is_asked(open_memory, skills):
    memory = open_memory(skills=[str(skills)])
    assert "systemctl" in memory.open_skill("s", "restart-nginx")
    memory.start_task("s", "write the weekly report for the board")
    assert memory.opened_skills("s") == ("write-report",)
    assert memory.close_skill("s", "write-report")
    assert not memory.close_skill("s", "write-report")
    memory.open_skill("t", "restart-nginx")
    memory.build_context("t", "write the weekly report for the board", 2_000)
    assert memory.opened_skills("t") == ("restart-nginx", "write-report")


def test_a_question_for_another_skill_swaps_and_the_report_says_so(open_memory, skills):
    memory = open_memory(skills=[str(skills)])
    memory.build_context("s", "restart nginx, it gives a 502 error", 2_000)
    window = memory.build_context("s", "write the weekly report for the board", 2_000)
    assert memory.opened_skills("s") == ("write-report",)
    head = window.messages[0]["content"]
    assert "Begin with the figures" in head
    assert "systemctl" not in head
    (step,) = window.report.steps
    assert (step.what, step.items) == ("swapped skills", 2)
    assert step.note.startswith("closed restart-nginx; opened write-report: the question, ")
    assert (step.tokens_before, step.tokens) == (12, 9)
    assert memory.build_context("s", "the board wants the report", 2_000).report.steps == ()
    assert memory.opened_skills("s") == ("write-report",)


@pytest.mark.parametrize("end", ["complete_task", "fail_task"])
def test_a_task_that_ends_closes_what_it_opened(open_memory, skills, end):
    memory = open_memory(skills=[str(skills)])
    task = memory.start_task("s", "write the weekly report for the board")
    memory.open_skill("s", "restart-nginx")
    getattr(memory, end)(task.id)
    assert memory.opened_skills("s") == ("restart-nginx",)
    began, ended = memory.build_context("s", "hello", 2_000).report.steps
    assert began.note.startswith("opened write-report: a task began, ")
    assert (ended.note, ended.items, ended.tokens_before) == ("closed write-report: the task ended", 1, 9)


def test_skills_that_are_not_there(open_memory, skills):
    memory = open_memory()
    assert memory.skills() == []
    assert memory.opened_skills("s") == ()
    assert not memory.close_skill("s", "x")
    refused(NotFound, "skills=", memory.open_skill, "s", "x")
    refused(NotFound, "restart-nginx", open_memory(skills=[str(skills)]).open_skill, "s", "x")


def test_a_large_tool_output_is_shortened_and_can_be_opened(memory):
    lines = [f"row {n}: nothing to see" for n in range(600)]
    lines[300] = "ERROR disk sda1 failed at block 7"
    result = returned(memory, "log", "\n".join(lines), "read the log")
    memory.save_message("s", role="assistant", content="the disk failed")
    window = memory.build_context("s", "what now?", 2_000)
    shown = next(m["content"] for m in window.messages if m["role"] == "tool")
    assert "ERROR disk sda1" in shown
    assert result.id in shown
    assert window.report.saved["tool_output"] > 1_000
    assert memory.session_health("s", 2_000).length < 0.3, "as the window shows it"
    page = memory.open_output(result.id, max_tokens=200)
    assert page.text.startswith("row 0")
    assert "row 300" not in page.text
    assert memory.open_output(result.id, page.next_offset, max_tokens=200).offset == page.next_offset
    refused(NotFound, "no message and no step", memory.open_output, "nothing")


def test_the_life_of_a_session(open_memory):
    memory = open_memory(max_turns=5)
    memory.save_message("s", role="user", content="Find out why orders-api runs out of memory")
    talk(memory, 30)
    assert memory.session_health("s").length < 0.1
    assert memory.session_advice("s").action == "continue"
    assert memory.session_health("s", 100).length > 1
    assert memory.session_advice("s", 100).action != "continue"
    text = memory.handover("s", 400)
    assert "Find out why orders-api runs out of memory" in text
    assert "9029" in text
    assert memory.counter.count_text(text) <= 400
    memory.start_task("s", "Raise the limit of orders-api")
    assert "Raise the limit of orders-api" in memory.handover("s")


def test_what_is_not_relevant_stays_out_and_the_window_says_when_nothing_is(open_memory):
    memory = open_memory(timezone="Asia/Shanghai")
    memory.save_message("old", role="user", content="The wifi of the flat is called tulip.")
    memory.remember(subject="flat", predicate="rent", object="900 euros")
    memory.flush()
    asked_at = datetime(2026, 3, 22, 2, 30, tzinfo=UTC)
    window = memory.build_context("new", "How do I bake bread?", asked_at=asked_at)
    assert [m["content"] for m in window.messages] == [
        "It is Sunday, 2026-03-22 10:30 (Asia/Shanghai).\nThe memory may not hold the answer to this.",
        "How do I bake bread?",
    ]
    report = window.report
    assert report.nothing_relevant > 0.5
    assert report.to_dict()["nothing_relevant"] == report.nothing_relevant
    assert sorted(item.kind for item in report.left_out) == ["fact", "fact", "message"]
    assert all(item.reason.startswith("below the threshold; relevance 0.") for item in report.left_out)
    assert window.report.sections["recalled"] == window.report.sections["knowledge"] == 0
    again = memory.build_context("new", "How do I bake bread?", asked_at=asked_at, recalled=window)
    assert again.messages == window.messages
    assert "tulip" in memory.build_context("new", "What is the wifi of the flat called?").markdown
    everything = open_memory(recall_floor="off").build_context("new", "How do I bake bread?").markdown
    assert "tulip" in everything
    assert "900 euros" in everything


def test_a_window_without_room_for_its_opening_has_none(memory):
    memory.save_message("old", role="user", content="The wifi of the flat is called tulip.")
    question = "How do I bake bread?"
    least = memory.counter.count_all([Message(role="user", content=question)])
    for budget in (least, least + 20, least + 60):
        window = memory.build_context("new", question, budget)
        assert window.report.tokens <= budget
        assert len(window.messages) == 1 + (budget == least + 60)


def test_recalled_texts_can_be_made_smaller_or_given(memory):
    said = "well, you know, the port of pay-gw is actually 8443, I think"
    memory.save_message("old", role="user", content=said)
    plain = memory.build_context("s", "which port has pay-gw?", 2_000)
    pruned = memory.build_context("s", "which port has pay-gw?", 2_000, compress=PruneTokens(0.5))
    assert [block.source_id for block in pruned.blocks] == [block.source_id for block in plain.blocks]
    assert pruned.report.sections["recalled"] < plain.report.sections["recalled"]
    assert "8443" in pruned.blocks[-1].text
    memory.save_message("old", role="user", content="pay-gw listens on port 9443 from now on")
    same = memory.build_context("s", "which port has pay-gw?", 2_000, recalled=plain)
    assert [block.text for block in same.blocks] == [block.text for block in plain.blocks]


def test_the_steps_of_a_run_stand_behind_the_question_and_not_in_the_task_too(memory):
    task = memory.start_task("s", "restart nginx")
    memory.add_step(task.id, "docker restart nginx", tool_name="shell", status="completed", result="done")
    call = {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": "{}"}}
    run = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]
    assert "docker restart" in memory.build_context("s", "restart nginx", 2_000).markdown
    window = memory.build_context("s", "restart nginx", 2_000, scratch=run)
    assert [m["role"] for m in window.messages[-3:]] == ["user", "assistant", "tool"]
    assert "docker restart" not in window.markdown
    assert memory.session_messages("s") == []


def test_a_small_window_shows_the_weightiest_of_the_summary(memory):
    memory.save_message("s", role="user", content="Remember: never restart the gateway before 22:00")
    talk(memory, 30)
    memory.build_context("s", "?", 3_000)
    window = memory.build_context("s", "?", 400)
    assert window.report.sections["summary"] < 130 < memory.summary("s").tokens
    assert "before 22:00" in window.messages[0]["content"]


def test_a_model_that_fails_is_an_error_by_hand_and_a_note_in_a_window(open_memory):
    memory = open_memory(llm=FixedModel(LLMUnreachable("nobody answers")))
    talk(memory, 30)
    refused(LLMUnreachable, "nobody answers", memory.summarize_session, "s")
    assert any("nobody answers" in note for note in memory.build_context("s", "?", 3_000).report.notes)
    assert memory.summary("s") is None


def test_a_secret_is_in_a_window_only_where_it_is_asked_for_or_was_said_in_the_session(open_memory):
    memory = open_memory(recall_floor="off")
    for said in ("The wifi password is tulip-88, the router is in the hall.", "银行卡的取款密码是 190827"):
        memory.save_message("home", role="user", content=said)
    memory.remember(subject="garage", predicate="door code", object="4471#")
    memory.flush()

    def window(question):
        built = memory.build_context("new", question)
        return built, "\n".join(message["content"] for message in built.messages)

    built, baking = window("How do I bake bread?")
    for secret in ("tulip-88", "190827", "4471#"):
        assert secret not in baking
    assert "The wifi password is [password hidden], the router is in the hall." in baking
    recalled = [i for i in built.report.included if i.section in ("recalled", "knowledge")]
    assert all("secret hidden" in item.reason for item in recalled)
    assert "[密码已隐藏]" in window("怎么烤面包？")[1]
    asked = window("What is the wifi password?")[1]
    assert "tulip-88" in asked
    assert "190827" not in asked
    assert "190827" in window("银行卡的取款密码是多少？")[1]
    assert "garage · door code: 4471#" in window("What is the door code of the garage?")[1]
    memory.save_message("s", role="user", content="The wifi password is tulip-88.")
    memory.save_message("s", role="assistant", content="Noted.")
    own = memory.build_context("s", "How do I bake bread?").messages
    assert "The wifi password is tulip-88." in [message["content"] for message in own]


def test_a_small_window_with_room_shows_messages_whole(memory):
    said = ["We deploy on Thursdays.", "Understood.", "The staging box is called heron, 10.2.0.14"]
    memory.save_messages("old", [{"role": "user", "content": text} for text in said])
    window = memory.build_context("new", "Which day do we deploy to heron, and at what address?", 200)
    assert all(f"] {text}\n" in window.messages[0]["content"] + "\n" for text in (said[0], said[2]))
    assert window.report.tokens <= 200


def test_a_record_of_a_long_json_is_recalled_whole(memory):
    orders = [{"id": f"A-{n}", "status": ["shipped", "returned"][n % 2], "to": {"no": n}} for n in range(400)]
    returned(memory, "list_orders", json.dumps({"orders": orders}, indent=1), "Where are my orders?")
    shown = memory.build_context("new", "What is the status of A-317?", 2_000).messages[0]["content"]
    assert 'orders {"id": "A-317", "status": "returned", "to": {"no": 317}}' in shown
