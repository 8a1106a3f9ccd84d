"""The scratch pad of a run: thoughts, actions and observations, separate from the conversation."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jiyi.compression import Compressed
from jiyi.errors import InputError
from jiyi.prompts import wording
from jiyi.records import Message, Task, ToolCall
from jiyi.records.checks import new_id
from jiyi.text import language

__all__ = ["Scratch", "describe_call"]

_MAX_CALL_LENGTH = 200  # characters of a call in words


class Scratch:
    """The thoughts, actions and observations of one run, as messages after the question.

    - It is not saved in the conversation: pass `messages` to ``build_context(scratch=...)`` at each step, and
      `clear` it at the end.
    - Chat APIs accept the messages: each call is followed by its result.
    - A long observation is shortened by ``shorten``, such as `jiyi.compression.ToolOutput`, and names the id
      under which the full text is stored: that of a step of the task ``task_id``.
    """

    def __init__(self, task_id: str = "", *, shorten: Callable[[Message], Compressed] | None = None) -> None:
        self.task_id = task_id
        self._shorten = shorten
        self._messages: list[Message] = []
        self._open_calls: list[str] = []  # ids of the newest action's calls without a result
        self._action_place = 0  # the place of the newest action

    @classmethod
    def from_task(cls, task: Task, *, shorten: Callable[[Message], Compressed] | None = None) -> "Scratch":
        """Rebuild the scratch pad of an interrupted task from its steps.

        Steps without a tool, such as those of a plan, are left out: the task's own block shows
        them. A step without a result is marked as interrupted.
        """
        scratch = cls(task.id, shorten=shorten)
        for step in task.steps:
            if step.tool_name is None:
                continue
            arguments = json.dumps(dict(step.args), ensure_ascii=False)
            call = ToolCall(id=f"call_{step.id}", name=step.tool_name, arguments=arguments)
            is_plain = step.description == describe_call(step.tool_name, step.args)
            scratch.act([call], "" if is_plain else step.description)
            ended = step.status in ("completed", "failed") and step.result is not None
            result = (step.result or "") if ended else wording("task", language(task.request))["interrupted"]
            scratch.observe(call.id, result, id=step.id)
        return scratch

    @property
    def messages(self) -> list[Message]:
        """The messages, oldest first, without calls whose results are still missing."""
        return list(self._messages if not self._open_calls else self._messages[: self._action_place])

    def note(self, text: str) -> None:
        """Add a note to the model, such as that it was interrupted; `InputError` if a call has no result."""
        self._add(Message(role="user", content=text))

    def act(self, calls: Sequence[ToolCall], thought: str = "") -> None:
        """Add tool calls with ids of their own, and a thought; `InputError` if a call has no result yet."""
        if not calls or len({call.id for call in calls}) < len(calls):
            raise InputError("an action has at least one tool call, each with an id of its own")
        # Some endpoints require the field, even if it is empty.
        extra = {} if thought else {"content": None}
        self._add(Message(role="assistant", content=thought or None, tool_calls=tuple(calls), extra=extra))
        self._action_place = len(self._messages) - 1
        self._open_calls = [call.id for call in calls]

    def observe(self, call_id: str, text: str, *, id: str | None = None) -> Message:
        """Add the result of a call and return it as shown; `InputError` if no such call waits for one.

        ``id`` is that of the full text, such as the id of the step; a new one by default.
        """
        if call_id not in self._open_calls:
            raise InputError(f"no call {call_id!r} waits for a result; add it with act() first")
        result = Message(role="tool", tool_call_id=call_id, content=text, id=id or new_id())
        if self._shorten is not None:
            result = replace(result, content=self._shorten(result).text)
        self._messages.append(result)
        self._open_calls.remove(call_id)
        return result

    def clear(self) -> None:
        """Remove everything, at the end of the run."""
        self._messages.clear()
        self._open_calls.clear()

    def _add(self, message: Message) -> None:
        if self._open_calls:
            raise InputError(f"{', '.join(self._open_calls)} have no result yet; observe() them first")
        self._messages.append(message)


def describe_call(name: str, args: Mapping[str, Any]) -> str:
    """Return a tool call as the description of a step, at most 200 characters."""
    words = f"{name} {json.dumps(dict(args), ensure_ascii=False)}" if args else name
    return words if len(words) <= _MAX_CALL_LENGTH else words[: _MAX_CALL_LENGTH - 1] + "…"
