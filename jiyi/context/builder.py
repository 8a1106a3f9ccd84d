"""Assembly: what is known and a budget become one window."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jiyi.context.account import Account, of_block, of_message
from jiyi.context.budget import allot
from jiyi.context.head import Head, SummaryPlace
from jiyi.context.order import edges, joined
from jiyi.context.pack import Packer, pack
from jiyi.context.render import QUOTED, quote, render_context, render_frame, render_window
from jiyi.context.shorten import Shorten, shorten_outputs
from jiyi.errors import BudgetTooSmall
from jiyi.records import Block, Budget, Message, ReportItem, ReportStep, Section, Window
from jiyi.short_term import Dropped, Policy, TokenBudget, atoms
from jiyi.short_term.candidates import Candidates
from jiyi.text import TokenCounter

__all__ = ["Materials", "build_window"]

_ALREADY = "already in the window as history"
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
    policy: Policy | None
    packer: Packer


@dataclass(slots=True)
class _Draft:
    """A window in the making."""

    setup: _Setup
    head: Head
    prefix: tuple[Message, ...]  # the head's messages
    account: Account
    room: int  # tokens beside head, current message and tool definitions
    history: list[Message] = field(default_factory=list)
    tail: list[Message] = field(default_factory=list)
    chosen: dict[Section, list[Block]] = field(default_factory=dict)
    shown: dict[Section, list[Block]] = field(default_factory=dict)  # what was chosen, in its order
    text: str = ""  # the context message


def build_window(
    materials: Materials,
    budget: Budget,
    *,
    counter: TokenCounter,
    language: str,
    policy: Policy | None = None,
    summary_place: SummaryPlace = "system",
    packer: Packer = pack,
) -> Window:
    """Assemble the window: system with skills and summary, history, context message, current message.

    Guarantees: messages and tool definitions never take more than ``budget.max_input_tokens`` by
    ``counter``; system messages, required skills, valid pinned messages and the current message
    are in; no tool call without its results; every candidate is in the report.

    Skills and summary are taken before the sharing. Where they leave too little for what must be
    in, the summary is left out first, then opened skills, lowest score first.

    Args:
        materials: the candidates.
        budget: tokens for all, and the shares of the sections.
        counter: counts tokens.
        language: "zh" or "en", for the headings of history and context.
        policy: looks at the history first; then `TokenBudget` keeps what fits its allotment.
        summary_place: "system", inside the system section, or "message", a user message behind it.
        packer: chooses blocks within a section's allotment.

    Raises:
        BudgetTooSmall: what must be in is larger than the budget.
    """
    setup = _Setup(
        materials=materials,
        budget=budget,
        counter=counter,
        language=language,
        policy=policy,
        packer=packer,
    )
    head: Head | None = Head.of(
        materials.system, materials.skills, materials.summary, place=summary_place, counter=counter
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
    prefix = head.messages()
    fixed = [*prefix, *([materials.current] if materials.current else [])]
    room = setup.budget.max_input_tokens - counter.count_all(fixed) - _tool_tokens(setup)
    if room < 0:
        raise _too_small(_pinned(setup) - room, setup.budget)
    broken = [of_message(d.message, "history", d.reason, counter) for d in materials.broken]
    account = Account(
        counter, out=[*materials.left_out, *broken], steps=[*materials.steps], saved=dict(materials.saved)
    )
    account.head_left(head.gone)
    draft = _Draft(setup, head, prefix, account, room)
    _share_out(draft)
    return _finish(draft)


def _share_out(draft: _Draft) -> None:
    """Give each section its allotment; what one cannot use is carried on to the next."""
    setup, counter = draft.setup, draft.setup.counter
    blocks = [replace(b, tokens=counter.count_text(quote(b.text)) + 1) for b in setup.materials.blocks]
    draft.history = [counter.counted(m) for m in setup.materials.history]
    draft.tail = [counter.counted(m) for m in setup.materials.tail]
    in_history = {("message", m.id) for m in (*draft.history, *draft.tail)}
    demands: dict[Section, int] = dict.fromkeys(QUOTED, 0)
    for block in blocks:
        if _key(block) not in in_history:
            demands[block.section] += block.tokens
    demands["history"] = sum(counter.count(m) for m in (*draft.history, *draft.tail))
    frame = counter.count(_context_message(render_frame([b.section for b in blocks], setup.language)))
    to_share = max(draft.room - (frame if blocks else 0), 0)
    shares = setup.budget.shares
    given = allot(to_share, demands, shares)
    spare = to_share - sum(given.values())
    if setup.materials.shorten and demands["history"] > given["history"] + spare:
        demands["history"] -= _shorten(draft, setup.materials.shorten)
        given = allot(to_share, demands, shares)
        spare = to_share - sum(given.values())
    kept = _keep_history(draft, given["history"] + spare)
    spare += given["history"] - sum(counter.count(m) for m in kept)
    _choose(draft, blocks, {("message", m.id) for m in kept}, given, spare)


def _shorten(draft: _Draft, shorten: Shorten) -> int:
    """Shorten large tool outputs in the history; return the tokens that saves.

    What is large follows from the budget, its shares and the head alone: a result is shortened
    to the same words turn after turn, whatever is asked and found.
    """
    setup, counter = draft.setup, draft.setup.counter
    whole = sum(setup.budget.shares.values())
    share = setup.budget.shares.get("history", 0.0) / whole if whole else 1.0
    stable = setup.budget.max_input_tokens - counter.count_all(draft.prefix) - _tool_tokens(setup)
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


def _choose(
    draft: _Draft,
    blocks: Sequence[Block],
    present: set[tuple[str, str]],
    given: Mapping[Section, int],
    spare: int,
) -> None:
    """Pack each section into its allotment, then what did not fit into what is left over."""
    packer = draft.setup.packer
    left: list[Block] = []
    wanted = 0
    for section in QUOTED:
        mine = [b for b in blocks if b.section == section]
        draft.account.out += [of_block(b, _ALREADY) for b in mine if _key(b) in present]
        mine = [b for b in mine if _key(b) not in present]
        wanted += sum(b.tokens for b in mine)
        allowance = given[section] + spare
        taken, over = packer(mine, allowance)
        draft.chosen[section] = taken
        spare = allowance - sum(b.tokens for b in taken)
        left += over
    late, never = packer(left, spare)
    for block in late:
        draft.chosen[block.section].append(block)
    never = _fit(draft, never)
    draft.account.out += [of_block(b, _NO_ROOM) for b in never]
    if never:
        lost = sum(b.tokens for b in never)
        draft.account.step("trimmed retrieved", len(never), wanted, wanted - lost)


def _fit(draft: _Draft, waiting: Sequence[Block]) -> list[Block]:
    """Render the context message, and look again at what it takes; return the blocks that stay out.

    Pieces may take a little more together than apart: then the least of them goes. Passages
    take less: what they save is given to those that wait.
    """
    setup, counter = draft.setup, draft.setup.counter
    free = draft.room - sum(counter.count(m) for m in (*draft.history, *draft.tail))
    gone: list[Block] = []
    while True:
        draft.shown = {section: joined(edges(draft.chosen[section])) for section in QUOTED}
        draft.text = render_context(draft.shown, setup.language)
        over = counter.count(_context_message(draft.text)) - free if draft.text else 0
        if over > 0:
            worst = min((b for some in draft.chosen.values() for b in some), key=lambda b: b.score)
            draft.chosen[worst.section].remove(worst)
            gone.append(worst)
            continue
        more, left = setup.packer(waiting, -over) if over and not gone else ([], waiting)
        if not more:
            return [*waiting, *gone]
        waiting = left
        for block in more:
            draft.chosen[block.section].append(block)


def _keep_history(draft: _Draft, allowance: int) -> list[Message]:
    """Let the policies decide; pinned messages may take more than the allotment."""
    setup, counter = draft.setup, draft.setup.counter
    opening = counter.count_all([])
    fits = TokenBudget(max_tokens=setup.budget.max_input_tokens, counter=counter, keep_last=False)
    waiting: Sequence[Message] = [*draft.history, *draft.tail]
    all_of_them = waiting
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
    draft.history = [m for m in draft.history if m.id in kept]
    draft.tail = [m for m in draft.tail if m.id in kept]
    draft.account.trimmed(all_of_them, dropped)
    draft.account.kept([*draft.history, *draft.tail])
    return [*draft.history, *draft.tail]


def _finish(draft: _Draft) -> Window:
    setup, materials = draft.setup, draft.setup.materials
    messages = _in_order(draft)
    blocks = [block for section in QUOTED for block in draft.shown[section]]
    talk = [*draft.history, *draft.tail]
    return Window(
        messages=[m.to_openai() for m in messages],
        markdown=render_window(
            system=draft.prefix,
            history=talk,
            context=draft.text,
            current=materials.current,
            language=setup.language,
        ),
        report=draft.account.report(
            draft.head,
            talk,
            blocks,
            materials.current,
            budget=setup.budget,
            tokens=setup.counter.count_all(messages) + _tool_tokens(setup),
            notes=materials.notes,
        ),
        blocks=tuple(blocks),
    )


def _tool_tokens(setup: _Setup) -> int:
    tools = setup.materials.tools
    return setup.counter.count_tools(tools) if tools else 0


def _in_order(draft: _Draft) -> list[Message]:
    """Return the window's messages; each tool result directly behind its call, as chat APIs demand."""
    current = draft.setup.materials.current
    messages = [
        *draft.prefix,
        *draft.history,
        *([_context_message(draft.text)] if draft.text else []),
        *([current] if current else []),
        *draft.tail,
    ]
    return [messages[i] for atom in atoms(messages) for i in atom.indices]


def _context_message(text: str) -> Message:
    # A user message: what was retrieved must never speak with the system's authority.
    return Message(role="user", content=text)


def _key(block: Block) -> tuple[str, str]:
    return block.kind, block.source_id


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
