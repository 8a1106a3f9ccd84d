"""What a text states, before it meets what is known."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from jiyi.records import FactCategory, single_valued

__all__ = ["Action", "Reading", "Statement"]

Action = Literal["state", "retract", "rename", "revert", "end", "over"]
"""What a statement does: says how it is, takes something back, gives another name, returns to what was,
says that something is no longer so; with "over" it says nothing else that is worth keeping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One thing that a clause says about one point of one subject.

    A part that the clause leaves to what is known is "": the predicate of "ledger-api goes to
    Tortoise", the subject of "not 8443, it is 8444", everything of "forget that".
    """

    category: FactCategory = "attribute"  # what kind of thing it says
    subject: str = ""  # whom or what it is about
    predicate: str = ""  # which point of it
    object: str = ""  # the value, with its unit
    quote: str = ""  # the clause, as it was said
    speaker: str = "user"  # who said it
    by_person: bool = True  # neither an assistant nor a tool
    said_at: datetime  # when
    source: str = ""  # id of the message it was read from; "" where it rests on none
    replies_to: str = ""  # id of the message before, where that has a word of the value and this has not
    valid_from: datetime | None = None  # holds from then on; None: from when it was said
    valid_to: datetime | None = None  # holds until then, for a while only; None: open
    confidence: float = 0.6  # 0..1
    action: Action = "state"
    replaces: str = ""  # the old value it names, which finds the slot where the rest does not
    corrects: bool = False  # the old value was never true
    erases: bool = False  # a retraction that asks for the thing itself to go: "delete the key"

    @property
    def vague(self) -> bool:
        """Whether only what is known tells its point: "moved staging to 9191", "switched from A to B"."""
        return not (self.subject and self.predicate and (single_valued(self.predicate) or not self.replaces))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was read in a conversation, and how."""

    statements: tuple[Statement, ...] = ()  # in the order they were said
    topics: tuple[str, ...] = ()  # what it is about; only a model tells
    conclusions: tuple[str, ...] = ()  # what was agreed; only a model tells
    refused: int = 0  # statements of the model that the messages do not hold
    method: Literal["llm", "patterns"] = "patterns"  # "llm" where the model read at least a part
    notes: tuple[str, ...] = ()  # why the model did not read all of it
