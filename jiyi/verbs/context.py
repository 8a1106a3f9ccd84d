"""Verbs about the window: build it for a question, and fold a conversation into its summary."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, cast

from jiyi.compression import Compressor
from jiyi.compression.tool_output import ToolOutput
from jiyi.context import Materials, arrange, build_window
from jiyi.errors import BadBudget, BadQuery
from jiyi.long_term import BlockWriter, Recalled, profile_block, profile_of, recall_blocks
from jiyi.long_term.blocks import RECALLED
from jiyi.monitor import ContextMonitor
from jiyi.records import PRESETS, Block, Budget, Kind, Message, Query, ReportStep, Scope, Session, Window
from jiyi.short_term import Kept, Policy, SummaryState, summary_block
from jiyi.short_term.policy import as_messages
from jiyi.text import TokenCounter, language
from jiyi.verbs.base import Verbs
from jiyi.verbs.checks import Id
from jiyi.working import task_block

_MAX_RECORDS = 100  # episodes or pieces of knowledge in a window
_PRECEDING_MESSAGES = 2  # messages before the question that recall takes into account
_SUMMARY_PART = 4  # a summary takes at most 1/4 of the window
_MIN_OUTPUT_TOKENS = 200  # tool outputs are never shortened to less
_EXCERPT_PART = 4  # an excerpt takes at most 1/4 of the recalled section


@dataclass(frozen=True, slots=True)
class _Question:
    """The question that a window is built for, with its conversation."""

    scope: Scope  # user, session, agent
    limits: Budget
    session: Kept
    state: SummaryState
    talk: Materials  # the conversation, split around the question
    text: str
    at: datetime  # when it is asked
    language: str  # "zh" or "en", of the headings
    in_run: bool  # steps of a run follow the question


def shorten_output(message: Message, max_tokens: int, *, counter: TokenCounter) -> Message | None:
    """Return a tool's output in fewer tokens, with a handle to open it; None if it cannot be shortened."""
    made = ToolOutput(counter=counter)(message, max_tokens=max(max_tokens, _MIN_OUTPUT_TOKENS))
    return replace(message, content=made.text, tokens=None) if made.tokens < made.tokens_before else None


class ContextVerbs(Verbs):
    """Build windows, and keep the summaries they show."""

    @property
    def monitor(self) -> ContextMonitor | None:
        """Figures about windows and replies; None if the setting ``monitor`` is off.

        Sessions are named by the ids given to the verbs; the user is the one given to `jiyi.open`.
        """
        return self._monitor

    def build_context(
        self,
        session_id: str,
        query: str | None = None,
        budget: int | Budget | None = None,
        *,
        system: str | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        policy: Policy | None = None,
        compress: Compressor | None = None,
        scratch: Sequence[Mapping[str, Any] | Message] = (),
        recalled: Window | None = None,
        task_type: str = "",
        episodes: int | None = None,
        knowledge: int | None = None,
        asked_at: datetime | None = None,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Window:
        """Return what the model should see now, with a report.

        Skills, the user's `profile`, the conversation's summary and recent messages, the current task and
        what the memory recalls share the budget; the window ends with the question, or with what followed it.
        Older messages are folded into the summary when it is due.

        Args:
            query: the question; by default the session's newest user message.
            budget: input tokens, or a `Budget`; from the settings by default.
            system: a system prompt to put in front of the session's own.
            tools: tool definitions that will be sent along; their tokens count.
            policy: applied to the history first; then `TokenBudget` keeps what fits.
            compress: shortens each recalled text; without it long ones become excerpts.
            scratch: steps of the current run, not saved in the conversation; they come last.
            recalled: an earlier window for this question; its recalled blocks replace a search.
            task_type: divides a budget given as a number by `PRESETS` and the setting ``task_types``, an
                unknown type as "conversation"; groups the monitor's figures.
            episodes, knowledge: the most to show of each; by default as in the settings.
            asked_at: when the question is asked, now by default; decides what "yesterday" means.

        Raises:
            BudgetTooSmall: system, pinned and current messages and tools alone are larger.
            BadBudget: the budget is not a positive number of tokens.
            BadQuery: the question is not text, or a number of records is not from 0 to 100.
        """
        started = time.perf_counter()
        scope = self._scope(user_id, agent_id, session_id)
        limits, most = self._resolve_budget(budget, task_type), self._record_limits(episodes, knowledge)
        question = self._read_question(scope, query, system, scratch, limits=limits, at=asked_at)
        if recalled is None:
            found = self._recall_blocks(question, compress, most)
        else:  # what an earlier window for the same question recalled
            found = Recalled(blocks=recalled.blocks, nothing_relevant=recalled.report.nothing_relevant)
        window = self._assemble(question, found, tools, policy)
        if self._monitor is not None:
            whose: dict[str, str] = {"task_type": task_type, "user_id": scope.user_id}
            took = 1000 * (time.perf_counter() - started)
            self._monitor.window(window, session_id=session_id, milliseconds=took, **whose)
            if question.state.step is not None:
                self._monitor.summarised(session_id, **whose)
        return window

    def _note_hidden_messages(self, question: _Question) -> list[str]:
        """Return a note of how many older messages neither the window nor a summary shows, if any."""
        scope, recent, dropped = question.scope, question.session.kept, question.session.dropped
        if question.state.summary or (recent and not dropped and (recent[-1].seq or 0) < len(recent)):
            return []  # seq counts from 0
        if scope.agent_id is not None:
            saved = self._store.count(Query(scope=scope, kinds=("message",)))["message"]
        else:  # the session's record has the number
            found = self._store.find(Query(scope=scope, kinds=("session",), limit=1))
            saved = cast("Session", found[0]).messages if found else 0
        older, turns = saved - len(recent), self._settings.max_turns
        note = f"{older} older messages came before the session's last {turns} turns; search finds them"
        return [note] if older > 0 else []

    def _resolve_budget(self, budget: int | Budget | None, task_type: str) -> Budget:
        if isinstance(budget, Budget):
            return budget
        if budget is not None and not isinstance(budget, int):
            raise BadBudget(f"a budget is a number of tokens or a Budget, not {type(budget).__name__}")
        if budget is None:
            most, reserve = self._settings.limits
            plain = Budget(max_input_tokens=most, max_output_tokens=reserve, note=self._settings.assumed)
        else:
            plain = Budget(max_input_tokens=budget)
        plain = replace(plain, profile_share=self._settings.profile_share)
        if not task_type:
            return plain
        presets = {**PRESETS, **self._settings.task_types}
        if task_type in presets:
            return plain.shared_as(task_type, presets)
        unknown = f"no task type is named {task_type!r}, so the budget is shared as for a conversation"
        note = "; ".join(filter(None, [plain.note, f"{unknown}; there are {', '.join(presets)}"]))
        return replace(plain.shared_as("conversation", presets), note=note)

    def _record_limits(self, episodes: int | None, knowledge: int | None) -> dict[Kind, int]:
        for name, value in (("episodes", episodes), ("knowledge", knowledge)):
            is_whole = isinstance(value, int | None) and not isinstance(value, bool)
            if not is_whole or not 0 <= (value or 0) <= _MAX_RECORDS:
                raise BadQuery(f"{name}={value!r} must be a whole number from 0 to {_MAX_RECORDS}")
        most_episodes = self._settings.max_episodes if episodes is None else episodes
        most_knowledge = self._settings.max_knowledge if knowledge is None else knowledge
        return {**RECALLED, "episode": most_episodes, "knowledge": most_knowledge}

    def _skill_blocks(
        self, scope: Scope, question: str, language: str
    ) -> tuple[list[Block], int, list[ReportStep]]:
        """Return the skill blocks of the session, the tokens saved by closed skills, and swaps as steps."""
        if self._skills is None:
            return [], 0, []
        disclosure = self._skills.of(scope)
        disclosure.follow(question)
        steps = [
            ReportStep(
                what="swapped skills",
                items=len(swapped.closed) + len(swapped.opened),
                tokens_before=disclosure.tokens(swapped.closed, self._counter),
                tokens=disclosure.tokens(swapped.opened, self._counter),
                note=swapped.summary,
            )
            for swapped in disclosure.news()
        ]
        return disclosure.blocks(self._counter, language), disclosure.saved(self._counter), steps

    def _read_question(
        self,
        scope: Scope,
        query: str | None,
        system: str | None,
        scratch: Sequence[Mapping[str, Any] | Message],
        *,
        limits: Budget,
        at: datetime | None,
    ) -> _Question:
        if not isinstance(query, str | None):
            raise BadQuery(f"the question must be text, not {type(query).__name__}")
        session = self._short_term.window(scope)
        made, most, off = self._summaries, limits.max_input_tokens, self._settings.summaries == "off"
        state = made.current_state(scope) if off else made.fold_if_due(scope, session.kept, most)
        prompt = [Message(role="system", content=system)] if system else []
        talk = arrange([*prompt, *state.uncovered(session.kept)], query, as_messages(scratch))
        text = query or (talk.current.text if talk.current else "")
        shown = language(text) if (chosen := self._settings.language) == "auto" else chosen
        return _Question(scope, limits, session, state, talk, text, at or self._clock(), shown, bool(scratch))

    def _recall_blocks(
        self, question: _Question, compress: Compressor | None, most: Mapping[Kind, int]
    ) -> Recalled:
        limits, talk = question.limits, question.talk
        said = [*talk.system, *talk.history, *([talk.current] if talk.current else []), *talk.tail]
        most_talk = int(limits.max_input_tokens * limits.shares.get("history", 0.0))
        write = BlockWriter(
            question=question.text,
            counter=self._counter,
            language=question.language,
            max_tokens=int(limits.max_input_tokens * limits.shares.get("recalled", 0.0) / _EXCERPT_PART),
            compress=compress,
        )
        return recall_blocks(
            self._long_term.recall,
            Query(scope=replace(question.scope, session_id=None), text=question.text, asked_at=question.at),
            write,
            without=talk.current.id if talk.current else "",
            floor=self._settings.recall_floor,
            before=[message.id for message in talk.history[-_PRECEDING_MESSAGES:]],
            room=limits.max_input_tokens - min(self._counter.count_all(said), most_talk),
            most=most,
        )

    def _assemble(
        self, question: _Question, found: Recalled, tools: Sequence[Mapping[str, Any]], policy: Policy | None
    ) -> Window:
        talk, limits, state = question.talk, question.limits, question.state
        task, blocks = self._working.current(question.scope), list[Block]()
        if task is not None and question.in_run:  # the run itself shows what its tools did
            task = replace(task, steps=tuple(step for step in task.steps if step.tool_name is None))
        if task is not None:
            blocks.append(task_block(task, self._counter, question.language))
        skills, unloaded, swapped = self._skill_blocks(question.scope, question.text, question.language)
        materials = replace(
            talk,
            skills=skills,
            profile=[profile_block(fact) for fact in profile_of(self._store, question.scope, self._clock())],
            summary=summary_block(state.summary, limits.max_input_tokens // _SUMMARY_PART, self._counter),
            tools=tools,
            broken=question.session.dropped,
            blocks=blocks + [b for b in found.blocks if b.section != "task"],
            below_threshold=found.below,
            asked_at=question.at,
            nothing_relevant=found.nothing_relevant,
            shorten=partial(shorten_output, counter=self._counter),
            notes=[
                *([limits.note] if limits.note else []),
                *dict.fromkeys((*found.notes, *self._store.notes(Scope(user_id=question.scope.user_id)))),
                *state.notes,
                *self._note_hidden_messages(question),
            ],
            steps=[*([state.step] if state.step else []), *swapped],
            saved={"skills": unloaded} if unloaded else {},
        )
        return build_window(
            materials,
            limits,
            counter=self._counter,
            language=question.language,
            zone=self._settings.zone,
            policy=policy,
            summary_place=self._settings.summary_place,
        )
