"""The task of a run: begun when something is done, kept step by step, ended once."""

from collections.abc import Mapping, Sequence
from typing import Any

from jiyi.manager import MemoryManager
from jiyi.records import Outcome, Step, Task

__all__ = ["Work", "unfinished"]

_MARK = {"_made_by": "jiyi.agent"}
_LONGEST = 1_000  # characters of an answer that the episode keeps; it is whole in the conversation
_DONE = "[x]"


class Work:
    """Keeps what a run does in a task of the memory.

    There is no task until something is done: talk alone leaves no episode.
    """

    def __init__(
        self, memory: MemoryManager, session_id: str, request: str, task: Task | None = None
    ) -> None:
        self.request = request
        self._memory = memory
        self._session_id = session_id
        self._task_id = task.id if task else None

    @property
    def task_id(self) -> str | None:
        """The id of the task, or None where there is none yet."""
        return self._task_id

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the task as stored."""
        if self._task_id is None:
            return ()
        found = self._memory.get(self._task_id)
        assert isinstance(found, Task)
        return found.steps

    def begin(self) -> str:
        """Begin the task, where that was not done yet, and return its id."""
        if self._task_id is None:
            self._task_id = self._memory.start_task(self._session_id, self.request, context=_MARK).id
        return self._task_id

    def step(self, description: str, tool_name: str, args: Mapping[str, Any]) -> Step:
        """Write down what is about to be done."""
        return self._memory.add_step(self.begin(), description, tool_name=tool_name, args=args)

    def seen(self, step: Step, text: str, *, ok: bool) -> Step:
        """Write down what came of a step, and return it."""
        return self._memory.update_step(step.id, status="completed" if ok else "failed", result=text)

    def plan(self, lines: Sequence[str], gone: str) -> list[Step]:
        """Make these the steps of the plan and return those that stand in it.

        A line that begins with ``[x]`` is done. Lines already in the plan stay; those no
        longer named count as failed where they were not done, with ``gone`` as their result.
        """
        known = {step.description: step for step in self.steps if step.tool_name is None}
        wanted: dict[str, bool] = {}
        for line in lines:
            done = line.strip().lower().startswith(_DONE)
            words = line.strip()[len(_DONE) :] if done else line.strip().removeprefix("[ ]")
            if words.strip():
                wanted[words.strip()] = done
        for words, done in wanted.items():
            step = known.get(words) or self._memory.add_step(self.begin(), words, status="pending")
            if done and step.status != "completed":
                self._memory.update_step(step.id, status="completed")
            elif not done and step.status == "failed":  # it was taken out once, and is back
                self._memory.update_step(step.id, status="pending", result="")
        for words, step in known.items():
            if words not in wanted and step.status == "pending":
                self._memory.update_step(step.id, status="failed", result=gone)
        return [step for step in self.steps if step.tool_name is None and step.description in wanted]

    def complete(self, summary: str, outcome: Outcome = "success") -> None:
        """End the task, if there is one; it becomes an episode."""
        if self._task_id is not None:
            short = summary if len(summary) <= _LONGEST else summary[: _LONGEST - 1] + "…"
            self._memory.complete_task(self._task_id, outcome=outcome, summary=short)

    def fail(self, reason: str) -> None:
        """End the task, if there is one, as failed; it becomes an episode."""
        if self._task_id is not None:
            self._memory.fail_task(self._task_id, reason=reason[:_LONGEST])


def unfinished(memory: MemoryManager, session_id: str) -> Task | None:
    """Return the newest task of an agent in this session that has not ended."""
    some = [task for task in memory.tasks(status="in_progress") if task.scope.session_id == session_id]
    return next((task for task in some if dict(task.context).items() >= _MARK.items()), None)
