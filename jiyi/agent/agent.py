"""The agent: a model with goals, actions, memory and environment."""

from collections.abc import Callable, Sequence
from typing import Any

from jiyi.agent.actions import Action, Environment, action
from jiyi.agent.loop import Loop, Parts
from jiyi.agent.memory import Work, find_unfinished_task
from jiyi.agent.run import Goal, Limits, Run, parse_goals, system_prompt
from jiyi.errors import InputError, WrongState
from jiyi.llm import ChatLLM
from jiyi.manager import MemoryManager
from jiyi.prompts import load_prompt, wording
from jiyi.records import Budget, Message, Step
from jiyi.text import language

__all__ = ["Agent"]


class Agent:
    """Answers questions with a model, its tools and a memory.

    - Only questions and answers stay in the conversation. Thoughts, calls and results follow the question
      during the run, are the steps of a task, and become an episode with it. Talk without tools creates no
      task.
    - The window of each step has recent messages and recalled text, which is quoted as data in front of the
      question; neither recalled text nor tool results become system messages.
    - The model is offered the actions of the caller, and memory tools: remember, recall, forget, plan,
      open_skill (if there are skills) and open_output. An action of the same name replaces a tool.
    - Calls of unknown tools, bad JSON and invalid arguments are reported to the model, which can correct
      them. The same failing call three times ends the run.
    - Ctrl-C, a crash or an unreachable endpoint lose nothing: `resume` continues, also in another process. A
      new question ends the unfinished task as partly done.
    - Each run has its own state: one agent may serve several sessions at once, from several threads; in
      asyncio use ``await asyncio.to_thread(agent.run, ...)``. A session takes one run at a time.

    ``environment`` executes the actions, by default with a time limit of a minute; ``budget`` is that of each
    window, by default from the settings of the memory; ``system`` stands before the goals in the system
    prompt.

    Raises `InputError`: a goal, action or model is invalid, or two actions have the same name.
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
        all_goals = parse_goals(goals)
        prompt_language = language("\n".join([system, *map(str, all_goals)]))
        self._parts = Parts(
            memory=memory,
            llm=llm,
            environment=environment or Environment(),
            actions=_check_actions(actions),
            limits=limits or Limits(),
            budget=budget,
            system=system_prompt(all_goals, system, prompt_language),
            language=prompt_language,
        )

    def run(
        self,
        question: str,
        session_id: str,
        on_text: Callable[[str], object] | None = None,
        on_step: Callable[[Step], object] | None = None,
    ) -> Run:
        """Save a question, work on it, and save the answer.

        ``on_text`` is called with each piece of text of the model, also of texts with tool calls, ``on_step``
        with each executed step. `Run.stopped` of the result says why the run ended:

        * "done": there is an answer; the task, if any, became an episode.
        * "max_steps", "budget": a limit was reached, or the window has no room for its required parts; the
          task became a partial episode.
        * "failed": the model refused, or made no progress; the task became a failed episode. If the endpoint
          could not be reached, the task waits for `resume` instead.
        * "interrupted": Ctrl-C; the task waits for `resume`.

        Raises `InputError` for an empty question, `StorageError` if the database cannot be written.
        """
        if not isinstance(question, str) or not question.strip():
            raise InputError("a question must be text with something in it")
        memory = self._parts.memory
        if task := find_unfinished_task(memory, session_id):
            work = Work(memory, session_id, task.request, task.id)
            work.complete(wording("agent", self._parts.language)["moved_on"], "partial")
        message = self._parts.memory.save_message(session_id, role="user", content=question)
        return Loop(self._parts, question, session_id, message, on_text=on_text, on_step=on_step).run()

    def resume(
        self,
        session_id: str,
        on_text: Callable[[str], object] | None = None,
        on_step: Callable[[Step], object] | None = None,
    ) -> Run:
        """Continue the interrupted run of a session from its stored steps.

        Without any step the newest question is worked on again. Raises `WrongState` if there is no question,
        `StorageError` if the database cannot be written.
        """
        memory, parts = self._parts.memory, self._parts
        task = find_unfinished_task(memory, session_id)
        messages = memory.session_messages(session_id, limit=100)
        index = max((i for i, each in enumerate(messages) if each.role == "user"), default=None)
        if task is None and index is None:
            raise WrongState(f"session {session_id!r} has no question to go on with; ask one with run()")
        message: Message | None = None if index is None else messages[index]
        question = task.request if task else message.text if message else ""
        if message is not None and message.text != question:
            message = None
        loop = Loop(parts, question, session_id, message, task, on_text, on_step)
        if task is not None or (index is not None and index < len(messages) - 1):
            note = load_prompt("agent_resume", parts.language).substitute(question=question)
            loop.scratch.note(note)
        return loop.run()


def _check_actions(given: Sequence[Action | Callable[..., Any]]) -> tuple[Action, ...]:
    actions = tuple(item if isinstance(item, Action) else action(item) for item in given)
    names = [item.name for item in actions]
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise InputError(f"two actions are called {', '.join(duplicates)}; a model tells them apart by name")
    return actions
