"""The task in hand as a block of context."""

import json
from collections.abc import Mapping
from typing import Any

from jiyi.prompts import wording
from jiyi.records import Block, Task
from jiyi.text import TokenCounter
from jiyi.text.cut import clipped

__all__ = ["task_block"]

_LONGEST = 160  # characters of a result or of a note
_LONGEST_CONTEXT = 800  # characters of all notes together, and of the summary


def task_block(task: Task, counter: TokenCounter, language: str) -> Block:
    """Return the task as Markdown: request, status, context, steps with their states, the step in work.

    Context whose name begins with "_" is the program's own and is not shown.
    """
    words = wording("task", language)
    now = task.current_step
    shown = {
        "request": task.request,
        "status": words[task.status],
        "target": task.target,
        "context": clipped(_notes(task.context, words), _LONGEST_CONTEXT),
        "summary": clipped(_flat(task.summary or ""), _LONGEST_CONTEXT),
    }
    lines = [f"{words[name]}{words['is']}{text}" for name, text in shown.items() if text]
    for number, step in enumerate(task.steps, 1):
        result = f" -> {clipped(_flat(step.result), _LONGEST)}" if step.result else ""
        lines.append(f"{number}. [{words[step.status]}] {step.description}{result}")
    if now is not None:
        lines.append(f"{words['now']}{words['is']}{now.description}")
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


def _notes(context: Mapping[str, Any], words: Mapping[str, str]) -> str:
    told = (
        f"{_flat(name)}{words['is']}{clipped(_flat(_text(value)), _LONGEST)}"
        for name, value in context.items()
        if not name.startswith("_")
    )
    return words["and"].join(told)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _flat(text: str) -> str:
    return " ".join(text.split())
