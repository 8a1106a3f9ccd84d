"""Assembly: what is known and a budget become one window."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from typing import Any

from jiyi.context.account import Account, of_block, of_message
from jiyi.context.budget import allot
from jiyi.context.head import Head, SummaryPlace, taken_of
from jiyi.context.once import Said
from jiyi.context.order import together
from jiyi.context.pack import Packer, pack
from jiyi.context.render import (
    GAP,
    QUOTED,
    Piece,
    context_pieces,
    render_block,
    render_frame,
    render_opening,
    render_window,
)
from jiyi.context.shorten import Shorten, shorten_outputs
from jiyi.errors import BudgetTooSmall
from jiyi.records import Block, Budget, Message, ReportItem, ReportStep, Section, Window
from jiyi.short_term import Dropped, Policy, TokenBudget, atoms
from jiyi.short_term.candidates import Candidates
from jiyi.text import TokenCounter

__all__ = ["Materials", "build_window"]

_ALREADY = "already in the window as history"
_SAID = "its words stand in the window already"
_OUTDATED = "outdated; what took its place is in the window"
_NO_ROOM = "no room in its share of the budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Materials:
    """Everything that wants to be in the window."""

    system: Sequence[Message] = ()  # always in, first
    skills: Sequence[Block] = ()  # trusted, shown as they are; cards are ``required``, opened bodies not
    summary: Block | None = None  # of the conversation so far; shown quoted
    history: Sequence[Message] = ()  # what the session keeps, up to the current message
    current: Message | None = None  # the newest user message, always in
    tail: Sequence[Message] = ()  # what followed it, such as tool calls in progress
    tools: Sequence[Mapping[str, Any]] = ()  # tool definitions sent beside the messages
    broken: Sequence[Dropped] = ()  # tool calls without results, sorted out before
    blocks: Sequence[Block] = ()  # task, knowledge, episodes, recalled
    asked_at: datetime | None = None  # shown above the blocks
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
    opening: str  # of the context message
    tool_tokens: int

    def priced(self, block: Block) -> Block:
        """Return the block with the tokens it takes where it stands alone."""
        text = render_block(block, self.language, self.zone)
        return replace(block, tokens=self.counter.count_text(text) + 1)


@dataclass(slots=True)
class _Draft:
    """A window in the making."""

    setup: _Setup
    head: Head
    account: Account
    room: int  # tokens beside head, current message and tool definitions
    history: list[Message] = field(default_factory=list)
    tail: list[Message] = field(default_factory=list)
    there: set[tuple[str, str]] = field(default_factory=set)  # records whose words history or summary show
    chosen: dict[Section, list[Block]] = field(default_factory=dict)
    pieces: list[Piece] = field(default_factory=list)  # of the context message

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

    def render(self) -> int:
        """Make the context message of what is chosen, and return its tokens."""
        setup = self.setup
        self.pieces = context_pieces(
            self.chosen, setup.opening, setup.language, setup.zone, there=frozenset(self.there)
        )
        return setup.counter.count(_context_message(self.pieces)) if self.pieces else 0


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
    """Assemble the window: system with skills and summary, history, context message, current message.

    Guarantees: messages and tool definitions never take more than ``budget.max_input_tokens`` by
    ``counter``; system messages, required skills, valid pinned messages and the current message
    are in; no tool call without its results; every candidate is in the report, and the tokens
    of its items sum, with the framing, to those of the window.

    Skills and summary are taken before the sharing. Where they leave too little for what must be
    in, the summary is left out first, then opened skills, lowest score first.

    Args:
        materials: the candidates.
        budget: tokens for all, and the shares of the sections.
        counter: counts tokens.
        language: "zh" or "en", for headings, roles and marks of history and context.
        zone: of the dates shown.
        policy: looks at the history first; then `TokenBudget` keeps what fits its allotment.
        summary_place: "system", inside the system section, or "message", a user message after it.
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
        opening=render_opening(language, materials.asked_at, zone),
        tool_tokens=counter.count_tools(materials.tools) if materials.tools else 0,
    )
    head: Head | None = Head(
        system=tuple(materials.system),
        skills=tuple(materials.skills),
        summary=materials.summary,
        place=summary_place,
    )
    while head is not None:
        try:
            return _assembled(setup, head)
        except BudgetTooSmall:
            head = head.smaller()
            if head is None:
                raise
    raise AssertionError("the loop returns or raises")


def _assembled(setup: _Setup, head: Head) -> Window:
    materials, counter = setup.materials, setup.counter
    fixed = [*head.messages(), *([materials.current] if materials.current else [])]
    room = setup.budget.max_input_tokens - counter.count_all(fixed) - setup.tool_tokens
    if room < 0:
        raise _too_small(_pinned(setup) - room, setup.budget)
    broken = [of_message(d.message, "history", d.reason, counter) for d in materials.broken]
    account = Account(
        counter, out=[*materials.left_out, *broken], steps=[*materials.steps], saved=dict(materials.saved)
    )
    account.head_left(head.gone)
    draft = _Draft(setup, head, account, room)
    return _finish(draft, _share_out(draft))


def _share_out(draft: _Draft) -> list[Block]:
    """Give each section its allotment, and what one cannot use to the next; return what finds no room."""
    setup, counter = draft.setup, draft.setup.counter
    draft.history = [counter.counted(m) for m in setup.materials.history]
    draft.tail = [counter.counted(m) for m in setup.materials.tail]
    blocks = [setup.priced(block) for block in setup.materials.blocks]
    said = Said.of(draft.history, run=draft.run)
    demands: dict[Section, int] = dict.fromkeys(QUOTED, 0)
    for block in blocks:
        demands[block.section] += 0 if said.holds(block) else block.tokens
    demands["history"] = draft.talk_tokens
    frame = render_frame([b.section for b in blocks], setup.opening, setup.language)
    to_share = max(draft.room - (counter.count(_context_message(frame)) if blocks else 0), 0)
    given = allot(to_share, demands, setup.budget.shares)
    spare = to_share - sum(given.values())
    if setup.materials.shorten and demands["history"] > given["history"] + spare:
        demands["history"] -= _shorten(draft, setup.materials.shorten)
        given = allot(to_share, demands, setup.budget.shares)
        spare = to_share - sum(given.values())
    _keep_history(draft, given["history"] + spare)
    spare += given["history"] - draft.talk_tokens
    return _choose(draft, _unsaid(draft, blocks), given, spare)


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


def _unsaid(draft: _Draft, blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks without what history and summary say already."""
    said = Said.of(draft.history, draft.head.summary, draft.run)
    draft.there = {("message", id_) for id_ in said.ids}
    left = []
    for block in blocks:
        rest = None if said.holds(block) else said.rest(block)
        if rest is not None:
            left.append(block if rest is block else draft.setup.priced(rest))
            continue
        draft.account.out.append(of_block(block, _ALREADY if block.key in draft.there else _SAID))
        draft.there.add(block.key)
    return left


def _choose(draft: _Draft, blocks: Sequence[Block], given: Mapping[Section, int], spare: int) -> list[Block]:
    """Pack each section into its allotment, then what did not fit into what is left over."""
    packer = draft.setup.packer
    left: list[Block] = []
    for section in QUOTED:
        allowance = given[section] + spare
        taken, over = packer([b for b in blocks if b.section == section], allowance)
        draft.chosen[section] = taken
        spare = allowance - sum(b.tokens for b in taken)
        left += over
    late, never = packer(left, spare)
    for block in late:
        draft.chosen[block.section].append(block)
    return _fit(draft, never)


def _fit(draft: _Draft, waiting: Sequence[Block]) -> list[Block]:
    """Render the context message, and look again at what it takes; return the blocks that stay out.

    Pieces may take a little more together than apart: then the least of them goes. Passages
    take less, and what is outdated leaves: what that saves is given to those that wait.
    """
    free = draft.room - draft.talk_tokens
    waiting, gone = _priced_beside(draft, waiting), list[Block]()
    while True:
        _leave_outdated(draft)
        left_over = free - draft.render()
        if left_over < 0:
            worst = min((b for some in draft.chosen.values() for b in some), key=lambda b: b.score)
            draft.chosen[worst.section].remove(worst)
            gone.append(worst)
            continue
        more, left = draft.setup.packer(waiting, left_over) if not gone else ([], waiting)
        if not more:
            return [*waiting, *gone]
        waiting = left
        for block in more:
            draft.chosen[block.section].append(block)


def _priced_beside(draft: _Draft, waiting: Sequence[Block]) -> list[Block]:
    """Return blocks at the price they have beside what is chosen: in a passage without a date."""
    chosen, counter = draft.chosen["recalled"], draft.setup.counter
    date = counter.count_text("2026-03-01 20:00 · ") - counter.count_text(GAP)
    return [
        replace(b, tokens=b.tokens - date) if any(together(b, other) for other in chosen) else b
        for b in waiting
    ]


def _leave_outdated(draft: _Draft) -> None:
    """Let go of what is outdated for sure where the window shows what took its place."""
    there = draft.there.union(b.key for some in draft.chosen.values() for b in some if b.whole)
    for section, some in draft.chosen.items():
        out = [b for b in some if b.outdated == "surely" and b.successor and b.successor.key in there]
        draft.account.out += [of_block(b, _OUTDATED) for b in out]
        draft.chosen[section] = [b for b in some if b not in out]


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


def _finish(draft: _Draft, never: Sequence[Block]) -> Window:
    setup, materials, counter = draft.setup, draft.setup.materials, draft.setup.counter
    context = _context_message(draft.pieces)
    messages = _in_order(draft, context)
    shown = taken_of(draft.pieces, context, _context_message(""), counter)
    if never:
        draft.account.out += [of_block(b, _NO_ROOM) for b in never]
        now = sum(tokens for _, tokens in shown)
        draft.account.step("trimmed retrieved", len(never), now + sum(b.tokens for b in never), now)
    candidates = {b.key for some in draft.chosen.values() for b in some}
    told = {block.key for block, _ in shown} - candidates  # successors
    draft.account.out = [item for item in draft.account.out if (item.kind, item.id) not in told]
    return Window(
        messages=[m.to_openai() for m in messages],
        markdown=render_window(
            system=draft.head.messages(),
            history=draft.talk,
            context=context.text,
            current=materials.current,
            language=setup.language,
        ),
        report=draft.account.report(
            draft.head,
            draft.talk,
            shown,
            materials.current,
            budget=setup.budget,
            tokens=counter.count_all(messages) + setup.tool_tokens,
            notes=materials.notes,
        ),
        blocks=tuple(block for block, _ in shown if block.key in candidates),
    )


def _in_order(draft: _Draft, context: Message) -> list[Message]:
    """Return the window's messages; each tool result directly after its call, as chat APIs demand."""
    messages = [
        *draft.head.messages(),
        *draft.history,
        *([context] if draft.pieces else []),
        *draft.run,
    ]
    return [messages[i] for atom in atoms(messages) for i in atom.indices]


def _context_message(text: str | Sequence[Piece]) -> Message:
    # A user message: what was retrieved must never speak with the system's authority.
    words = text if isinstance(text, str) else "".join(words for words, _ in text)
    return Message(role="user", content=words)


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
