"""Statements read from a text, not yet merged with the known facts."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from jiyi.records import FactCategory, single_valued

__all__ = ["Action", "Reading", "Statement"]

Action = Literal["state", "retract", "rename", "revert", "end", "over"]
"""What a statement does: states a value, retracts, gives another name, returns to the previous value, or
ends a value; "over" is an "end" that states nothing else worth keeping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What a clause says about one point of one subject.

    What only the known facts tell is "": the predicate of "ledger-api goes to Tortoise", the subject
    of "not 8443, it is 8444", everything of "forget that".
    """

    category: FactCategory = "attribute"  # what kind of statement it is
    subject: str = ""  # who or what it is about
    predicate: str = ""  # which point of it
    object: str = ""  # the value, with its unit
    quote: str = ""  # the clause verbatim
    speaker: str = "user"  # who said it
    by_person: bool = True  # neither an assistant nor a tool
    said_at: datetime  # when
    source: str = ""  # id of the message it was read from; "" for none
    replies_to: str = ""  # id of the previous message if only that has some word of the value
    valid_from: datetime | None = None  # None: from when it was said
    valid_to: datetime | None = None  # None: open
    confidence: float = 0.6  # 0..1
    action: Action = "state"
    replaces: str = ""  # the old value that it names; can identify the slot
    corrects: bool = False  # the old value was never true
    erases: bool = False  # a retraction that asks to delete the thing itself: "delete the key"

    @property
    def vague(self) -> bool:
        """Whether only the known facts tell its point: "moved staging to 9191", "switched from A to B"."""
        return not (self.subject and self.predicate and (single_valued(self.predicate) or not self.replaces))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was read from a conversation, and how."""

    statements: tuple[Statement, ...] = ()  # in chronological order
    topics: tuple[str, ...] = ()  # only from a model
    conclusions: tuple[str, ...] = ()  # what was agreed; only from a model
    refused: int = 0  # statements of the model that the messages do not support
    method: Literal["llm", "patterns"] = "patterns"  # "llm" if the model read at least a part
    notes: tuple[str, ...] = ()  # why the model did not read all of it
