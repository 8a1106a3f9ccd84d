"""What context engineering asks: few tokens of high signal, at the right place, and skills when needed."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

import jiyi
from jiyi import Budget, Message
from jiyi.context import edges
from jiyi.errors import BudgetTooSmall
from jiyi.records import Block
from jiyi.testing import ManualClock

Open = Callable[..., jiyi.MemoryManager]
SKILLS = {
    "restart-nginx": ("Restart nginx after a 502 error.", "Run `systemctl restart nginx`."),
    "write-report": ("Write the weekly report for the board.", "Begin with the figures."),
}


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    for name, (description, body) in SKILLS.items():
        folder = tmp_path / "skills" / name
        folder.mkdir(parents=True)
        text = f"---\nname: {name}\ndescription: {description}\n---\n# {name}\n\n{body}\n\nFor example: ..."
        (folder / "SKILL.md").write_text(text, "utf-8")
        (folder / "details.md").write_text(f"Details of {name}.", "utf-8")
    return tmp_path / "skills"


def work(memory: jiyi.MemoryManager, request: str) -> None:
    memory.complete_task(memory.start_task("old", request).id, summary="done")


def test_only_what_has_to_do_with_the_question_is_shown(memory: jiyi.MemoryManager) -> None:
    """What does not serve the question stays out though there is room, and the report says why."""
    said = memory.save_message("old", role="user", content="The wifi of the flat is called tulip.")
    memory.flush()
    report = memory.build_context("new", "How do I bake bread?", 8_000).report
    assert report.sections["recalled"] == 0
    assert {item.id: "below" in item.reason for item in report.left_out}[said.id]
    asked = memory.build_context("new", "What is the wifi of the flat called?", 8_000)
    assert "tulip" in asked.markdown


def test_what_matters_most_stands_at_the_beginning_and_the_end() -> None:
    """The best block is first, the second best last, and the least are in the middle."""
    blocks = [Block(section="knowledge", text=str(n), tokens=1, score=n) for n in range(7)]
    assert [block.text for block in edges(blocks)] == ["6", "4", "2", "0", "1", "3", "5"]


def test_a_window_puts_its_best_experience_at_the_edges(open_memory: Open) -> None:
    """In a window the experiences stand in that order, and the question last of all."""
    memory = open_memory(recall_floor="off", clock=ManualClock(datetime(2026, 1, 5, tzinfo=UTC)))
    for request in (
        "nginx",
        "nginx 502",
        "nginx 502 on web-7",
        "nginx 502 on web-7 at night",
        "paint the fence",
    ):
        work(memory, request)
    memory.flush()
    window = memory.build_context("s", "nginx 502 on web-7 at night?")
    ranked = [b for b in window.blocks if b.section == "episodes"]
    ranked.sort(key=lambda block: -block.score)
    text = next(str(m["content"]) for m in window.messages if "[success]" in str(m["content"]))
    shown = sorted(ranked, key=lambda block: text.index(block.text))
    assert len(shown) == 5
    assert [block.text for block in shown] == [block.text for block in edges(ranked)]
    assert (shown[0], shown[-1]) == (ranked[0], ranked[1])
    assert window.messages[-1]["content"] == "nginx 502 on web-7 at night?"


def test_a_light_registry_of_skills_stands_in_the_system_prompt(open_memory: Open, skills: Path) -> None:
    """Of each skill the name and short description are shown, and nothing of what it says."""
    memory = open_memory(skills=[str(skills)])
    system = memory.build_context("s", "hello", 2_000).messages[0]
    assert system["role"] == "system"
    for name, (description, body) in SKILLS.items():
        assert f"- {name}: {description}" in system["content"]
        assert body not in system["content"]
    assert {skill.name: skill.description for skill in memory.skills()} == {
        name: description for name, (description, _) in SKILLS.items()
    }


def test_a_router_loads_a_skill_when_it_is_needed(open_memory: Open, skills: Path) -> None:
    """The question opens the skill it is for; its further files are read on demand."""
    memory = open_memory(skills=[str(skills)])
    window = memory.build_context("s", "restart nginx, it gives a 502 error", 2_000)
    assert memory.opened_skills("s") == ("restart-nginx",)
    assert "systemctl restart nginx" in window.messages[0]["content"]
    assert "For example" in window.messages[0]["content"]
    assert "Details of" not in window.messages[0]["content"]
    assert "Details of restart-nginx." in memory.open_skill("s", "restart-nginx", "details.md")


def test_on_a_task_switch_the_old_skill_is_unloaded(open_memory: Open, skills: Path) -> None:
    """The next task closes what was opened for the one before and opens its own; its end closes that."""
    memory = open_memory(skills=[str(skills)])
    memory.start_task("s", "restart nginx after a 502 error")
    assert "systemctl" in memory.build_context("s", "go on", 2_000).messages[0]["content"]
    task = memory.start_task("s", "write the weekly report for the board")
    system = memory.build_context("s", "go on", 2_000).messages[0]["content"]
    assert "systemctl" not in system
    assert "Begin with the figures" in system
    memory.complete_task(task.id)
    assert memory.opened_skills("s") == ()


def test_the_core_is_never_dropped(memory: jiyi.MemoryManager) -> None:
    """System, pinned and current messages stay in any window, or it is refused and says what it needs."""
    memory.save_message("s", role="system", content="You run servers.")
    memory.save_message("s", role="user", content="Never restart by day.", pinned=True)
    for number in range(30):
        memory.save_message("s", role="user", content=f"and then {number} " * 9)
    core = [("system", "You run servers."), ("user", "Never restart by day."), ("user", "now?")]
    least = memory.counter.count_all([Message(role=role, content=text) for role, text in core])
    for size in (least, least + 40, 400):
        window = memory.build_context("s", "now?", size)
        found = [message["content"] for message in window.messages]
        assert found[0].startswith("You run servers.")
        assert "Never restart by day." in found
        assert found[-1] == "now?"
        assert window.report.tokens <= size
    with pytest.raises(BudgetTooSmall) as refused:
        memory.build_context("s", "now?", least - 1)
    assert (refused.value.needed, refused.value.available) == (least, least - 1)


def test_compression_comes_before_dropping(memory: jiyi.MemoryManager) -> None:
    """A long tool output is made shorter first; then nothing has to leave."""
    lines = [f"row {n}: nothing to see" for n in range(400)]
    call = {"id": "c", "type": "function", "function": {"name": "log", "arguments": "{}"}}
    memory.save_message("s", role="user", content="read the log")
    memory.save_message("s", {"role": "assistant", "content": None, "tool_calls": [call]})
    memory.save_message("s", {"role": "tool", "tool_call_id": "c", "content": "\n".join(lines)})
    memory.save_message("s", role="assistant", content="nothing")
    report = memory.build_context("s", "what now?", 1_500).report
    assert [step.what for step in report.steps] == ["shortened tool outputs"]
    assert [item for item in report.left_out if item.section == "history"] == []


def test_every_token_of_a_window_is_accounted_for(open_memory: Open) -> None:
    """The report knows what each section takes, what went in, and why something stayed out."""
    memory = open_memory(summaries="off")
    for number in range(15):
        memory.save_message("s", role="user", content=f"note {number} " * 20)
    window = memory.build_context("s", "now?", Budget(max_input_tokens=500, max_output_tokens=100))
    report = window.report
    assert sum(report.sections.values()) + report.framing == report.tokens <= 500
    assert report.included
    assert report.left_out
    assert all(item.reason for item in (*report.included, *report.left_out))
