"""The agent: a model with goals, actions, memory and environment."""

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from jiyi.agent.actions import Action, Environment, action
from jiyi.agent.memory import MemoryTools, Work, find_unfinished_task
from jiyi.agent.run import Goal, Limits, Run, Stopped, parse_goals, system_prompt
from jiyi.compression.tool_output import ToolOutput
from jiyi.errors import BudgetTooSmall, InputError, JiyiError, LLMError, LLMUnreachable, WrongState
from jiyi.llm import ChatLLM, Turn, Unfit, checker
from jiyi.manager import MemoryManager
from jiyi.prompts import load_prompt, wording
from jiyi.records import Budget, Message, Step, Task, ToolCall
from jiyi.text import language
from jiyi.working import Scratch, describe_call

_MAX_FAILURES = 3  # of the same call

_OnText = Callable[[str], object] | None
_OnStep = Callable[[Step], object] | None


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
        self._memory, self._llm, self._budget, self._language = memory, llm, budget, prompt_language
        self._environment, self._limits = environment or Environment(), limits or Limits()
        self._actions = [item if isinstance(item, Action) else action(item) for item in actions]
        counts = Counter(item.name for item in self._actions)
        if twice := ", ".join(sorted(name for name, count in counts.items() if count > 1)):
            raise InputError(f"two actions are called {twice}; a model tells them apart by name")
        self._system = system_prompt(all_goals, system, prompt_language)

    def run(self, question: str, session_id: str, on_text: _OnText = None, on_step: _OnStep = None) -> Run:
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
        memory = self._memory
        if task := find_unfinished_task(memory, session_id):
            work = Work(memory, session_id, task.request, task.id)
            work.complete(wording("agent", self._language)["moved_on"], "partial")
        message = memory.save_message(session_id, role="user", content=question)
        return _Loop(self, question, session_id, message, on_text=on_text, on_step=on_step).run()

    def resume(self, session_id: str, on_text: _OnText = None, on_step: _OnStep = None) -> Run:
        """Continue the interrupted run of a session from its stored steps.

        Without any step the newest question is worked on again. Raises `WrongState` if there is no question,
        `StorageError` if the database cannot be written.
        """
        memory = self._memory
        task = find_unfinished_task(memory, session_id)
        messages = memory.session_messages(session_id, limit=100)
        asked = [message for message in messages if message.role == "user"]
        if task is None and not asked:
            raise WrongState(f"session {session_id!r} has no question to go on with; ask one with run()")
        question = task.request if task else asked[-1].text
        message = asked[-1] if asked and asked[-1].text == question else None
        loop = _Loop(self, question, session_id, message, task, on_text, on_step)
        if task is not None or messages[-1] is not message:
            loop.scratch.note(load_prompt("agent_resume", self._language).substitute(question=question))
        return loop.run()


class _StopRun(Exception):
    def __init__(self, stopped: Stopped, reason: str) -> None:
        super().__init__(reason)
        self.stopped = stopped


@dataclass
class _Loop:
    """One run of an agent, for a question that is already saved; used once."""

    agent: Agent
    question: str
    session_id: str
    message: Message | None = None  # the saved question, which recall must not find
    task: Task | None = None  # of an interrupted run
    on_text: _OnText = None
    on_step: _OnStep = None

    def __post_init__(self) -> None:
        agent, task, message = self.agent, self.task, self.message
        self._words = wording("agent", agent._language)
        self._work = Work(agent._memory, self.session_id, self.question, task.id if task else None)
        self._counter = agent._memory.counter
        tools = MemoryTools(self._work, agent._language, {message.id} if message else ())
        shorten = ToolOutput(counter=self._counter)
        self.scratch = Scratch.from_task(task, shorten=shorten) if task else Scratch(shorten=shorten)
        # An action of the caller replaces a memory tool of the same name.
        self._actions = {action.name: action for action in (*tools.actions(), *agent._actions)}
        self._tools = [action.to_openai() for action in self._actions.values()]
        self._run = Run(answer="", stopped="done")  # what has been used so far
        self._partial_text: list[str] = []  # of the current turn, not saved yet
        self._answer: str | None = None  # after it is saved
        self._last_text = ""  # of the model
        self._failures: Counter[tuple[str, str]] = Counter()

    def run(self) -> Run:
        """Run until there is an answer, a limit is reached, or an error ends it."""
        try:
            answer = self._find_answer()
            self.agent._memory.save_message(self.session_id, role="assistant", content=answer)
            self._answer = answer
            self._partial_text.clear()
            self._work.complete(answer)
            return self._result("done")
        except KeyboardInterrupt:
            if self._answer is not None:
                self._work.complete(self._answer)
                return self._result("done")
            self._save_partial_text()
            return self._result("interrupted", "interrupted; resume() goes on")
        except LLMUnreachable as error:  # the task waits for resume()
            self._save_partial_text()
            return self._result("failed", str(error))
        except LLMError as error:
            return self._stop("failed", str(error))
        except BudgetTooSmall as error:
            return self._stop("budget", str(error))
        except _StopRun as stop:
            return self._stop(stop.stopped, str(stop))
        except Exception:  # of a listener or the database: save the text so far
            with suppress(JiyiError):
                self._save_partial_text()
            raise
        finally:
            self.scratch.clear()

    def _find_answer(self) -> str:
        limits, started, was_silent = self.agent._limits, time.monotonic(), False
        for _ in range(limits.max_steps):
            if limits.seconds is not None and time.monotonic() - started >= limits.seconds:
                raise _StopRun("budget", f"{limits.seconds:g} seconds are over; raise Limits.seconds")
            turn = self._call_model()
            self._last_text = turn.text.strip() or self._last_text
            if turn.tool_calls:
                answer = self._run_calls(turn)
                if answer is not None:
                    return answer
            elif turn.text.strip():
                return turn.text
            elif was_silent:
                raise _StopRun("failed", f"the model said nothing, twice (it ended with {turn.finish!r})")
            else:
                was_silent = True
                self.scratch.note(self._words["silent"])
        raise _StopRun("max_steps", f"no answer within {limits.max_steps} steps; raise Limits.max_steps")

    def _call_model(self) -> Turn:
        agent, run, limit = self.agent, self._run, self.agent._limits.max_tokens
        window = agent._memory.build_context(
            self.session_id,
            self.question,
            agent._budget,
            system=agent._system,
            tools=self._tools,
            scratch=self.scratch.messages,
            recalled=run.window,  # one search a run
            asked_at=self.message.created_at if self.message else None,
        )
        used = run.input_tokens + run.output_tokens
        if limit is not None and used + window.report.tokens > limit:
            over = f"the next step would take more than the {limit:,} of Limits.max_tokens"
            raise _StopRun("budget", f"{used:,} tokens are used, {over}")
        self._run = replace(run, window=window)
        turn = agent._llm.chat(
            window.messages,
            tools=self._tools,
            max_tokens=window.report.budget.max_output_tokens or None,
            on_text=self._on_text if self.on_text else None,
        )
        message = Message(role="assistant", content=turn.text or None, tool_calls=turn.tool_calls)
        asked = window.report.tokens if turn.input_tokens is None else turn.input_tokens
        answered = self._counter.count(message) if turn.output_tokens is None else turn.output_tokens
        self._run = replace(
            self._run,
            model_calls=run.model_calls + 1,
            input_tokens=run.input_tokens + asked,
            output_tokens=run.output_tokens + answered,
            notes=tuple(dict.fromkeys((*run.notes, *turn.notes))),
        )
        return turn

    def _on_text(self, piece: str) -> None:
        assert self.on_text is not None
        self._partial_text.append(piece)
        self.on_text(piece)

    def _run_calls(self, turn: Turn) -> str | None:
        """Execute the calls of a turn in order; return the result of the first successful terminal action."""
        memory, parsed = self.agent._memory, [_parse_call(call) for call in turn.tool_calls]
        thought = turn.text.strip()
        self.scratch.act([call for call, _, _ in parsed], thought)
        answer: str | None = None
        for call, args, fault in parsed:
            task_id, words = self._work.start_task(), thought or describe_call(call.name, args)
            step = memory.add_step(task_id, words, tool_name=call.name, args=args)
            thought = ""
            self._partial_text.clear()  # the step has it now
            text, ok = self._run_call(call, args, fault)
            step = memory.update_step(step.id, status="completed" if ok else "failed", result=text)
            self.scratch.observe(call.id, text, id=step.id)
            if self.on_step is not None:
                self.on_step(step)
            if not ok:
                self._failures[call.name, call.arguments] += 1
                if self._failures[call.name, call.arguments] >= _MAX_FAILURES:
                    repeated = f"the same call failed {_MAX_FAILURES} times: {call.name}"
                    raise _StopRun("failed", f"{repeated}: {' '.join(text.split())[:300]}")
            elif answer is None and self._actions[call.name].terminal:
                answer = text
        return answer

    def _run_call(self, call: ToolCall, args: Mapping[str, Any], fault: str) -> tuple[str, bool]:
        action = self._actions.get(call.name)
        if action is None:
            return self._words["unknown_tool"].format(name=call.name, names=", ".join(self._actions)), False
        if fault:
            return self._words["bad_json"].format(why=fault, raw=args["arguments"]), False
        try:
            checker(action.parameters)(dict(args))
        except Unfit as unfit:
            return self._words["unfit"].format(why=unfit), False
        observation = self.agent._environment.execute(action, args)
        return observation.text, observation.ok

    def _save_partial_text(self) -> None:
        text = "".join(self._partial_text)
        if text.strip():
            self.agent._memory.save_message(self.session_id, role="assistant", content=text)
            self._last_text = text
        self._partial_text.clear()

    def _stop(self, stopped: Stopped, reason: str) -> Run:
        self._save_partial_text()
        if stopped == "failed":
            self._work.complete(reason, "failed")
        else:
            self._work.complete(f"{reason}. {self._last_text}".strip(), "partial")
        return self._result(stopped, reason)

    def _result(self, stopped: Stopped, reason: str = "") -> Run:
        return replace(
            self._run,
            answer=self._answer if self._answer is not None else self._last_text,
            stopped=stopped,
            reason=reason,
            steps=self._work.steps,
            task_id=self._work.task_id,
        )


def _parse_call(call: ToolCall) -> tuple[ToolCall, dict[str, Any], str]:
    """Return a call with valid JSON, which chat APIs require, its arguments, and the error in them or ""."""
    fault = ""
    try:
        args = json.loads(call.arguments.strip() or "{}", parse_constant=_reject_constant, strict=False)
        if not isinstance(args, dict):
            fault = f"it is {type(args).__name__}"
    except (ValueError, RecursionError) as error:
        fault = str(error) or "too deep"
    if fault:
        args = {"arguments": call.arguments}
    return replace(call, arguments=json.dumps(args, ensure_ascii=False), extra={}), args, fault


def _reject_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")
