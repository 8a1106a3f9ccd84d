"""The scratch pad of a run: thoughts, actions and observations, apart from the conversation."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jiyi.compression import Compressed
from jiyi.errors import InputError
from jiyi.prompts import wording
from jiyi.records import Message, Task, ToolCall
from jiyi.records.checks import new_id
from jiyi.text import language

__all__ = ["Scratch", "describe_call"]

_LONGEST = 200  # characters of a call in words


class Scratch:
    """What the model thought, did and saw in one run, as messages after the question.

    - Conversation memory does not know it: give `messages` to ``build_context(scratch=...)``
      at each step, and `clear` it in the end.
    - The messages are always such as a chat API takes: a call is followed by its result.
    - A long observation is shown shortened; what is whole stays where it was stored, under
      the id it was given, which the shortened text names.

    Args:
        task_id: the task whose steps keep all this; "" where there is none.
        shorten: makes a long observation smaller, such as `jiyi.compression.ToolOutput`; as
            they are where it is left out.
    """

    def __init__(self, task_id: str = "", *, shorten: Callable[[Message], Compressed] | None = None) -> None:
        self.task_id = task_id
        self._shorten = shorten
        self._messages: list[Message] = []
        self._open: dict[str, ToolCall] = {}  # calls without a result, all of the newest action
        self._begun = 0  # the place of that action

    @classmethod
    def from_task(cls, task: Task, *, shorten: Callable[[Message], Compressed] | None = None) -> "Scratch":
        """Return the scratch of a task that was interrupted, made again from its steps.

        Steps without a tool, such as those of a plan, are not in it: the task's own block shows
        them. A step that had no result when it was interrupted says so.
        """
        scratch = cls(task.id, shorten=shorten)
        for step in task.steps:
            if step.tool_name is None:
                continue
            written = json.dumps(dict(step.args), ensure_ascii=False)
            call = ToolCall(id=f"call_{step.id}", name=step.tool_name, arguments=written)
            plain = step.description == describe_call(step.tool_name, step.args)
            scratch.act([call], "" if plain else step.description)
            ended = step.status in ("completed", "failed") and step.result is not None
            seen = (step.result or "") if ended else wording("task", language(task.request))["interrupted"]
            scratch.observe(call.id, seen, id=step.id)
        return scratch

    @property
    def messages(self) -> list[Message]:
        """All of it, oldest first; calls whose results are still missing are not shown yet."""
        return list(self._messages if not self._open else self._messages[: self._begun])

    def think(self, text: str) -> None:
        """Add a thought of the model: words without an action.

        Raises:
            InputError: a call has no result yet.
        """
        self._add(Message(role="assistant", content=text))

    def note(self, text: str) -> None:
        """Add something the model is told, such as that it was interrupted; raises as `think` does."""
        self._add(Message(role="user", content=text))

    def act(self, calls: Sequence[ToolCall], thought: str = "") -> None:
        """Add an action of the model: the tools it calls, with the words it said with them.

        Raises:
            InputError: there are no calls, two have one id, or an earlier one has no result yet.
        """
        if not calls or len({call.id for call in calls}) < len(calls):
            raise InputError("an action has at least one tool call, each with an id of its own")
        # Some endpoints want the field, even where it is empty.
        silent = {} if thought else {"content": None}
        self._add(Message(role="assistant", content=thought or None, tool_calls=tuple(calls), extra=silent))
        self._begun = len(self._messages) - 1
        self._open = {call.id: call for call in calls}

    def observe(self, call_id: str, text: str, *, id: str | None = None) -> Message:
        """Add what came of a call and return it as it is shown.

        ``id`` is where the whole text can be found again, such as the id of the step; a new
        one where it is left out.

        Raises:
            InputError: no such call waits for its result.
        """
        if call_id not in self._open:
            raise InputError(f"no call {call_id!r} waits for a result; add it with act() first")
        seen = Message(role="tool", tool_call_id=call_id, content=text, id=id or new_id())
        if self._shorten is not None:
            shown = self._shorten(seen).text
            seen = Message(role="tool", tool_call_id=call_id, content=shown, id=seen.id)
        self._messages.append(seen)
        del self._open[call_id]
        return seen

    def clear(self) -> None:
        """Free everything: the run is over."""
        self._messages.clear()
        self._open.clear()

    def _add(self, message: Message) -> None:
        if self._open:
            raise InputError(f"the calls {', '.join(self._open)} have no result yet; observe() them first")
        self._messages.append(message)


def describe_call(name: str, args: Mapping[str, Any]) -> str:
    """Return a tool call in words, for a step that nothing else was said about; at most 200 characters."""
    words = f"{name} {json.dumps(dict(args), ensure_ascii=False)}" if args else name
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"
