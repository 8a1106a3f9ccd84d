"""The report of a window: what it includes, what was left out, and the steps that made it fit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from jiyi.context.render import Prefix
from jiyi.records import SECTIONS, Block, Budget, Message, Report, ReportItem, ReportStep, Section
from jiyi.records.atoms import atoms
from jiyi.short_term import Dropped
from jiyi.text import TokenCounter, first_words
from jiyi.text.suspicious import suspicious

__all__ = ["ReportBuilder", "block_item", "message_item"]

_SUSPICIOUS_MARK = "; suspicious: "
_WARNING = "stored texts that may try to instruct the model: {}; marked suspicious among what is included"
_SECTION_REASONS: Mapping[Section, str] = {
    "profile": "stands in every window of the user",
    "summary": "stands for messages that left",
    "task": "the task in hand",
}
_DROPPED = {"summary": "left out the summary", "skills": "closed skills", "profile": "left out the profile"}


@dataclass(slots=True)
class ReportBuilder:
    """Collects what a `Report` says while the window is built."""

    counter: TokenCounter
    left_out: list[ReportItem] = field(default_factory=list)
    steps: list[ReportStep] = field(default_factory=list)
    saved: dict[str, int] = field(default_factory=dict)
    shortened: dict[str, tuple[int, int]] = field(default_factory=dict)  # message id -> tokens before, now

    def add_step(self, what: str, items: int, before: int, after: int, note: str = "") -> None:
        """Add a step; ``before`` and ``after`` are tokens."""
        self.steps.append(ReportStep(what=what, items=items, tokens_before=before, tokens=after, note=note))

    def add_prefix_drops(self, dropped: Sequence[Block]) -> None:
        """Add the blocks dropped from the prefix, and a step for each of its sections."""
        reason = "left out so that system, pinned and current messages fit"
        self.left_out += [block_item(block, reason) for block in dropped]
        for section, what in _DROPPED.items():
            blocks = [block for block in dropped if block.section == section]
            if blocks:
                self.add_step(what, len(blocks), sum(block.tokens for block in blocks), 0, reason)

    def add_trimming(self, messages: Sequence[Message], dropped: Sequence[Dropped]) -> None:
        """Add the messages dropped from the history; broken tool calls do not count as trimming."""
        self.left_out += [message_item(d.message, "history", d.reason, self.counter) for d in dropped]
        if not dropped:
            return
        broken = {messages[i].id for atom in atoms(messages) if atom.broken for i in atom.indices}
        removed = [d.message for d in dropped if d.message.id not in broken]
        if removed:
            before = sum(self.counter.count(m) for m in messages if m.id not in broken)
            after = before - sum(self.counter.count(m) for m in removed)
            self.add_step("trimmed history", len(removed), before, after)

    def add_shortening(self, messages: Iterable[Message]) -> None:
        """Add the tokens that shortening saved in the messages that stayed."""
        pairs = [self.shortened[m.id] for m in messages if m.id in self.shortened]
        if pairs:
            saved = sum(before - after for before, after in pairs)
            self.saved["tool_output"] = self.saved.get("tool_output", 0) + saved

    def build(
        self,
        prefix: Prefix,
        before: Sequence[Message],
        talk: Sequence[Message],
        shown: Sequence[tuple[Block, int]],
        current: Message | None,
        *,
        budget: Budget,
        tokens: int,
        nothing_relevant: float | None,
        notes: Sequence[str],
    ) -> Report:
        """Return the report: ``before`` are the prefix's messages, ``talk`` the remaining history."""
        counter = self.counter
        included = [message_item(m, "system", "system messages always stay", counter) for m in prefix.system]
        stored = [block_item(b, _block_reason(b), size) for b, size in prefix.count_blocks(before, counter)]
        stored += [message_item(m, "history", self._history_reason(m), counter) for m in talk]
        stored += [block_item(block, _block_reason(block), size) for block, size in shown]
        included += stored
        if flagged := sum([_SUSPICIOUS_MARK in item.reason for item in stored]):
            notes = [*notes, _WARNING.format(flagged)]
        if current is not None:
            included.append(message_item(current, "input", "the current message always stays", counter))
        sections: dict[Section, int] = dict.fromkeys(SECTIONS, 0)
        for item in included:
            sections[item.section] += item.tokens
        return Report(
            budget=budget,
            tokens=tokens,
            sections=sections,
            framing=tokens - sum(sections.values()),
            included=tuple(included),
            left_out=tuple(self.left_out),
            notes=tuple(notes),
            steps=tuple(self.steps),
            nothing_relevant=nothing_relevant,
            saved=self.saved,
            counted_by=counter.name,
            exact=counter.exact,
        )

    def _history_reason(self, message: Message) -> str:
        reason = "pinned" if message.pinned else "recent history"
        if message.id in self.shortened and not message.pinned:
            before, now = self.shortened[message.id]
            reason = f"recent history; tool output shortened from {before:,} to {now:,} tokens"
        return reason + _suspicion_mark(message.search_text)


def message_item(message: Message, section: Section, reason: str, counter: TokenCounter) -> ReportItem:
    """Return the report's line about a message."""
    return ReportItem(
        section=section,
        kind="message",
        id=message.id,
        tokens=counter.count(message),
        reason=reason,
        title=first_words(f"{message.role}: {message.search_text}"),
        created_at=message.created_at,
    )


def block_item(block: Block, reason: str, tokens: int | None = None) -> ReportItem:
    """Return the report's line about a block; ``tokens`` is its size in the window, if known."""
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
