"""One run: call the model, execute its tool calls and return their results, until it answers."""

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from jiyi.agent.actions import Action, Environment
from jiyi.agent.memory import MemoryTools, Work
from jiyi.agent.run import Limits, Run, Stopped
from jiyi.compression.tool_output import ToolOutput
from jiyi.errors import BudgetTooSmall, JiyiError, LLMError, LLMUnreachable
from jiyi.llm import ChatLLM, Turn, Unfit, checker
from jiyi.manager import MemoryManager
from jiyi.prompts import Language, wording
from jiyi.records import Budget, Message, Step, Task, ToolCall, Window
from jiyi.working import Scratch, describe_call

__all__ = ["Loop", "Parts"]

_MAX_FAILURES = 3  # of the same call


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the runs of an agent have in common."""

    memory: MemoryManager
    llm: ChatLLM
    environment: Environment
    actions: tuple[Action, ...]  # of the caller
    limits: Limits
    budget: int | Budget | None  # of each window
    system: str  # the system prompt
    language: Language  # of prompts


class _StopRun(Exception):
    """The run ends without an answer."""

    def __init__(self, stopped: Stopped, reason: str) -> None:
        super().__init__(reason)
        self.stopped = stopped


@dataclass
class Loop:
    """One run of an agent, for a question that is already saved; used once."""

    parts: Parts
    question: str
    session_id: str
    message: Message | None = None  # the saved question, which recall must not find
    task: Task | None = None  # of an interrupted run
    on_text: Callable[[str], object] | None = None
    on_step: Callable[[Step], object] | None = None

    def __post_init__(self) -> None:
        parts, task, message = self.parts, self.task, self.message
        self._words = wording("agent", parts.language)
        self._work = Work(parts.memory, self.session_id, self.question, task.id if task else None)
        self._counter = parts.memory.counter
        tools = MemoryTools(self._work, parts.language, {message.id} if message else ())
        shorten = ToolOutput(counter=self._counter)
        self.scratch = Scratch.from_task(task, shorten=shorten) if task else Scratch(shorten=shorten)
        # An action of the caller replaces a memory tool of the same name.
        self._actions = {action.name: action for action in (*tools.actions(), *parts.actions)}
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
            self.parts.memory.save_message(self.session_id, role="assistant", content=answer)
            self._answer = answer
            self._partial_text.clear()
            self._work.complete(answer)
            return self._result("done")
        except KeyboardInterrupt:
            return self._stop_interrupted()
        except LLMUnreachable as error:  # the task waits for resume()
            self._save_partial_text()
            return self._result("failed", str(error))
        except (LLMError, _StopRun, BudgetTooSmall) as error:
            return self._stop_failed(error)
        except Exception:  # of a listener or the database: save the text so far
            with suppress(JiyiError):
                self._save_partial_text()
            raise
        finally:
            self.scratch.clear()

    def _find_answer(self) -> str:
        limits, started, was_silent = self.parts.limits, time.monotonic(), False
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
        window, limit, run = self._window(), self.parts.limits.max_tokens, self._run
        used = run.input_tokens + run.output_tokens
        if limit is not None and used + window.report.tokens > limit:
            over = f"the next step would take more than the {limit:,} of Limits.max_tokens"
            raise _StopRun("budget", f"{used:,} tokens are used, {over}")
        self._run = replace(run, window=window)
        turn = self.parts.llm.chat(
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
            output_tokens=run.output_tokens
            + (self._counter.count(message) if answered is None else answered),
            notes=tuple(dict.fromkeys((*run.notes, *turn.notes))),
        )
        return turn

    def _window(self) -> Window:
        return self.parts.memory.build_context(
            self.session_id,
            self.question,
            self.parts.budget,
            system=self.parts.system,
            tools=self._tools,
            scratch=self.scratch.messages,
            recalled=self._run.window,  # one search a run
            asked_at=self.message.created_at if self.message else None,
        )

    def _on_text(self, piece: str) -> None:
        assert self.on_text is not None
        self._partial_text.append(piece)
        self.on_text(piece)

    def _run_calls(self, turn: Turn) -> str | None:
        """Execute the calls of a turn in order; return the result of the first successful terminal action."""
        memory, parsed = self.parts.memory, [_parse_call(call) for call in turn.tool_calls]
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
                self._count_failure(call, text)
            elif answer is None and self._actions[call.name].terminal:
                answer = text
        return answer

    def _run_call(self, call: ToolCall, args: Mapping[str, Any], fault: str) -> tuple[str, bool]:
        action = self._actions.get(call.name)
        if action is None:
            names = ", ".join(self._actions)
            return self._words["unknown_tool"].format(name=call.name, names=names), False
        if fault:
            return self._words["bad_json"].format(why=fault, raw=args["arguments"]), False
        try:
            checker(action.parameters)(dict(args))
        except Unfit as unfit:
            return self._words["unfit"].format(why=unfit), False
        observation = self.parts.environment.execute(action, args)
        return observation.text, observation.ok

    def _count_failure(self, call: ToolCall, text: str) -> None:
        key = (call.name, call.arguments)
        self._failures[key] += 1
        if self._failures[key] >= _MAX_FAILURES:
            short = " ".join(text.split())[:300]
            raise _StopRun("failed", f"the same call failed {_MAX_FAILURES} times: {call.name}: {short}")

    def _save_partial_text(self) -> None:
        text = "".join(self._partial_text)
        if text.strip():
            self.parts.memory.save_message(self.session_id, role="assistant", content=text)
            self._last_text = text
        self._partial_text.clear()

    def _stop_interrupted(self) -> Run:
        """Save the text so far; the task waits for `resume`, unless the answer was saved already."""
        if self._answer is not None:
            self._work.complete(self._answer)
            return self._result("done")
        self._save_partial_text()
        return self._result("interrupted", "interrupted; resume() goes on")

    def _stop_failed(self, error: Exception) -> Run:
        self._save_partial_text()
        stopped = error.stopped if isinstance(error, _StopRun) else None
        if stopped is None:
            stopped = "budget" if isinstance(error, BudgetTooSmall) else "failed"
        if stopped == "failed":
            self._work.complete(str(error), "failed")
        else:
            self._work.complete(f"{error}. {self._last_text}".strip(), "partial")
        return self._result(stopped, str(error))

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
    try:
        args = json.loads(call.arguments.strip() or "{}", parse_constant=_reject_constant, strict=False)
    except (ValueError, RecursionError) as error:
        args, fault = None, str(error) or "too deep"
    else:
        fault = "" if isinstance(args, dict) else f"it is {type(args).__name__}"
    if fault:
        args = {"arguments": call.arguments}
    return replace(call, arguments=json.dumps(args, ensure_ascii=False), extra={}), args, fault


def _reject_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")
