"""Verbs about the current work: tasks with their steps, and the skills opened for them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, get_args

from jiyi.errors import BadQuery, NotFound
from jiyi.records import Episode, Listing, Outcome, Skill, Step, StepStatus, Task, TaskStatus, TriggerType
from jiyi.records.checks import check_choice
from jiyi.skills import Disclosure
from jiyi.verbs.base import Verbs
from jiyi.verbs.checks import Filters, Id


class TaskVerbs(Verbs):
    """Work on tasks; a task that ends becomes an episode."""

    def start_task(
        self,
        session_id: str,
        request: str,
        *,
        target: str | None = None,
        trigger_type: TriggerType = "user_request",
        tags: Sequence[str] = (),
        context: Mapping[str, Any] | None = None,
        started_at: datetime | None = None,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Task:
        """Start a task in a session; see `WorkingMemory.start`.

        Skills opened for what came before are closed, and the one the request is for is opened.
        """
        scope = self._scope(user_id, agent_id, session_id)
        task = self._working.start(
            scope,
            request,
            target=target,
            trigger_type=trigger_type,
            tags=tags,
            context=context,
            started_at=started_at,
        )
        if self._skills is not None:
            self._skills.of(scope).begin(task.id, request)
        return task

    def update_task(
        self,
        task_id: str,
        *,
        goal: str | None = None,
        summary: str | None = None,
        context: Mapping[str, Any] | None = None,
        at: datetime | None = None,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Task:
        """Change a task in progress: goal, summary so far, context; see `WorkingMemory.update`."""
        scope = self._scope(user_id, agent_id)
        return self._working.update(scope, task_id, goal=goal, summary=summary, context=context, at=at)

    def add_step(
        self,
        task_id: str,
        description: str,
        *,
        tool_name: str | None = None,
        args: Mapping[str, Any] | None = None,
        result: str | None = None,
        status: StepStatus = "in_progress",
        at: datetime | None = None,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Step:
        """Add a step to a task; see `WorkingMemory.add_step`."""
        scope = self._scope(user_id, agent_id)
        step = self._working.add_step(
            scope, task_id, description, tool_name=tool_name, args=args, result=result, status=status, at=at
        )
        self._report_step(step)
        return step

    def update_step(
        self,
        step_id: str,
        *,
        description: str | None = None,
        status: StepStatus | None = None,
        result: str | None = None,
        at: datetime | None = None,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Step:
        """Change a step's description, status or result; see `WorkingMemory.update_step`."""
        scope = self._scope(user_id, agent_id)
        step = self._working.update_step(
            scope, step_id, description=description, status=status, result=result, at=at
        )
        if status is not None:
            self._report_step(step)
        return step

    def complete_task(
        self,
        task_id: str,
        *,
        outcome: Outcome = "success",
        summary: str = "",
        at: datetime | None = None,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Episode:
        """End a task and return the episode it became; see `WorkingMemory.complete`.

        Skills that were opened for it or for questions since it began are closed.
        """
        scope = self._scope(user_id, agent_id)
        return self._end_task(self._working.complete(scope, task_id, outcome=outcome, summary=summary, at=at))

    def fail_task(
        self,
        task_id: str,
        *,
        reason: str = "",
        at: datetime | None = None,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Episode:
        """End a task that failed, as `complete_task` does, and return the episode it became."""
        failed = self._working.fail(self._scope(user_id, agent_id), task_id, reason=reason, at=at)
        return self._end_task(failed)

    def current_task(self, session_id: str, *, user_id: Id = None, agent_id: Id = None) -> Task | None:
        """Return the session's newest task in progress, with its steps, or None."""
        return self._working.current(self._scope(user_id, agent_id, session_id))

    def tasks(
        self,
        limit: int = 100,
        *,
        status: TaskStatus | None = None,
        filters: Filters = None,
        after: str | None = None,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Listing[Task]:
        """Return the user's tasks with their steps, newest first.

        ``status``, ``filters`` and ``after`` as in `session_messages`, which says what is refused; so is an
        unknown status.
        """
        if status is not None:
            check_choice("status", status, get_args(TaskStatus), BadQuery)
        return self._list_page("task", self._scope(user_id, agent_id), limit, after, filters, status=status)

    def _end_task(self, episode: Episode) -> Episode:
        """Close the skills opened for the task, and have its episode indexed."""
        if self._skills is not None:
            self._skills.of(episode.scope).end(episode.task_id or "")
        return self._indexed(episode)

    def _report_step(self, step: Step) -> None:
        """Report an ended step to the monitor, which detects runs that go astray."""
        if self._monitor is not None and step.status in ("completed", "failed"):
            done = f"{step.tool_name or ''} {step.description}".strip()
            session_id, succeeded = step.scope.session_id or "", step.status == "completed"
            self._monitor.step(session_id, done, succeeded, user_id=step.scope.user_id)


class SkillVerbs(Verbs):
    """Know-how that windows show when it is needed."""

    def skills(self) -> list[Skill]:
        """Return the available skills, without their bodies; see the setting ``skills``."""
        return [] if self._skills is None else list(self._skills.registry.skills)

    def opened_skills(self, session_id: str, *, user_id: Id = None, agent_id: Id = None) -> tuple[str, ...]:
        """Return the names of the skills whose bodies are in the session's window."""
        return () if self._skills is None else self._disclosure(session_id, user_id, agent_id).opened

    def open_skill(
        self,
        session_id: str,
        name: str,
        resource: str | None = None,
        *,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> str:
        """Open a skill for a session and return its text; it stays in the window until it is closed.

        With ``resource`` the text of that file of the skill is returned, and nothing is opened. A task that
        starts in the session closes what was opened for the one before. Raises `NotFound`, which names the
        skills or files there are, and `InputError` if it cannot be read.
        """
        return self._disclosure(session_id, user_id, agent_id).open(name, resource)

    def close_skill(self, session_id: str, name: str, *, user_id: Id = None, agent_id: Id = None) -> bool:
        """Take a skill's body out of the session's window; say whether it was open."""
        return self._skills is not None and self._disclosure(session_id, user_id, agent_id).close(name)

    def _disclosure(self, session_id: str, user_id: Id, agent_id: Id) -> Disclosure:
        if self._skills is None:
            raise NotFound("this memory has no skills; open it with skills=[folder] of NAME/SKILL.md")
        return self._skills.of(self._scope(user_id, agent_id, session_id))
