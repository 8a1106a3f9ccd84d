"""The agent: goals, actions, memory and environment, and a model that brings them together."""

from collections.abc import Callable, Sequence
from typing import Any

from jiyi.agent.actions import Action, Environment, action
from jiyi.agent.loop import Loop, Parts
from jiyi.agent.memory import Work, unfinished
from jiyi.agent.run import Goal, Limits, Run, goals_of, system_prompt
from jiyi.errors import InputError, WrongState
from jiyi.llm import ChatLLM
from jiyi.manager import MemoryManager
from jiyi.prompts import load_prompt, wording
from jiyi.records import Budget, Message, Step
from jiyi.text import language

__all__ = ["Agent"]


class Agent:
    """Answers questions with a model, its tools and a memory.

    - Only questions and answers stay in the conversation. What was thought, done and seen in
      between follows the question while it is worked on, is kept as the steps of a task,
      and becomes an episode with it. Talk without tools makes no task.
    - Each step's window has recent messages and recalled text, which is quoted as data in front
      of the question; nothing recalled and no tool result speaks with the system's authority.
    - The model is offered the caller's actions, and tools over the memory: remember, recall,
      forget, plan, open_skill (where there are skills), open_output. An action of the same
      name takes the place of such a tool.
    - A call of an unknown tool, bad JSON, or arguments that do not fit are told to the model,
      which can mend them. The same failing call three times ends the run.
    - Ctrl-C, a crash or an endpoint that is away lose nothing that was said or done: `resume`
      goes on, also in another process. A new question ends what was left open as partly done.
    - Each run has its own state: one agent may serve several sessions at once, from several
      threads; in asyncio use ``await asyncio.to_thread(agent.run, ...)``. One session is for
      one run at a time.

    Args:
        goals: what it is for: texts or `Goal` values.
        actions: what it can do: `Action` values, or functions (see `action`).
        memory: the memory, with its user.
        environment: carries out the actions; one that waits a minute for each by default.
        llm: the model.
        limits: how much a run may take.
        budget: tokens of each window; from the memory's settings by default.
        system: words put in front of the goals in the system prompt.

    Raises:
        InputError: a goal, action or model is none, or two actions have one name.
    """

    def __init__(
        self,
        goals: str | Goal | Sequence[str | Goal],
        actions: Sequence[Action | Callable[..., Any]],
        memory: MemoryManager,
        environment: Environment | None = None,
        *,
        llm: ChatLLM,
        limits: Limits | None = None,
        budget: int | Budget | None = None,
        system: str = "",
    ) -> None:
        if not isinstance(llm, ChatLLM):
            raise InputError(f"llm must be a model with chat(), such as OpenAILLM, not {type(llm).__name__}")
        own = goals_of(goals)
        spoken = language("\n".join([system, *map(str, own)]))
        self._parts = Parts(
            memory=memory,
            llm=llm,
            environment=environment or Environment(),
            actions=_actions(actions),
            limits=limits or Limits(),
            budget=budget,
            system=system_prompt(own, system, spoken),
            language=spoken,
        )

    def run(
        self,
        question: str,
        session_id: str,
        on_text: Callable[[str], object] | None = None,
        on_step: Callable[[Step], object] | None = None,
    ) -> Run:
        """Save a question, work on it, and save the answer.

        Returns a `Run` in any case but those below; `Run.stopped` says why it ended:

        * "done": there is an answer; the task, if one was needed, became an episode.
        * "max_steps", "budget": a limit was reached, or the window has no room for what must
          be in it; the task became an episode that is partly done.
        * "failed": the model refused, or did not get on; the task became a failed episode.
          Where its endpoint could not be reached the task waits for `resume` instead.
        * "interrupted": Ctrl-C; the task waits for `resume`.

        Args:
            question: what is asked.
            session_id: the conversation; a new one is fine.
            on_text: told the model's words as they come, including those that come with tool calls.
            on_step: told each step that was carried out.

        Raises:
            InputError: the question is empty.
            StorageError: the database cannot take it.
        """
        if not isinstance(question, str) or not question.strip():
            raise InputError("a question must be text with something in it")
        self._end_left_open(session_id)
        asked = self._parts.memory.save_message(session_id, role="user", content=question)
        return Loop(self._parts, question, session_id, asked=asked, on_text=on_text, on_step=on_step).go()

    def resume(
        self,
        session_id: str,
        on_text: Callable[[str], object] | None = None,
        on_step: Callable[[Step], object] | None = None,
    ) -> Run:
        """Go on with what was interrupted in a session, from its steps in the store.

        Where no step had been done, the session's newest question is worked on again.

        Raises:
            WrongState: the session has no question.
            StorageError: the database cannot take it.
        """
        memory, parts = self._parts.memory, self._parts
        task = unfinished(memory, session_id)
        said = memory.session_messages(session_id, limit=100)
        place = max((i for i, message in enumerate(said) if message.role == "user"), default=None)
        if task is None and place is None:
            raise WrongState(f"session {session_id!r} has no question to go on with; ask one with run()")
        asked: Message | None = None if place is None else said[place]
        question = task.request if task else asked.text if asked else ""
        if asked is not None and asked.text != question:
            asked = None
        loop = Loop(parts, question, session_id, asked=asked, task=task, on_text=on_text, on_step=on_step)
        if task is not None or (place is not None and place < len(said) - 1):
            told = load_prompt("agent_resume", parts.language).substitute(question=question)
            loop.scratch.note(told)
        return loop.go()

    def _end_left_open(self, session_id: str) -> None:
        """End a task that an interrupted run left open: another question came first."""
        task = unfinished(self._parts.memory, session_id)
        if task is not None:
            left = Work(self._parts.memory, session_id, task.request, task.id)
            left.complete(wording("agent", self._parts.language)["moved_on"], "partial")


def _actions(given: Sequence[Action | Callable[..., Any]]) -> tuple[Action, ...]:
    made = tuple(one if isinstance(one, Action) else action(one) for one in given)
    names = [one.name for one in made]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"two actions are called {', '.join(twice)}; a model tells them apart by name")
    return made
