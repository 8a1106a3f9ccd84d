"""The task in hand as a block of context."""

from jiyi.records import Block, Task
from jiyi.text import TokenCounter
from jiyi.text.cut import clipped

__all__ = ["task_block"]

_WORDS = {
    "zh": {
        "goal": "目标",
        "target": "对象",
        "now": "当前步骤",
        "in_progress": "进行中",
        "pending": "待做",
        "completed": "完成",
        "failed": "失败",
    },
    "en": {
        "goal": "Goal",
        "target": "Target",
        "now": "Now",
        "in_progress": "in progress",
        "pending": "pending",
        "completed": "done",
        "failed": "failed",
    },
}
_LONGEST_RESULT = 160


def task_block(task: Task, counter: TokenCounter, language: str) -> Block:
    """Return the task as Markdown: goal, steps with their states, the step in work."""
    words = _WORDS[language]
    lines = [f"{words['goal']}: {task.request}"]
    if task.target:
        lines.append(f"{words['target']}: {task.target}")
    for number, step in enumerate(task.steps, 1):
        result = f" -> {clipped(' '.join(step.result.split()), _LONGEST_RESULT)}" if step.result else ""
        lines.append(f"{number}. [{words[step.status]}] {step.description}{result}")
    if task.current_step is not None:
        lines.append(f"{words['now']}: {task.current_step.description}")
    text = "\n".join(lines)
    return Block(
        section="task",
        text=text,
        tokens=counter.count_text(text),
        kind="task",
        source_id=task.id,
        created_at=task.started_at,
        score=1.0,
    )
