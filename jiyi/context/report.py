"""The report of a window: what it includes, what was left out, and the steps that made it fit."""

from collections.abc import Iterable, Mapping, Sequence

from jiyi.context.conversation import Materials
from jiyi.context.render import Prefix
from jiyi.context.retrieved import NO_ROOM, ContextMessage
from jiyi.records import SECTIONS, Block, Budget, Message, Report, ReportItem, ReportStep, Section
from jiyi.records.atoms import atoms
from jiyi.short_term import Dropped
from jiyi.text import TokenCounter, first_words
from jiyi.text.suspicious import suspicious

_SUSPICIOUS_MARK = "; suspicious: "
_WARNING = "stored texts that may try to instruct the model: {}; marked suspicious among what is included"
_SECTION_REASONS: Mapping[Section, str] = {
    "profile": "stands in every window of the user",
    "summary": "stands for messages that left",
    "task": "the task in hand",
}
_REPEATED_REASON = "says the same as an earlier system message"
_DROPPED_REASON = "left out so that system, pinned and current messages fit"
_DROPPED = {"summary": "left out the summary", "skills": "closed skills", "profile": "left out the profile"}


_Sized = Sequence[tuple[Block, int]]  # blocks with the tokens they take


class ReportBuilder:
    """Collects what a `Report` says while the window is built."""

    def __init__(
        self, materials: Materials, prefix: Prefix, without_room: Iterable[Block], counter: TokenCounter
    ) -> None:
        self._materials, self._prefix, self._counter = materials, prefix, counter
        profile_keys = {block.key for block in prefix.profile}
        self._left_out = [
            *(self._message_item(m, "system", _REPEATED_REASON) for m in materials.repeated),
            *(_block_item(block, NO_ROOM) for block in without_room),
            *(self._message_item(d.message, "history", d.reason) for d in materials.broken),
            *(item for item in materials.below_threshold if (item.kind, item.id) not in profile_keys),
            *(_block_item(block, _DROPPED_REASON) for block in prefix.dropped),
        ]
        self._steps = list(materials.steps)
        self._shortened: Mapping[str, tuple[int, int]] = {}  # message id -> tokens before, now
        for section, what in _DROPPED.items():
            blocks = [block for block in prefix.dropped if block.section == section]
            if blocks:
                self._add_step(what, len(blocks), sum(block.tokens for block in blocks), 0, _DROPPED_REASON)

    def add_shortening(self, shortened: Mapping[str, tuple[int, int]]) -> int:
        """Add shortened tool results, by message id their tokens before and now; return the tokens saved."""
        before = sum(tokens for tokens, _ in shortened.values())
        after = sum(tokens for _, tokens in shortened.values())
        self._shortened = shortened
        if shortened:
            self._add_step("shortened tool outputs", len(shortened), before, after)
        return before - after

    def add_trimming(self, messages: Sequence[Message], dropped: Sequence[Dropped]) -> None:
        """Add the messages dropped from the history; broken tool calls do not count as trimming."""
        self._left_out += [self._message_item(d.message, "history", d.reason) for d in dropped]
        if not dropped:
            return
        broken = {messages[i].id for atom in atoms(messages) if atom.broken for i in atom.indices}
        removed = [d.message for d in dropped if d.message.id not in broken]
        if removed:
            before = sum(self._counter.count(m) for m in messages if m.id not in broken)
            after = before - sum(self._counter.count(m) for m in removed)
            self._add_step("trimmed history", len(removed), before, after)

    def build(
        self, prefix: _Sized, talk: Sequence[Message], context: ContextMessage, *, budget: Budget, tokens: int
    ) -> Report:
        """Return the report; ``prefix`` are the blocks in it, ``talk`` is the remaining history."""
        materials, counter, shown = self._materials, self._counter, context.tokens_by_block()
        if context.without_room:
            after = sum(size for _, size in shown)
            removed = sum(block.tokens for block in context.without_room)
            self._add_step("trimmed retrieved", len(context.without_room), after + removed, after)
        stored = [_block_item(block, _block_reason(block), size) for block, size in prefix]
        stored += [self._message_item(m, "history", self._history_reason(m)) for m in talk]
        stored += [_block_item(block, _block_reason(block), size) for block, size in shown]
        flagged = sum([_SUSPICIOUS_MARK in item.reason for item in stored])
        system, current = self._prefix.system, [materials.current] if materials.current else []
        included = [self._message_item(m, "system", "system messages always stay") for m in system]
        included += stored
        included += [self._message_item(m, "input", "the current message always stays") for m in current]
        sections: dict[Section, int] = dict.fromkeys(SECTIONS, 0)
        for item in included:
            sections[item.section] += item.tokens
        saved = dict(materials.saved)
        if shortened := [self._shortened[m.id] for m in talk if m.id in self._shortened]:
            saved["tool_output"] = saved.get("tool_output", 0) + sum(was - now for was, now in shortened)
        return Report(
            budget=budget,
            tokens=tokens,
            sections=sections,
            framing=tokens - sum(sections.values()),
            included=tuple(included),
            left_out=(*self._left_out, *(_block_item(b, reason) for b, reason in context.left_out)),
            notes=(*materials.notes, *([_WARNING.format(flagged)] if flagged else [])),
            steps=tuple(self._steps),
            nothing_relevant=materials.nothing_relevant,
            saved=saved,
            counted_by=counter.name,
            exact=counter.exact,
        )

    def _add_step(self, what: str, items: int, before: int, after: int, note: str = "") -> None:
        self._steps.append(ReportStep(what=what, items=items, tokens_before=before, tokens=after, note=note))

    def _message_item(self, message: Message, section: Section, reason: str) -> ReportItem:
        return ReportItem(
            section=section,
            kind="message",
            id=message.id,
            tokens=self._counter.count(message),
            reason=reason,
            title=first_words(f"{message.role}: {message.search_text}"),
            created_at=message.created_at,
        )

    def _history_reason(self, message: Message) -> str:
        reason = "pinned" if message.pinned else "recent history"
        if message.id in self._shortened and not message.pinned:
            before, now = self._shortened[message.id]
            reason = f"recent history; tool output shortened from {before:,} to {now:,} tokens"
        return reason + _suspicion_mark(message.search_text)


def _block_item(block: Block, reason: str, tokens: int | None = None) -> ReportItem:
    return ReportItem(
        section=block.section,
        kind=block.kind,
        id=block.source_id,
        tokens=block.tokens if tokens is None else tokens,
        reason=reason,
        title=first_words(block.title or block.text),
        created_at=block.created_at,
    )


def _block_reason(block: Block) -> str:
    reason = _SECTION_REASONS.get(block.section) or f"found by search, score {block.score:.2f}"
    if block.section == "skills":
        reason = "always shown" if block.required else "an opened skill"
    mark = "" if block.section == "skills" else _suspicion_mark(block.text)
    return (f"{reason}; {block.note}" if block.note else reason) + mark


def _suspicion_mark(text: str) -> str:
    """Return the mark of a stored text that may try to instruct the model, or ""."""
    kind = suspicious(text)
    return f"{_SUSPICIOUS_MARK}{kind}" if kind else ""
