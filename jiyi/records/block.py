"""A piece of context that wants to be in the window."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from jiyi.records.query import Kind

__all__ = ["SECTIONS", "Block", "BlockKind", "Section"]

Section = Literal[
    "system", "skills", "profile", "summary", "history", "task", "knowledge", "episodes", "recalled", "input"
]
"""Where in the window a block stands."""

SECTIONS: tuple[Section, ...] = (
    "system",
    "skills",
    "profile",
    "summary",
    "history",
    "task",
    "knowledge",
    "episodes",
    "recalled",
    "input",
)
"""All sections in the order the window shows them: what changes least comes first."""

BlockKind = Kind | Literal["skill"]
"""What a block was made from: a record, or a skill, which is a folder and no record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One indivisible piece: it goes into the window whole or not at all.

    Skills, profile and summary are shown in the system section, the last two quoted; task, knowledge,
    episodes and recalled are quoted inside the context message, after their date and speaker.
    """

    section: Section
    tokens: int  # what it takes in the window
    text: str = ""  # the words to show
    title: str = ""  # a few words for the report; the beginning of the text by default
    kind: BlockKind = "message"  # what it was made from
    source_id: str = ""  # the id of what it was made from
    sources: tuple[str, ...] = ()  # messages that say the same: in sight of one it is not shown
    created_at: datetime | None = None  # when that was said or done
    speaker: str = ""  # who said it
    thread: str = ""  # the session it was said in, where its neighbours belong beside it
    place: int = 0  # where in the thread
    outdated: Literal["", "surely", "maybe"] = ""  # whether something newer has taken its place
    successor: "Block | None" = None  # what did; shown directly after it, unless the window shows that anyway
    whole: bool = True  # False: the text is an excerpt
    score: float = 0.0  # worth; higher goes in first within its section
    required: bool = False  # the window is an error without it
    note: str = ""  # what the report should say, such as "excerpt, 90 of 1,200 tokens"

    @property
    def key(self) -> tuple[str, str]:
        """What it was made from: records of different kinds may have one id."""
        return self.kind, self.source_id
