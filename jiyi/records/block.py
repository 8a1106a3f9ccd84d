"""A piece of context that wants to be in the window."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from jiyi.records.message import Message
from jiyi.records.query import Kind

__all__ = ["SECTIONS", "Block", "BlockKind", "Section"]

Section = Literal[
    "system", "skills", "summary", "history", "task", "knowledge", "episodes", "recalled", "input"
]
"""Where in the window a block stands."""

SECTIONS: tuple[Section, ...] = (
    "system",
    "skills",
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

    Either ``messages`` are sent as they are (system, history, input), or ``text`` is
    shown: skills and the summary in the system section, the summary quoted; task, knowledge,
    episodes and recalled quoted inside the context message.
    """

    section: Section
    tokens: int  # what it takes in the window
    text: str = ""  # the words to show
    title: str = ""  # a few words for the report; the beginning of the text by default
    messages: tuple[Message, ...] = ()  # messages to send as they are
    kind: BlockKind = "message"  # what it was made from
    source_id: str = ""  # the id of what it was made from
    created_at: datetime | None = None  # when that was said or done
    thread: str = ""  # the session it was said in, where its neighbours belong beside it
    place: int = 0  # where in the thread
    follows: str = ""  # the words to show instead right behind the block before it in the thread
    score: float = 0.0  # worth; higher goes in first within its section
    required: bool = False  # the window is an error without it
    note: str = ""  # what the report should say, such as "excerpt, 90 of 1,200 tokens"
