"""One run: ask the model, carry out what it calls, show it what came of that, until it answers."""

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
from jiyi.text import TokenCounter
from jiyi.working import Scratch, describe_call

__all__ = ["Loop", "Parts"]

_MOST_FAILURES = 3  # of one and the same call


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What every run of an agent works with."""

    memory: MemoryManager
    llm: ChatLLM
    environment: Environment
    actions: tuple[Action, ...]  # the caller's
    limits: Limits
    budget: int | Budget | None  # of each window
    system: str  # the system prompt
    language: Language  # of what the model is told


class _End(Exception):
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
    asked: Message | None = None  # the question's own message, which recall must not find
    task: Task | None = None  # what an interrupted run goes on with
    on_text: Callable[[str], object] | None = None
    on_step: Callable[[Step], object] | None = None

    def __post_init__(self) -> None:
        parts, task, asked = self.parts, self.task, self.asked
        self._words = wording("agent", parts.language)
        self._work = Work(parts.memory, self.session_id, self.question, task.id if task else None)
        self._counter = parts.memory.counter
        tools = MemoryTools(self._work, parts.language, {asked.id} if asked else ())
        shorten = ToolOutput(counter=self._counter)
        self.scratch = Scratch.from_task(task, shorten=shorten) if task else Scratch(shorten=shorten)
        # An action of the caller's takes the place of a memory tool of the same name.
        self._actions = {one.name: one for one in (*tools.actions(), *parts.actions)}
        self._tools = [one.to_openai() for one in self._actions.values()]
        self._account = _Account()
        self._said: list[str] = []  # of the turn under way, as far as it was not saved
        self._answer: str | None = None  # once it is saved
        self._last = ""  # what the model said last
        self._failures: Counter[tuple[str, str]] = Counter()

    def go(self) -> Run:
        """Work until there is an answer, a limit is reached, or nothing helps."""
        try:
            self._save_answer(self._found())
            self._work.complete(self._answer or "")
            return self._run("done")
        except KeyboardInterrupt:
            return self._interrupted()
        except LLMUnreachable as error:  # it may be there again: the task waits
            self._keep_said()
            return self._run("failed", str(error))
        except (LLMError, _End, BudgetTooSmall) as error:
            return self._ended(error)
        except Exception:  # of a listener, or of the database: what was said is still worth keeping
            with suppress(JiyiError):
                self._keep_said()
            raise
        finally:
            self.scratch.clear()

    def _found(self) -> str:
        """Return the answer."""
        limits, started, silent = self.parts.limits, time.monotonic(), False
        for _ in range(limits.max_steps):
            if limits.seconds is not None and time.monotonic() - started >= limits.seconds:
                raise _End("budget", f"{limits.seconds:g} seconds are over; raise Limits.seconds")
            turn = self._ask()
            self._last = turn.text.strip() or self._last
            if turn.tool_calls:
                answer = self._act(turn)
                if answer is not None:
                    return answer
            elif turn.text.strip():
                return turn.text
            elif silent:
                raise _End("failed", f"the model said nothing, twice (it ended with {turn.finish!r})")
            else:
                silent = True
                self.scratch.note(self._words["silent"])
        raise _End("max_steps", f"no answer within {limits.max_steps} steps; raise Limits.max_steps")

    def _ask(self) -> Turn:
        window, most = self._window(), self.parts.limits.max_tokens
        if most is not None and self._account.tokens + window.report.tokens > most:
            raise _End(
                "budget",
                f"{self._account.tokens:,} tokens are used, the next step would take more than the "
                f"{most:,} of Limits.max_tokens",
            )
        self._account.window = window
        turn = self.parts.llm.chat(
            window.messages,
            tools=self._tools,
            max_tokens=window.report.budget.max_output_tokens or None,
            on_text=self._hear if self.on_text else None,
        )
        self._account.add(turn, window, self._counter)
        return turn

    def _window(self) -> Window:
        return self.parts.memory.build_context(
            self.session_id,
            self.question,
            self.parts.budget,
            system=self.parts.system,
            tools=self._tools,
            scratch=self.scratch.messages,
            recalled=self._account.window,  # one search a run
            asked_at=self.asked.created_at if self.asked else None,
        )

    def _hear(self, piece: str) -> None:
        assert self.on_text is not None
        self._said.append(piece)
        self.on_text(piece)

    def _act(self, turn: Turn) -> str | None:
        """Carry out the calls of a turn in order; return the result of a terminal action that succeeded."""
        read = [_read(call) for call in turn.tool_calls]
        self.scratch.act([call for call, _, _ in read], turn.text.strip())
        answer: str | None = None
        for number, (call, args, fault) in enumerate(read):
            thought = turn.text.strip() if number == 0 else ""
            step = self._work.step(thought or describe_call(call.name, args), call.name, args)
            self._said.clear()  # from here on the step keeps it
            text, ok = self._carry_out(call, args, fault)
            step = self._work.seen(step, text, ok=ok)
            self.scratch.observe(call.id, text, id=step.id)
            if self.on_step is not None:
                self.on_step(step)
            if not ok:
                self._count_failure(call, text)
            elif answer is None and self._actions[call.name].terminal:
                answer = text
        return answer

    def _carry_out(self, call: ToolCall, args: Mapping[str, Any], fault: str) -> tuple[str, bool]:
        """Return what came of a call, and whether that is what it was meant to be."""
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
        seen = self.parts.environment.execute(action, args)
        return seen.text, seen.ok

    def _count_failure(self, call: ToolCall, text: str) -> None:
        key = (call.name, call.arguments)
        self._failures[key] += 1
        if self._failures[key] >= _MOST_FAILURES:
            short = " ".join(text.split())[:300]
            raise _End("failed", f"the same call failed {_MOST_FAILURES} times: {call.name}: {short}")

    def _save_answer(self, text: str) -> None:
        self.parts.memory.save_message(self.session_id, role="assistant", content=text)
        self._answer = text
        self._said.clear()

    def _keep_said(self) -> None:
        """Save what was said of a turn that broke off."""
        said = "".join(self._said)
        if said.strip():
            self.parts.memory.save_message(self.session_id, role="assistant", content=said)
            self._last = said
        self._said.clear()

    def _interrupted(self) -> Run:
        """Save what there is. The task waits, unless the answer was already there."""
        if self._answer is not None:
            self._work.complete(self._answer)
            return self._run("done")
        self._keep_said()
        return self._run("interrupted", "interrupted; resume() goes on")

    def _ended(self, error: Exception) -> Run:
        self._keep_said()
        stopped = error.stopped if isinstance(error, _End) else None
        if stopped is None:
            stopped = "budget" if isinstance(error, BudgetTooSmall) else "failed"
        if stopped == "failed":
            self._work.fail(str(error))
        else:
            self._work.complete(f"{error}. {self._last}".strip(), "partial")
        return self._run(stopped, str(error))

    def _run(self, stopped: Stopped, reason: str = "") -> Run:
        return Run(
            answer=self._answer if self._answer is not None else self._last,
            stopped=stopped,
            reason=reason,
            steps=self._work.steps,
            model_calls=self._account.calls,
            input_tokens=self._account.input_tokens,
            output_tokens=self._account.output_tokens,
            task_id=self._work.task_id,
            window=self._account.window,
            notes=tuple(dict.fromkeys(self._account.notes)),
        )


class _Account:
    """What the run has cost so far."""

    def __init__(self) -> None:
        self.calls = self.input_tokens = self.output_tokens = 0
        self.window: Window | None = None
        self.notes: list[str] = []

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def add(self, turn: Turn, window: Window, counter: TokenCounter) -> None:
        self.calls += 1
        self.input_tokens += window.report.tokens if turn.input_tokens is None else turn.input_tokens
        said = Message(role="assistant", content=turn.text or None, tool_calls=turn.tool_calls)
        self.output_tokens += counter.count(said) if turn.output_tokens is None else turn.output_tokens
        self.notes += turn.notes


def _read(call: ToolCall) -> tuple[ToolCall, dict[str, Any], str]:
    """Return a call with arguments that are JSON, the arguments, and what is wrong with them.

    Chat APIs refuse a conversation with a call that is no JSON: it is sent back as the
    text that it is.
    """
    try:
        args = json.loads(call.arguments.strip() or "{}", parse_constant=_no_constant, strict=False)
    except (ValueError, RecursionError) as error:
        args, fault = None, str(error) or "too deep"
    else:
        fault = "" if isinstance(args, dict) else f"it is {type(args).__name__}"
    if fault:
        args = {"arguments": call.arguments}
    return replace(call, arguments=json.dumps(args, ensure_ascii=False), extra={}), args, fault


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is no number of JSON")
