"""The report of a window: what went in, what stayed out, and what was done to make it fit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from jiyi.context.prefix import Prefix
from jiyi.records import SECTIONS, Block, Budget, Message, Report, ReportItem, ReportStep, Section
from jiyi.records.atoms import atoms
from jiyi.short_term import Dropped
from jiyi.text import TokenCounter
from jiyi.text.suspicious import suspicious

__all__ = ["ReportBuilder", "of_block", "of_message"]

_TITLE = 60
_SUSPICIOUS = "; suspicious: "
_INSTRUCTS = "stored texts that may try to instruct the model: {}; marked suspicious among what is included"
_WHY: Mapping[Section, str] = {
    "profile": "stands in every window of the user",
    "summary": "stands for messages that left",
    "task": "the task in hand",
}
_LEAVING = {"summary": "left out the summary", "skills": "closed skills", "profile": "left out the profile"}


@dataclass(slots=True)
class ReportBuilder:
    """Collects what a `Report` says while the window is built."""

    counter: TokenCounter
    left_out: list[ReportItem] = field(default_factory=list)
    steps: list[ReportStep] = field(default_factory=list)
    saved: dict[str, int] = field(default_factory=dict)
    shortened: dict[str, tuple[int, int]] = field(default_factory=dict)  # message id -> tokens before, now

    def step(self, what: str, items: int, before: int, after: int, note: str = "") -> None:
        """Note that something was done; ``before`` and ``after`` are tokens."""
        self.steps.append(ReportStep(what=what, items=items, tokens_before=before, tokens=after, note=note))

    def shrunk_prefix(self, gone: Sequence[Block]) -> None:
        """Note what was dropped from the prefix."""
        reason = "left out so that system, pinned and current messages fit"
        self.left_out += [of_block(block, reason) for block in gone]
        for section, what in _LEAVING.items():
            some = [block for block in gone if block.section == section]
            if some:
                self.step(what, len(some), sum(block.tokens for block in some), 0, reason)

    def trimmed(self, messages: Sequence[Message], dropped: Sequence[Dropped]) -> None:
        """Note which messages of the history were dropped; invalid ones do not count as trimming."""
        self.left_out += [of_message(d.message, "history", d.reason, self.counter) for d in dropped]
        if not dropped:
            return
        broken = {messages[i].id for atom in atoms(messages) if atom.broken for i in atom.indices}
        lost = [d.message for d in dropped if d.message.id not in broken]
        if lost:
            before = sum(self.counter.count(m) for m in messages if m.id not in broken)
            after = before - sum(self.counter.count(m) for m in lost)
            self.step("trimmed history", len(lost), before, after)

    def kept(self, messages: Iterable[Message]) -> None:
        """Note what shortening saved in the messages that stayed."""
        pairs = [self.shortened[m.id] for m in messages if m.id in self.shortened]
        if pairs:
            kept_out = sum(before - now for before, now in pairs)
            self.saved["tool_output"] = self.saved.get("tool_output", 0) + kept_out

    def finished(
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
        """Return the report of a window that shows these; each item has the tokens it takes there.

        ``before`` are the messages of the prefix, and ``talk`` is what is left of the history.
        """
        counter = self.counter
        included = [of_message(m, "system", "system messages always stay", counter) for m in prefix.system]
        stored = [of_block(block, _why(block), taken) for block, taken in prefix.counted(before, counter)]
        stored += [of_message(m, "history", self._why_history(m), counter) for m in talk]
        stored += [of_block(block, _why(block), taken) for block, taken in shown]
        included += stored
        if flagged := sum([_SUSPICIOUS in item.reason for item in stored]):
            notes = [*notes, _INSTRUCTS.format(flagged)]
        if current is not None:
            included.append(of_message(current, "input", "the current message always stays", counter))
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

    def _why_history(self, message: Message) -> str:
        reason = "pinned" if message.pinned else "recent history"
        if message.id in self.shortened and not message.pinned:
            before, now = self.shortened[message.id]
            reason = f"recent history; tool output shortened from {before:,} to {now:,} tokens"
        return reason + _sign(message.search_text)


def of_message(message: Message, section: Section, reason: str, counter: TokenCounter) -> ReportItem:
    """Return the line about a message."""
    return ReportItem(
        section=section,
        kind="message",
        id=message.id,
        tokens=counter.count(message),
        reason=reason,
        title=_title(f"{message.role}: {message.search_text}"),
        created_at=message.created_at,
    )


def of_block(block: Block, reason: str, tokens: int | None = None) -> ReportItem:
    """Return the line about a block; ``tokens`` is its size if already known."""
    return ReportItem(
        section=block.section,
        kind=block.kind,
        id=block.source_id,
        tokens=block.tokens if tokens is None else tokens,
        reason=reason,
        title=_title(block.title or block.text),
        created_at=block.created_at,
    )


def _why(block: Block) -> str:
    reason = _WHY.get(block.section) or f"found by search, score {block.score:.2f}"
    if block.section == "skills":
        reason = "always shown" if block.required else "an opened skill"
    sign = "" if block.section == "skills" else _sign(block.text)
    return (f"{reason}; {block.note}" if block.note else reason) + sign


def _sign(text: str) -> str:
    """Return what the report says of a stored text that may try to instruct the model."""
    kind = suspicious(text)
    return f"{_SUSPICIOUS}{kind}" if kind else ""


def _title(text: str) -> str:
    flat = " ".join(text[: _TITLE + 20].split())
    if len(flat) <= _TITLE and len(text) > _TITLE + 20:  # rare: much white space
        flat = " ".join(text[: 4 * _TITLE].split())
    return flat if len(flat) <= _TITLE else flat[: _TITLE - 1] + "…"
