"""Assembly: what is known and a budget become one window."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jiyi.context.budget import allot
from jiyi.context.order import edges
from jiyi.context.pack import pack
from jiyi.context.render import QUOTED, quote, render_context, render_frame, render_window
from jiyi.errors import BudgetTooSmall
from jiyi.records import (
    SECTIONS,
    Block,
    Budget,
    Message,
    Report,
    ReportItem,
    Section,
    Window,
)
from jiyi.short_term import Dropped, Policy, TokenBudget, atoms
from jiyi.text import TokenCounter

__all__ = ["Materials", "build_window"]

_TITLE = 60
_ALREADY = "already in the window as history"
_NO_ROOM = "no room in its share of the budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Materials:
    """Everything that wants to be in the window."""

    system: Sequence[Message] = ()  # always in, first
    history: Sequence[Message] = ()  # what the session keeps, up to the current message
    current: Message | None = None  # the newest user message, always in
    tail: Sequence[Message] = ()  # what followed it, such as tool calls in progress
    tools: Sequence[Mapping[str, Any]] = ()  # tool definitions sent beside the messages
    broken: Sequence[Dropped] = ()  # tool calls without results, sorted out before
    blocks: Sequence[Block] = ()  # task, knowledge, episodes, recalled
    left_out: Sequence[ReportItem] = ()  # what was sorted out before
    notes: Sequence[str] = ()  # what was not as it should be


@dataclass(slots=True)
class _Draft:
    """A window in the making."""

    materials: Materials
    history: list[Message] = field(default_factory=list)
    tail: list[Message] = field(default_factory=list)
    chosen: dict[Section, list[Block]] = field(default_factory=dict)
    out: list[ReportItem] = field(default_factory=list)


def build_window(
    materials: Materials,
    budget: Budget,
    *,
    counter: TokenCounter,
    language: str,
    policy: Policy | None = None,
) -> Window:
    """Assemble the window: system, history, context message, current message.

    Guarantees: messages and tool definitions never take more than ``budget.max_input_tokens`` by
    ``counter``; system messages, valid pinned messages and the current message are in;
    no tool call without its results; every candidate is in the report.

    Args:
        materials: the candidates.
        budget: tokens for all, and the shares of the sections.
        counter: counts tokens.
        language: "zh" or "en", for the headings.
        policy: looks at the history first; then `TokenBudget` keeps what fits its allotment.

    Raises:
        BudgetTooSmall: what must be in is larger than the budget.
    """
    fixed = [*materials.system, *([materials.current] if materials.current else [])]
    room = budget.max_input_tokens - counter.count_all(fixed) - _tool_tokens(materials, counter)
    if room < 0:
        raise _too_small(-room, budget)
    broken = [_of_message(d.message, "history", d.reason, counter) for d in materials.broken]
    draft = _Draft(materials, out=[*materials.left_out, *broken])
    blocks = [replace(b, tokens=counter.count_text(quote(b.text)) + 1) for b in materials.blocks]
    _share_out(draft, blocks, room, budget, counter=counter, policy=policy, language=language)
    return _finish(draft, budget, counter, language)


def _share_out(
    draft: _Draft,
    blocks: Sequence[Block],
    room: int,
    budget: Budget,
    *,
    counter: TokenCounter,
    policy: Policy | None,
    language: str,
) -> None:
    """Give each section its allotment; what one cannot use is carried on to the next."""
    waiting = [*draft.materials.history, *draft.materials.tail]
    in_history = {("message", m.id) for m in waiting}
    demands: dict[Section, int] = {
        section: sum(b.tokens for b in blocks if b.section == section and _key(b) not in in_history)
        for section in QUOTED
    }
    demands["history"] = sum(counter.count(m) for m in waiting)
    frame = counter.count(_context_message(render_frame([b.section for b in blocks], language)))
    to_share = max(room - (frame if blocks else 0), 0)
    given = allot(to_share, demands, budget.shares)
    spare = to_share - sum(given.values())
    kept = _keep_history(
        draft, waiting, given["history"] + spare, room, budget, counter=counter, policy=policy
    )
    spare += given["history"] - sum(counter.count(m) for m in kept)
    present = {("message", m.id) for m in kept}
    left: list[Block] = []
    for section in QUOTED:
        mine = [b for b in blocks if b.section == section]
        draft.out += [_of_block(b, _ALREADY) for b in mine if _key(b) in present]
        allowance = given[section] + spare
        taken, over = pack([b for b in mine if _key(b) not in present], allowance)
        draft.chosen[section] = taken
        spare = allowance - sum(b.tokens for b in taken)
        left += over
    late, never = pack(left, spare)
    for block in late:
        draft.chosen[block.section].append(block)
    draft.out += [_of_block(b, _NO_ROOM) for b in never]


def _keep_history(
    draft: _Draft,
    waiting: Sequence[Message],
    allowance: int,
    room: int,
    budget: Budget,
    *,
    counter: TokenCounter,
    policy: Policy | None,
) -> list[Message]:
    """Let the policies decide; pinned messages may take more than the allotment."""
    opening = counter.count_all([])
    fits = TokenBudget(max_tokens=budget.max_input_tokens, counter=counter, keep_last=False)
    dropped: list[Dropped] = []
    if policy is not None:
        decided = policy(waiting, allowance + opening)
        waiting, dropped = decided.kept, list(decided.dropped)
    try:
        decided = fits(waiting, allowance + opening)
    except BudgetTooSmall as error:
        if error.needed - opening > room:
            raise _too_small(error.needed - opening - room, budget) from error
        decided = fits(waiting, error.needed)
    kept = {m.id for m in decided.kept}
    draft.history = [m for m in draft.materials.history if m.id in kept]
    draft.tail = [m for m in draft.materials.tail if m.id in kept]
    for d in (*dropped, *decided.dropped):
        draft.out.append(_of_message(d.message, "history", d.reason, counter))
    return [*draft.history, *draft.tail]


def _finish(draft: _Draft, budget: Budget, counter: TokenCounter, language: str) -> Window:
    """Render and count; pieces may count a little more together than apart, so look again."""
    while True:
        text = render_context({s: edges(draft.chosen[s]) for s in QUOTED}, language)
        messages = _in_order(draft, text)
        tokens = counter.count_all(messages) + _tool_tokens(draft.materials, counter)
        if tokens <= budget.max_input_tokens:
            break
        worst = min((b for some in draft.chosen.values() for b in some), key=lambda b: b.score)
        draft.chosen[worst.section].remove(worst)
        draft.out.append(_of_block(worst, _NO_ROOM))
    materials = draft.materials
    return Window(
        messages=[m.to_openai() for m in messages],
        markdown=render_window(
            system=materials.system,
            history=[*draft.history, *draft.tail],
            context=text,
            current=materials.current,
            language=language,
        ),
        report=_report(draft, budget, counter, tokens),
    )


def _tool_tokens(materials: Materials, counter: TokenCounter) -> int:
    return counter.count_tools(materials.tools) if materials.tools else 0


def _in_order(draft: _Draft, context: str) -> list[Message]:
    """Return the window's messages; each tool result directly behind its call, as chat APIs demand."""
    materials = draft.materials
    messages = [
        *materials.system,
        *draft.history,
        *([_context_message(context)] if context else []),
        *([materials.current] if materials.current else []),
        *draft.tail,
    ]
    return [messages[i] for atom in atoms(messages) for i in atom.indices]


def _context_message(text: str) -> Message:
    # A user message: what was retrieved must never speak with the system's authority.
    return Message(role="user", content=text)


def _report(draft: _Draft, budget: Budget, counter: TokenCounter, tokens: int) -> Report:
    materials = draft.materials
    current = [materials.current] if materials.current else []
    included = [_of_message(m, "system", "system messages always stay", counter) for m in materials.system]
    for message in (*draft.history, *draft.tail):
        reason = "pinned" if message.pinned else "recent history"
        included.append(_of_message(message, "history", reason, counter))
    for section in QUOTED:
        included += [_of_block(b, _why(b)) for b in edges(draft.chosen[section])]
    included += [_of_message(m, "input", "the current message always stays", counter) for m in current]
    sections: dict[Section, int] = dict.fromkeys(SECTIONS, 0)
    for item in included:
        sections[item.section] += item.tokens
    return Report(
        budget=budget,
        tokens=tokens,
        sections=sections,
        framing=tokens - sum(sections.values()),
        included=tuple(included),
        left_out=tuple(draft.out),
        notes=tuple(materials.notes),
        counted_by=counter.name,
        exact=counter.exact,
    )


def _key(block: Block) -> tuple[str, str]:
    return block.kind, block.source_id


def _why(block: Block) -> str:
    reason = "the task in hand" if block.section == "task" else f"found by search, score {block.score:.2f}"
    return f"{reason}; {block.note}" if block.note else reason


def _of_message(message: Message, section: Section, reason: str, counter: TokenCounter) -> ReportItem:
    return ReportItem(
        section=section,
        kind="message",
        id=message.id,
        tokens=counter.count(message),
        reason=reason,
        title=_title(f"{message.role}: {message.search_text}"),
        created_at=message.created_at,
    )


def _of_block(block: Block, reason: str) -> ReportItem:
    return ReportItem(
        section=block.section,
        kind=block.kind,
        id=block.source_id,
        tokens=block.tokens,
        reason=reason,
        title=_title(block.title or block.text),
        created_at=block.created_at,
    )


def _title(text: str) -> str:
    flat = " ".join(text[: 4 * _TITLE].split())
    return flat if len(flat) <= _TITLE else flat[: _TITLE - 1] + "…"


def _too_small(over: int, budget: Budget) -> BudgetTooSmall:
    needed = budget.max_input_tokens + over
    return BudgetTooSmall(
        f"system, pinned and current messages take {needed} tokens, {over} more than the "
        f"{budget.max_input_tokens} of the budget; raise it, unpin something, or shorten the input",
        needed=needed,
        available=budget.max_input_tokens,
    )
