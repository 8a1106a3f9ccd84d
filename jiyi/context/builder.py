"""Assembles one window from its candidates and a budget."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from functools import partial

from jiyi.context.conversation import Materials, Shorten, shorten_tool_results
from jiyi.context.pack import allot, pack
from jiyi.context.render import CONTEXT_SECTIONS, Prefix, SummaryPlace, render_window
from jiyi.context.report import ReportBuilder
from jiyi.context.retrieved import ContextMessage, WindowText
from jiyi.errors import BudgetTooSmall, InputError
from jiyi.prompts import quote
from jiyi.records import DOUBT, Block, Budget, Message, Section, Window
from jiyi.short_term import Dropped, Kept, Policy, TokenBudget, atoms
from jiyi.short_term.policy import Candidates
from jiyi.text import TokenCounter, encodable

__all__ = ["build_window"]


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

    Guarantees: messages and tool definitions take at most ``budget.max_input_tokens`` by ``counter``;
    system messages, required skills, valid pinned messages and the current message are included; no
    tool call is without its results; every candidate is in the report, and the tokens of its items
    and the framing add up to those of the window.

    Skills, profile (at most its share) and summary are placed before the shares are divided. If they
    leave too little room for what must be included, the summary is dropped, then opened skills,
    then the profile.

    ``language``, "zh" or "en", is of headings, roles and marks of history and context, ``zone`` of the dates
    shown. A ``policy`` is applied to the history first; then `TokenBudget` keeps what fits its allotment.
    ``summary_place`` is of profile and summary: in the "system" section, or a user "message" after it.
    Raises `BudgetTooSmall` if what must be included is larger than the budget.
    """
    # The profile lines that fit into their share, oldest first.
    lines = [replace(b, tokens=counter.count_text(quote(b.text)) + 1) for b in materials.profile]
    taken, skipped = pack(lines, int(budget.max_input_tokens * budget.profile_share))
    fitting = {block.key for block in taken}
    prefix = Prefix(
        system=tuple(materials.system),
        skills=tuple(materials.skills),
        profile=tuple(block for block in lines if block.key in fitting),
        summary=materials.summary,
        place=summary_place,
    )
    doubtful = (materials.nothing_relevant or 0.0) > DOUBT
    while True:
        context = ContextMessage(
            counter=counter, language=language, zone=zone, asked_at=materials.asked_at, doubtful=doubtful
        )
        try:
            return _Assembly(materials, budget, prefix, context, skipped).window(policy)
        except BudgetTooSmall:
            smaller = prefix.smaller()
            if smaller is None:
                raise
            prefix = smaller


@dataclass
class _Assembly:
    """Builds one window; raises `BudgetTooSmall` if the prefix is too large."""

    materials: Materials
    budget: Budget
    prefix: Prefix
    context: ContextMessage
    skipped: Sequence[Block]  # of the profile, without room in its share

    def __post_init__(self) -> None:
        materials, counter = self.materials, self.context.counter
        self._counter = counter
        self._prefix_messages, self._prefix_blocks = self.prefix.render(counter)
        self._tool_tokens = counter.count_tools(materials.tools) if materials.tools else 0
        prefix_tokens = counter.count_all(self._prefix_messages)
        # Tokens left by prefix and tool definitions, and by the current message.
        self._stable = self.budget.max_input_tokens - prefix_tokens - self._tool_tokens
        self._available = self._stable - (counter.count(materials.current) if materials.current else 0)
        if self._available < 0:
            talk = [*materials.history, *materials.tail]
            pinned = Candidates.of(talk).required_places
            raise self._too_small_error(sum(counter.count(talk[i]) for i in pinned))
        self._history = [counter.counted(m) for m in materials.history]
        self._tail = [counter.counted(m) for m in materials.tail]
        self._report = ReportBuilder(materials, self.prefix, self.skipped, counter)

    def window(self, policy: Policy | None) -> Window:
        """Give each section its allotment, and unused tokens to the next."""
        shares, shorten = self.budget.shares, self.materials.shorten
        profile_keys = {block.key for block in self.prefix.profile if block.whole}
        blocks = [self.context.with_tokens(b) for b in self.materials.blocks if b.key not in profile_keys]
        window_text = WindowText.of((), [*self._history, *self._current_turn], self.prefix)  # for its ids
        demands: dict[Section, int] = dict.fromkeys(CONTEXT_SECTIONS, 0)
        for block in blocks:
            demands[block.section] += 0 if window_text.contains_message(block) else block.tokens
        demands["history"] = self._talk_tokens
        to_share = max(self._available - self.context.frame_tokens(blocks), 0)
        allotted = allot(to_share, demands, shares)
        spare = to_share - sum(allotted.values())
        if shorten and demands["history"] > allotted["history"] + spare:
            demands["history"] -= self._shorten_tool_results(shorten, allotted["history"] + spare)
            allotted = allot(to_share, demands, shares)
            spare = to_share - sum(allotted.values())
        self._trim_conversation(allotted["history"] + spare, policy)
        spare += allotted["history"] - self._talk_tokens
        window_text = WindowText.of(self._history, self._current_turn, self.prefix)
        blocks = self.context.drop_repeated(blocks, window_text)
        self.context.choose(blocks, allotted, spare, free=self._available - self._talk_tokens)
        return self._build()

    @property
    def _conversation(self) -> list[Message]:
        return [*self._history, *self._tail]

    @property
    def _current_turn(self) -> list[Message]:
        """The question and what followed it."""
        current = self.materials.current
        return [*([current] if current else []), *self._tail]

    @property
    def _talk_tokens(self) -> int:
        return sum(self._counter.count(message) for message in self._conversation)

    def _shorten_tool_results(self, shorten: Shorten, room: int) -> int:
        """Shorten large tool results in the history, and in the newest turn if that alone takes more than
        ``room``; return the tokens saved.

        What counts as large in the history depends only on the budget, its shares and the prefix, so a
        result is shortened to the same text turn after turn, whatever is asked and found.
        """
        shares = self.budget.shares
        total = sum(shares.values())
        share = shares.get("history", 0.0) / total if total else 1.0
        shortened = partial(shorten_tool_results, shorten=shorten, counter=self._counter)
        is_apart = self.materials.current is not None
        self._history, changed = shortened(self._history, int(self._stable * share), newest_is_apart=is_apart)
        if sum(map(self._counter.count, self._tail)) > room:
            together = max(len(atom.indices) for atom in atoms(self._tail))  # an action's results all fit
            self._tail, more = shortened(self._tail, room, parts=together)
            changed |= more
        return self._report.add_shortening(changed)

    def _trim_conversation(self, allowance: int, policy: Policy | None) -> None:
        """Let the policies decide what stays; pinned messages may exceed the allotment."""
        opening = self._counter.count_all([])
        budget = TokenBudget(max_tokens=self.budget.max_input_tokens, counter=self._counter, keep_last=False)
        remaining: Sequence[Message] = self._conversation
        dropped: list[Dropped] = []
        if policy is not None:
            decision = policy(remaining, allowance + opening)
            if not isinstance(decision, Kept):
                raise InputError(f"policy returned a {type(decision).__name__}; it must return Kept")
            remaining, dropped = decision.kept, list(decision.dropped)
        try:
            decision = budget(remaining, allowance + opening)
        except BudgetTooSmall as error:
            if error.needed - opening > self._available:
                raise self._too_small_error(error.needed - opening) from error
            decision = budget(remaining, error.needed)
        dropped += decision.dropped
        kept = {m.id for m in decision.kept}
        self._report.add_trimming(self._conversation, dropped)
        self._history = [m for m in self._history if m.id in kept]
        self._tail = [m for m in self._tail if m.id in kept]

    def _build(self) -> Window:
        materials, context, talk = self.materials, self.context, self._conversation
        in_context = [context.message] if context.pieces else []
        messages = [*self._prefix_messages, *self._history, *in_context, *self._current_turn]
        # Each tool result directly after its call, as chat APIs require.
        messages = [messages[i] for atom in atoms(messages) for i in atom.indices]
        tokens = self._counter.count_all(messages) + self._tool_tokens
        report = self._report.build(self._prefix_blocks, talk, context, budget=self.budget, tokens=tokens)
        markdown = render_window(
            system=self._prefix_messages,
            history=talk,
            context=context.message.text,
            current=materials.current,
            language=context.language,
        )
        sent = encodable([m.to_openai() for m in messages])
        return Window(messages=sent, markdown=encodable(markdown), report=report, blocks=context.blocks)

    def _too_small_error(self, pinned_tokens: int) -> BudgetTooSmall:
        available, excess = self.budget.max_input_tokens, pinned_tokens - self._available
        needed = available + excess
        problem = f"system, pinned and current messages, required skills and tools take {needed} tokens"
        advice = "raise it, unpin something, or shorten the input"
        message = f"{problem}, {excess} more than the {available} of the budget; {advice}"
        return BudgetTooSmall(message, needed=needed, available=available)
