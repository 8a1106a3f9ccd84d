"""What the model sees: blocks, the window made of them, and its report."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

from jiyi.records.budget import Budget, Section
from jiyi.records.query import Kind

__all__ = ["Block", "BlockKind", "Report", "ReportItem", "ReportStep", "Window"]

BlockKind = Kind | Literal["skill"]
"""What a block was made from: a record or a skill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One piece of a window, included whole or not at all.

    Skills, profile and summary are shown in the system section, the last two quoted; task, knowledge,
    episodes and recalled are quoted inside the context message, after their date and speaker.
    """

    section: Section
    tokens: int  # what it takes in the window
    text: str = ""  # what to show
    title: str = ""  # a few words for the report; the beginning of the text by default
    kind: BlockKind = "message"  # what it was made from
    source_id: str = ""  # the id of what it was made from
    sources: tuple[str, ...] = ()  # messages that say the same; if one is in the window, it is not shown
    created_at: datetime | None = None  # when that was said or done
    speaker: str = ""  # who said it
    thread: str = ""  # the session it was said in, if it is shown with its neighbours
    place: int = 0  # in the thread
    outdated: Literal["", "surely", "maybe"] = ""  # whether something newer has replaced it
    successor: "Block | None" = None  # the newer one, shown directly after it unless shown anyway
    whole: bool = True  # False: the text is an excerpt
    score: float = 0.0  # higher goes in first within its section
    required: bool = False  # without room for it, building the window fails
    note: str = ""  # what the report should say, such as "excerpt, 90 of 1,200 tokens"

    @property
    def key(self) -> tuple[str, str]:
        """Kind and id of what it was made from; ids alone are not unique."""
        return self.kind, self.source_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportItem:
    """One candidate for the window, and whether it went in."""

    section: Section
    kind: BlockKind
    id: str  # of the message, episode, ... it was made from
    tokens: int  # what it takes, or would have taken
    reason: str  # why it went in or was left out
    title: str = ""  # its first words
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportStep:
    """One step taken to make everything fit."""

    what: str  # such as "summarised", "trimmed history", "trimmed retrieved"
    items: int  # messages or blocks it was done to
    tokens_before: int  # what those took
    tokens: int  # what is left of them
    note: str = ""  # how, or why not


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The report of one window, with an entry for every candidate."""

    budget: Budget
    tokens: int  # messages and tool definitions, all overhead included; at most max_input_tokens
    sections: Mapping[Section, int]  # tokens by section; with framing they sum to tokens
    framing: int  # headings, tool definitions and the reply's opening
    included: tuple[ReportItem, ...]
    left_out: tuple[ReportItem, ...]
    notes: tuple[str, ...] = ()  # problems
    steps: tuple[ReportStep, ...] = ()  # what was done to make everything fit, in order
    nothing_relevant: float | None = None  # probability, 0 to 1, that the memory holds no answer
    saved: Mapping[str, int] = field(default_factory=dict)  # tokens kept out by skills, tool outputs, ...
    counted_by: str = ""  # the token counter
    exact: bool = True  # False where the counter estimates

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return {
            "tokens": self.tokens,
            "max_input_tokens": self.budget.max_input_tokens,
            "max_output_tokens": self.budget.max_output_tokens,
            "sections": dict(self.sections),
            "framing": self.framing,
            "nothing_relevant": self.nothing_relevant,
            "counted_by": self.counted_by,
            "exact": self.exact,
            "included": [_item_to_dict(i) for i in self.included],
            "left_out": [_item_to_dict(i) for i in self.left_out],
            "notes": list(self.notes),
            "steps": [asdict(step) for step in self.steps],
            "saved": dict(self.saved),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The messages to send, and their report."""

    messages: list[dict[str, Any]]  # OpenAI dicts, ready to send; stable prefix first
    markdown: str  # the same as one Markdown text, for models that take a plain prompt
    report: Report
    blocks: tuple[Block, ...] = ()  # the memory it shows: task, knowledge, episodes, recalled


def _item_to_dict(item: ReportItem) -> dict[str, Any]:
    out = asdict(item)
    out["created_at"] = item.created_at.isoformat() if item.created_at else None
    return out
