"""Tasks and their steps: started, updated, shown, and ended as episodes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime
from typing import Any, cast, get_args

from jiyi.clock import Clock, utc_now
from jiyi.compression import ToolOutput
from jiyi.errors import InputError, NotFound, WrongState
from jiyi.prompts import wording
from jiyi.records import Block, Kind, Message, Query, Record, Scope
from jiyi.records.checks import check_choice
from jiyi.records.experience import Episode, Outcome, Step, StepStatus, Task, TriggerType
from jiyi.storage.store import Store
from jiyi.text import TokenCounter
from jiyi.text.cut import clip, one_line

__all__ = ["WorkingMemory", "task_block"]

_MAX_NOTE_LENGTH = 160  # characters of a result or of a note
_MAX_CONTEXT_LENGTH = 800  # characters of all notes together, and of the summary
_MAX_FAILURE_TOKENS = 120  # of the result of the newest failed step: its errors tell what to do next

_ENDED = ("completed", "failed")


def task_block(task: Task, counter: TokenCounter, language: str) -> Block:
    """Return the task as Markdown, without context whose name begins with "_", which is internal."""
    words = wording("task", language)
    shown = {
        "request": task.request,
        "status": words[task.status],
        "target": task.target,
        "context": clip(_format_context(task.context, words), _MAX_CONTEXT_LENGTH),
        "summary": one_line(task.summary or "", _MAX_CONTEXT_LENGTH),
    }
    lines = [f"{words[name]}{words['is']}{text}" for name, text in shown.items() if text]
    failed = [step.id for step in task.steps if step.status == "failed"][-1:]
    for number, step in enumerate(task.steps, 1):
        short = one_line(step.result or "", _MAX_NOTE_LENGTH)
        if step.id in failed and short.endswith("…"):
            output = Message(role="tool", content=step.result, id=step.id)
            made = ToolOutput(counter=counter, max_tokens=_MAX_FAILURE_TOKENS)(output)
            short = " | ".join(" ".join(line.split()) for line in made.text.splitlines() if line.strip())
        result = f" -> {short}" if short else ""
        lines.append(f"{number}. [{words[step.status]}] {step.description}{result}")
    if (current := task.current_step) is not None:
        lines.append(f"{words['now']}{words['is']}{current.description}")
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


def _format_context(context: Mapping[str, Any], words: Mapping[str, str]) -> str:
    notes = []
    for name, value in context.items():
        if not name.startswith("_"):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            notes.append(f"{one_line(name, _MAX_NOTE_LENGTH)}{words['is']}{one_line(text, _MAX_NOTE_LENGTH)}")
    return words["and"].join(notes)


@dataclass(frozen=True, slots=True)
class WorkingMemory:
    """Stores tasks and their steps.

    Guarantees: a change is on disk when its call returns; two processes may work on one task; ending a task
    and writing its `Episode` is one transaction, and a task ends only once. A task without a target gets the
    value of ``target_key`` in its context, if that is text or an integer. Methods raise `NotFound` if the
    user has no such task or step, `WrongState` if the task has ended, and `InputError` for nothing to change,
    an empty or unknown value, or one of a wrong type.
    """

    store: Store
    _: KW_ONLY
    clock: Clock = utc_now
    target_key: str = ""

    def start(
        self,
        scope: Scope,
        request: str,
        *,
        target: str | None = None,
        trigger_type: TriggerType = "user_request",
        tags: Sequence[str] = (),
        context: Mapping[str, Any] | None = None,
        started_at: datetime | None = None,
    ) -> Task:
        """Start a task."""
        _check_text(request=request or "")
        _check_types(target=target)
        check_choice("trigger_type", trigger_type, get_args(TriggerType))
        if isinstance(tags, str) or not all(isinstance(tag, str) for tag in tags):
            raise InputError(f"tags must be a list of texts, not {tags!r}")
        now = started_at or self.clock()
        task = Task(
            scope=scope,
            request=request,
            target=target,
            trigger_type=trigger_type,
            tags=tuple(tags),
            context=dict(context or {}),
            started_at=now,
            updated_at=now,
        )
        self.store.put([task])
        return task

    def get(self, scope: Scope, task_id: str) -> Task:
        """Return a task with its steps."""
        return cast("Task", self._find(scope, "task", task_id, "start one with start_task()"))

    def current(self, scope: Scope) -> Task | None:
        """Return the newest task in progress in this scope, usually one session's."""
        query = Query(scope=scope, kinds=("task",), status="in_progress", newest_first=True, limit=1)
        return cast("Task | None", next(iter(self.store.find(query)), None))

    def update(
        self,
        scope: Scope,
        task_id: str,
        *,
        goal: str | None = None,
        summary: str | None = None,
        context: Mapping[str, Any] | None = None,
        at: datetime | None = None,
    ) -> Task:
        """Change a task in progress and return it; arguments left out change nothing.

        ``goal`` is the new request, ``summary`` the progress so far, kept when the task ends without another
        one; ``context`` are notes to add or replace, by name; None removes a note.
        """
        if goal is None and summary is None and context is None:
            raise InputError("nothing to change; give goal, summary or context")
        _check_text(goal=goal, summary=summary)
        names_ok = isinstance(context, Mapping | None) and all(isinstance(k, str) for k in context or ())
        if not names_ok or context == {}:
            raise InputError(f"context must be a dict of names and notes, at least one, not {context!r}")

        def update() -> Task:
            task = self._get_in_progress(scope, task_id)
            notes = {**task.context, **(context or {})}
            changed = replace(
                task,
                request=goal or task.request,
                summary=summary or task.summary,
                context={name: note for name, note in notes.items() if note is not None},
                updated_at=at or self.clock(),
            )
            self.store.put([changed])
            return changed

        return self.store.together(update)

    def add_step(
        self,
        scope: Scope,
        task_id: str,
        description: str,
        *,
        tool_name: str | None = None,
        args: Mapping[str, Any] | None = None,
        result: str | None = None,
        status: StepStatus = "in_progress",
        at: datetime | None = None,
    ) -> Step:
        """Add a step at the end of a task in progress."""
        _check_text(description=description or "")
        _check_types(tool_name=tool_name, result=result)

        def add() -> Step:
            task = self._get_in_progress(scope, task_id)
            now = at or self.clock()
            step = Step(
                scope=task.scope,
                task_id=task.id,
                description=description,
                tool_name=tool_name,
                args=dict(args or {}),
                result=result,
            )
            (stored,) = self.store.put([_set_status(step, status, now)])
            self.store.put([replace(task, updated_at=now)])
            return cast("Step", stored)

        return self.store.together(add)

    def update_step(
        self,
        scope: Scope,
        step_id: str,
        *,
        description: str | None = None,
        status: StepStatus | None = None,
        result: str | None = None,
        at: datetime | None = None,
    ) -> Step:
        """Change a step's description, status or result; arguments left out change nothing."""
        if description is None and status is None and result is None:
            raise InputError("nothing to change; give description, status or result")
        _check_text(description=description)
        _check_types(result=result)

        def update() -> Step:
            step = cast("Step", self._find(scope, "step", step_id, "add one with add_step()"))
            task = self._get_in_progress(scope, step.task_id)
            now = at or self.clock()
            result_now = step.result if result is None else result
            step = replace(step, description=description or step.description, result=result_now)
            step = step if status is None else _set_status(step, status, now)
            self.store.put([step, replace(task, updated_at=now)])
            return step

        return self.store.together(update)

    def complete(
        self,
        scope: Scope,
        task_id: str,
        *,
        outcome: Outcome = "success",
        summary: str = "",
        at: datetime | None = None,
    ) -> Episode:
        """End a task that reached its goal, at least in part, and return its episode.

        Without a summary its last one stays.
        """
        check_choice("outcome", outcome, get_args(Outcome))
        _check_types(summary=summary)

        def end() -> Episode:
            task = self._get_in_progress(scope, task_id)
            now = at or self.clock()
            target_note = task.context.get(self.target_key) if self.target_key else None
            ended = replace(
                task,
                status="failed" if outcome == "failed" else "completed",
                outcome=outcome,
                target=task.target or (str(target_note) if isinstance(target_note, str | int) else None),
                summary=summary or task.summary or "",
                updated_at=now,
                completed_at=now,
            )
            episode = Episode.of_task(ended)
            self.store.put([ended, episode])
            return episode

        return self.store.together(end)

    def fail(self, scope: Scope, task_id: str, *, reason: str = "", at: datetime | None = None) -> Episode:
        """End a task that missed its goal and return its episode."""
        return self.complete(scope, task_id, outcome="failed", summary=reason, at=at)

    def _find(self, scope: Scope, kind: Kind, id_: str, advice: str) -> Record:
        query = Query(scope=replace(scope, session_id=None), kinds=(kind,), ids=(id_,))
        if not (found := self.store.find(query)):
            raise NotFound(f"user {scope.user_id!r} has no {kind} {id_!r}; {advice}")
        return found[0]

    def _get_in_progress(self, scope: Scope, task_id: str) -> Task:
        task = self.get(scope, task_id)
        if task.status in _ENDED:
            raise WrongState(f"task {task_id!r} is already {task.status}; start a new one with start_task()")
        return task


def _set_status(step: Step, status: StepStatus, now: datetime) -> Step:
    check_choice("status", status, get_args(StepStatus))
    started = step.started_at or (None if status == "pending" else now)
    return replace(step, status=status, started_at=started, completed_at=now if status in _ENDED else None)


def _check_text(**texts: object) -> None:
    """Raise `InputError` for what is not text, or blank; None means not given."""
    for name, text in texts.items():
        if text is not None and (not isinstance(text, str) or not text.strip()):
            raise InputError(f"{name} must be text with something in it, not {text!r}")


def _check_types(**texts: object) -> None:
    for name, text in texts.items():
        if not isinstance(text, str | None):
            raise InputError(f"{name} must be text, not {type(text).__name__}")
