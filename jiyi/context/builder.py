"""Assembly: what is known and a budget become one window."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from typing import Any

from jiyi.context.conversation import Shorten, shorten_outputs
from jiyi.context.pack import Packer, allot, pack
from jiyi.context.prefix import Head, SummaryPlace
from jiyi.context.render import QUOTED, render_opening, render_window
from jiyi.context.report import Account, of_block, of_message
from jiyi.context.retrieved import NO_ROOM, Retrieved, Said
from jiyi.errors import BudgetTooSmall
from jiyi.prompts import quote
from jiyi.records import DOUBT, Block, Budget, Message, ReportItem, ReportStep, Section, Window
from jiyi.short_term import Dropped, Policy, TokenBudget, atoms
from jiyi.short_term.policy import Candidates
from jiyi.text import TokenCounter

__all__ = ["Materials", "build_window"]

_BELOW = "below the threshold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Materials:
    """Everything that wants to be in the window."""

    system: Sequence[Message] = ()  # always in, first
    skills: Sequence[Block] = ()  # trusted, shown as they are; cards are ``required``, opened bodies not
    profile: Sequence[Block] = ()  # what every window says of the user; shown quoted, oldest first
    summary: Block | None = None  # of the conversation so far; shown quoted
    history: Sequence[Message] = ()  # what the session keeps, up to the current message
    current: Message | None = None  # the newest user message, always in
    tail: Sequence[Message] = ()  # what followed it, such as tool calls in progress
    tools: Sequence[Mapping[str, Any]] = ()  # tool definitions sent beside the messages
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setup:
    """What stays the same while one window is made."""

    materials: Materials
    budget: Budget
    counter: TokenCounter
    language: str
    zone: tzinfo
    policy: Policy | None
    packer: Packer
    tool_tokens: int

    def retrieved(self) -> Retrieved:
        """Return an empty context message."""
        doubtful = (self.materials.nothing_relevant or 0.0) > DOUBT
        return Retrieved(
            counter=self.counter,
            packer=self.packer,
            language=self.language,
            zone=self.zone,
            opening=render_opening(self.language, self.materials.asked_at, self.zone, doubtful=doubtful),
            always=doubtful,
        )


@dataclass(slots=True)
class _Draft:
    """A window in the making."""

    setup: _Setup
    head: Head
    context: Retrieved
    account: Account
    room: int  # tokens beside head, current message and tool definitions
    history: list[Message] = field(default_factory=list)
    tail: list[Message] = field(default_factory=list)

    @property
    def talk(self) -> list[Message]:
        return [*self.history, *self.tail]

    @property
    def run(self) -> list[Message]:
        """The question and what followed it."""
        current = self.setup.materials.current
        return [*([current] if current else []), *self.tail]

    @property
    def talk_tokens(self) -> int:
        return sum(self.setup.counter.count(message) for message in self.talk)


def build_window(
    materials: Materials,
    budget: Budget,
    *,
    counter: TokenCounter,
    language: str,
    zone: tzinfo = UTC,
    policy: Policy | None = None,
    summary_place: SummaryPlace = "system",
    packer: Packer = pack,
) -> Window:
    """Assemble the window: system with skills, profile and summary, history, context, current message.

    Guarantees: messages and tool definitions never take more than ``budget.max_input_tokens`` by
    ``counter``; system messages, required skills, valid pinned messages and the current message
    are in; no tool call without its results; every candidate is in the report, and the tokens
    of its items sum, with the framing, to those of the window.

    Skills, profile (at most its share) and summary are taken before the sharing. Where what must be
    in has no room beside them, the summary leaves first, then opened skills, then the profile.

    Args:
        materials: the candidates.
        budget: tokens for all, and the shares of the sections.
        counter: counts tokens.
        language: "zh" or "en", for headings, roles and marks of history and context.
        zone: of the dates shown.
        policy: looks at the history first; then `TokenBudget` keeps what fits its allotment.
        summary_place: of profile and summary: in the "system" section, or a user "message" after it.
        packer: chooses blocks within a section's allotment.

    Raises:
        BudgetTooSmall: what must be in is larger than the budget.
    """
    setup = _Setup(
        materials=materials,
        budget=budget,
        counter=counter,
        language=language,
        zone=zone,
        policy=policy,
        packer=packer,
        tool_tokens=counter.count_tools(materials.tools) if materials.tools else 0,
    )
    profile, over = _profile(setup)
    head: Head | None = Head(
        system=tuple(materials.system),
        skills=tuple(materials.skills),
        profile=tuple(profile),
        summary=materials.summary,
        place=summary_place,
    )
    while head is not None:
        try:
            return _assembled(setup, head, over)
        except BudgetTooSmall:
            head = head.smaller()
            if head is None:
                raise
    raise AssertionError("the loop returns or raises")


def _profile(setup: _Setup) -> tuple[list[Block], list[ReportItem]]:
    """Return what of the profile fits into its share, oldest first, and the lines about the rest."""
    most = int(setup.budget.max_input_tokens * setup.budget.profile_share)
    priced = [replace(b, tokens=setup.counter.count_text(quote(b.text)) + 1) for b in setup.materials.profile]
    taken, over = setup.packer(priced, most)
    keys = {block.key for block in taken}
    return [b for b in priced if b.key in keys], [of_block(b, NO_ROOM) for b in over]


def _assembled(setup: _Setup, head: Head, left_out: Sequence[ReportItem]) -> Window:
    materials, counter = setup.materials, setup.counter
    fixed = [*head.messages(), *([materials.current] if materials.current else [])]
    room = setup.budget.max_input_tokens - counter.count_all(fixed) - setup.tool_tokens
    if room < 0:
        raise _too_small(_pinned(setup) - room, setup.budget)
    broken = [of_message(d.message, "history", d.reason, counter) for d in materials.broken]
    told = {block.key for block in head.profile}
    below = [
        of_block(b, f"{_BELOW}; {b.note}" if b.note else _BELOW) for b in materials.below if b.key not in told
    ]
    account = Account(
        counter,
        out=[*materials.left_out, *left_out, *broken, *below],
        steps=[*materials.steps],
        saved=dict(materials.saved),
    )
    account.head_left(head.gone)
    draft = _Draft(setup, head, setup.retrieved(), account, room)
    _share_out(draft)
    return _finish(draft)


def _share_out(draft: _Draft) -> None:
    """Give each section its allotment, and what one cannot use to the next."""
    setup, counter = draft.setup, draft.setup.counter
    draft.history = [counter.counted(m) for m in setup.materials.history]
    draft.tail = [counter.counted(m) for m in setup.materials.tail]
    told = {block.key for block in draft.head.profile if block.whole}
    blocks = [draft.context.priced(block) for block in setup.materials.blocks if block.key not in told]
    said = Said.of(draft.history, run=draft.run)
    demands: dict[Section, int] = dict.fromkeys(QUOTED, 0)
    for block in blocks:
        demands[block.section] += 0 if said.holds(block) else block.tokens
    demands["history"] = draft.talk_tokens
    to_share = max(draft.room - draft.context.frame(blocks), 0)
    given = allot(to_share, demands, setup.budget.shares)
    spare = to_share - sum(given.values())
    if setup.materials.shorten and demands["history"] > given["history"] + spare:
        demands["history"] -= _shorten(draft, setup.materials.shorten)
        given = allot(to_share, demands, setup.budget.shares)
        spare = to_share - sum(given.values())
    _keep_history(draft, given["history"] + spare)
    spare += given["history"] - draft.talk_tokens
    said = Said.of(draft.history, draft.head.summary, draft.run)
    blocks = draft.context.unsaid(blocks, said)
    draft.context.choose(blocks, given, spare, free=draft.room - draft.talk_tokens)


def _shorten(draft: _Draft, shorten: Shorten) -> int:
    """Shorten large tool outputs in the history; return the tokens that saves.

    What is large follows from the budget, its shares and the head alone: a result is shortened
    to the same words turn after turn, whatever is asked and found.
    """
    setup, counter = draft.setup, draft.setup.counter
    whole = sum(setup.budget.shares.values())
    share = setup.budget.shares.get("history", 0.0) / whole if whole else 1.0
    stable = setup.budget.max_input_tokens - counter.count_all(draft.head.messages()) - setup.tool_tokens
    done = shorten_outputs(
        draft.history,
        int(stable * share),
        shorten,
        counter=counter,
        newest_is_apart=setup.materials.current is not None,
    )
    draft.history = list(done.messages)
    draft.account.shortened = dict(done.changed)
    before = sum(was for was, _ in done.changed.values())
    now = sum(is_ for _, is_ in done.changed.values())
    if done.changed:
        draft.account.step("shortened tool outputs", len(done.changed), before, now)
    return before - now


def _keep_history(draft: _Draft, allowance: int) -> None:
    """Let the policies decide; pinned messages may take more than the allotment."""
    setup, counter = draft.setup, draft.setup.counter
    opening = counter.count_all([])
    fits = TokenBudget(max_tokens=setup.budget.max_input_tokens, counter=counter, keep_last=False)
    waiting: Sequence[Message] = draft.talk
    dropped: list[Dropped] = []
    if setup.policy is not None:
        decided = setup.policy(waiting, allowance + opening)
        waiting, dropped = decided.kept, list(decided.dropped)
    try:
        decided = fits(waiting, allowance + opening)
    except BudgetTooSmall as error:
        if error.needed - opening > draft.room:
            raise _too_small(error.needed - opening - draft.room, setup.budget) from error
        decided = fits(waiting, error.needed)
    dropped += decided.dropped
    kept = {m.id for m in decided.kept}
    draft.account.trimmed(draft.talk, dropped)
    draft.history = [m for m in draft.history if m.id in kept]
    draft.tail = [m for m in draft.tail if m.id in kept]
    draft.account.kept(draft.talk)


def _finish(draft: _Draft) -> Window:
    setup, materials, account, context = draft.setup, draft.setup.materials, draft.account, draft.context
    messages = [
        *draft.head.messages(),
        *draft.history,
        *([context.message] if context.pieces else []),
        *draft.run,
    ]
    # Each tool result directly after its call, as chat APIs demand.
    messages = [messages[i] for atom in atoms(messages) for i in atom.indices]
    shown = context.shown()
    account.out += context.out
    if context.never:
        now = sum(tokens for _, tokens in shown)
        lost = sum(block.tokens for block in context.never)
        account.step("trimmed retrieved", len(context.never), now + lost, now)
    return Window(
        messages=[m.to_openai() for m in messages],
        markdown=render_window(
            system=draft.head.messages(),
            history=draft.talk,
            context=context.message.text,
            current=materials.current,
            language=setup.language,
        ),
        report=account.report(
            draft.head,
            draft.talk,
            shown,
            materials.current,
            budget=setup.budget,
            tokens=setup.counter.count_all(messages) + setup.tool_tokens,
            nothing_relevant=materials.nothing_relevant,
            notes=materials.notes,
        ),
        blocks=context.blocks,
    )


def _pinned(setup: _Setup) -> int:
    """Return the tokens of what must stay of the history."""
    waiting = [*setup.materials.history, *setup.materials.tail]
    held = Candidates.of(waiting).required
    return sum(setup.counter.count(waiting[i]) for atom in held for i in atom.indices)


def _too_small(over: int, budget: Budget) -> BudgetTooSmall:
    needed = budget.max_input_tokens + over
    return BudgetTooSmall(
        f"system, pinned and current messages, required skills and tools take {needed} tokens, {over} more "
        f"than the {budget.max_input_tokens} of the budget; raise it, unpin something, or shorten the input",
        needed=needed,
        available=budget.max_input_tokens,
    )
