"""Assembly: what is known and a budget become one window."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from typing import Any

from jiyi.context.conversation import Shorten, shorten_outputs
from jiyi.context.pack import allot, pack
from jiyi.context.prefix import Prefix, SummaryPlace
from jiyi.context.render import QUOTED, render_window
from jiyi.context.report import ReportBuilder, of_block, of_message
from jiyi.context.retrieved import NO_ROOM, Retrieved, Said
from jiyi.errors import BudgetTooSmall, InputError
from jiyi.prompts import quote
from jiyi.records import DOUBT, Block, Budget, Message, ReportItem, ReportStep, Section, Window
from jiyi.short_term import Dropped, Kept, Policy, TokenBudget, atoms
from jiyi.short_term.policy import Candidates
from jiyi.text import TokenCounter

__all__ = ["Materials", "build_window"]

_BELOW = "below the threshold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Materials:
    """All candidates for the window."""

    system: Sequence[Message] = ()  # always in, first
    skills: Sequence[Block] = ()  # trusted, shown as they are; cards are ``required``, opened bodies not
    profile: Sequence[Block] = ()  # what every window says of the user; shown quoted, oldest first
    summary: Block | None = None  # of the conversation so far; shown quoted
    history: Sequence[Message] = ()  # what the session keeps, up to the current message
    current: Message | None = None  # the newest user message, always in
    tail: Sequence[Message] = ()  # what followed it, such as tool calls in progress
    tools: Sequence[Mapping[str, Any]] = ()  # tool definitions sent with the messages
    broken: Sequence[Dropped] = ()  # tool calls without results, sorted out before
    blocks: Sequence[Block] = ()  # task, knowledge, episodes, recalled
    below: Sequence[Block] = ()  # found, and too far from the question to be shown
    asked_at: datetime | None = None  # shown above the blocks
    nothing_relevant: float | None = None  # probability that the memory holds no answer
    shorten: Shorten | None = None  # makes a large tool result smaller when the history is too long
    left_out: Sequence[ReportItem] = ()  # what was sorted out before
    notes: Sequence[str] = ()  # what was not as it should be
    steps: Sequence[ReportStep] = ()  # what was done before to make it fit, such as summarising
    saved: Mapping[str, int] = field(default_factory=dict)  # tokens kept out before, by whom


def build_window(
    materials: Materials,
    budget: Budget,
    *,
    counter: TokenCounter,
    language: str,
    zone: tzinfo = UTC,
    policy: Policy | None = None,
    summary_place: SummaryPlace = "system",
) -> Window:
    """Assemble the window: system with skills, profile and summary, history, context, current message.

    Guarantees: messages and tool definitions never take more than ``budget.max_input_tokens`` by
    ``counter``; system messages, required skills, valid pinned messages and the current message
    are included; no tool call without its results; every candidate is in the report, and the tokens
    of its items sum, with the framing, to those of the window.

    Skills, profile (at most its share) and summary are taken before the sharing. If what must be
    included has no room next to them, the summary is dropped, then opened skills, then the profile.

    Args:
        materials: the candidates.
        budget: tokens for all, and the shares of the sections.
        counter: counts tokens.
        language: "zh" or "en", for headings, roles and marks of history and context.
        zone: of the dates shown.
        policy: applied to the history first; then `TokenBudget` keeps what fits its allotment.
        summary_place: of profile and summary: in the "system" section, or a user "message" after it.

    Raises:
        BudgetTooSmall: what must be included is larger than the budget.
    """
    profile, over = _profile(materials, budget, counter)
    prefix = Prefix(
        system=tuple(materials.system),
        skills=tuple(materials.skills),
        profile=profile,
        summary=materials.summary,
        place=summary_place,
    )
    left_out = [*materials.left_out, *(of_block(block, NO_ROOM) for block in over)]
    while True:
        context = Retrieved(
            counter=counter,
            language=language,
            zone=zone,
            asked_at=materials.asked_at,
            doubtful=(materials.nothing_relevant or 0.0) > DOUBT,
        )
        try:
            return _Assembly(materials, budget, prefix, context, left_out).window(policy)
        except BudgetTooSmall:
            smaller = prefix.smaller()
            if smaller is None:
                raise
            prefix = smaller


def _profile(
    materials: Materials, budget: Budget, counter: TokenCounter
) -> tuple[tuple[Block, ...], list[Block]]:
    """Return what of the profile fits into its share, oldest first, and the rest."""
    lines = [replace(b, tokens=counter.count_text(quote(b.text)) + 1) for b in materials.profile]
    taken, over = pack(lines, int(budget.max_input_tokens * budget.profile_share))
    fitting = {block.key for block in taken}
    return tuple(block for block in lines if block.key in fitting), over


class _Assembly:
    """A window in the making, with a prefix that may turn out too large."""

    def __init__(
        self,
        materials: Materials,
        budget: Budget,
        prefix: Prefix,
        context: Retrieved,
        left_out: Sequence[ReportItem],
    ) -> None:
        counter = context.counter
        self._materials = materials
        self._budget = budget
        self._prefix = prefix
        self._context = context
        self._counter = counter
        self._before = [counter.counted(message) for message in prefix.messages()]
        self._before_tokens = counter.count_all(self._before)
        self._tool_tokens = counter.count_tools(materials.tools) if materials.tools else 0
        fixed = [*self._before, *([materials.current] if materials.current else [])]
        # Tokens left by prefix, current message and tool definitions.
        self._room = budget.max_input_tokens - counter.count_all(fixed) - self._tool_tokens
        if self._room < 0:
            raise self._too_small(self._pinned() - self._room)
        self._history = [counter.counted(m) for m in materials.history]
        self._tail = [counter.counted(m) for m in materials.tail]
        told = {block.key for block in prefix.profile}
        below = [block for block in materials.below if block.key not in told]
        self._report = ReportBuilder(
            counter,
            left_out=[
                *left_out,
                *(of_message(d.message, "history", d.reason, counter) for d in materials.broken),
                *(of_block(b, f"{_BELOW}; {b.note}" if b.note else _BELOW) for b in below),
            ],
            steps=list(materials.steps),
            saved=dict(materials.saved),
        )
        self._report.shrunk_prefix(prefix.gone)

    def window(self, policy: Policy | None) -> Window:
        """Give each section its allotment, and what one cannot use to the next."""
        shares, shorten = self._budget.shares, self._materials.shorten
        told = {block.key for block in self._prefix.profile if block.whole}
        blocks = [self._context.priced(block) for block in self._materials.blocks if block.key not in told]
        said = Said.of((), run=[*self._history, *self._run])  # which messages are there, not their words
        demands: dict[Section, int] = dict.fromkeys(QUOTED, 0)
        for block in blocks:
            demands[block.section] += 0 if said.holds(block) else block.tokens
        demands["history"] = self._talk_tokens
        to_share = max(self._room - self._context.frame(blocks), 0)
        given = allot(to_share, demands, shares)
        spare = to_share - sum(given.values())
        if shorten and demands["history"] > given["history"] + spare:
            demands["history"] -= self._shorten(shorten)
            given = allot(to_share, demands, shares)
            spare = to_share - sum(given.values())
        self._trim(given["history"] + spare, policy)
        spare += given["history"] - self._talk_tokens
        blocks = self._context.unsaid(blocks, Said.of(self._history, self._prefix.summary, self._run))
        self._context.choose(blocks, given, spare, free=self._room - self._talk_tokens)
        return self._finished()

    @property
    def _talk(self) -> list[Message]:
        return [*self._history, *self._tail]

    @property
    def _run(self) -> list[Message]:
        """The question and what followed it."""
        current = self._materials.current
        return [*([current] if current else []), *self._tail]

    @property
    def _talk_tokens(self) -> int:
        return sum(self._counter.count(message) for message in self._talk)

    def _shorten(self, shorten: Shorten) -> int:
        """Shorten large tool outputs in the history; return the tokens that saves.

        What is large follows from the budget, its shares and the prefix alone: a result is shortened
        to the same words turn after turn, whatever is asked and found.
        """
        shares = self._budget.shares
        whole = sum(shares.values())
        share = shares.get("history", 0.0) / whole if whole else 1.0
        stable = self._budget.max_input_tokens - self._before_tokens - self._tool_tokens
        self._history, changed = shorten_outputs(
            self._history,
            int(stable * share),
            shorten,
            counter=self._counter,
            newest_is_apart=self._materials.current is not None,
        )
        before = sum(was for was, _ in changed.values())
        now = sum(is_ for _, is_ in changed.values())
        self._report.shortened = changed
        if changed:
            self._report.step("shortened tool outputs", len(changed), before, now)
        return before - now

    def _trim(self, allowance: int, policy: Policy | None) -> None:
        """Let the policies decide; pinned messages may take more than the allotment."""
        opening = self._counter.count_all([])
        fits = TokenBudget(max_tokens=self._budget.max_input_tokens, counter=self._counter, keep_last=False)
        waiting: Sequence[Message] = self._talk
        dropped: list[Dropped] = []
        if policy is not None:
            decided = policy(waiting, allowance + opening)
            if not isinstance(decided, Kept):
                raise InputError(f"policy returned a {type(decided).__name__}; it must return Kept")
            waiting, dropped = decided.kept, list(decided.dropped)
        try:
            decided = fits(waiting, allowance + opening)
        except BudgetTooSmall as error:
            if error.needed - opening > self._room:
                raise self._too_small(error.needed - opening - self._room) from error
            decided = fits(waiting, error.needed)
        dropped += decided.dropped
        kept = {m.id for m in decided.kept}
        self._report.trimmed(self._talk, dropped)
        self._history = [m for m in self._history if m.id in kept]
        self._tail = [m for m in self._tail if m.id in kept]
        self._report.kept(self._talk)

    def _finished(self) -> Window:
        materials, context, talk = self._materials, self._context, self._talk
        in_context = [context.message] if context.pieces else []
        messages = [*self._before, *self._history, *in_context, *self._run]
        # Each tool result directly after its call, as chat APIs demand.
        messages = [messages[i] for atom in atoms(messages) for i in atom.indices]
        shown = context.shown()
        self._report.left_out += context.out
        if context.never:
            now = sum(tokens for _, tokens in shown)
            lost = sum(block.tokens for block in context.never)
            self._report.step("trimmed retrieved", len(context.never), now + lost, now)
        return Window(
            messages=[m.to_openai() for m in messages],
            markdown=render_window(
                system=self._before,
                history=talk,
                context=context.message.text,
                current=materials.current,
                language=context.language,
            ),
            report=self._report.finished(
                self._prefix,
                self._before,
                talk,
                shown,
                materials.current,
                budget=self._budget,
                tokens=self._counter.count_all(messages) + self._tool_tokens,
                nothing_relevant=materials.nothing_relevant,
                notes=materials.notes,
            ),
            blocks=context.blocks,
        )

    def _pinned(self) -> int:
        waiting = [*self._materials.history, *self._materials.tail]
        return sum(self._counter.count(waiting[i]) for i in Candidates.of(waiting).held)

    def _too_small(self, over: int) -> BudgetTooSmall:
        available = self._budget.max_input_tokens
        needed = available + over
        return BudgetTooSmall(
            f"system, pinned and current messages, required skills and tools take {needed} tokens, "
            f"{over} more than the {available} of the budget; "
            "raise it, unpin something, or shorten the input",
            needed=needed,
            available=available,
        )
