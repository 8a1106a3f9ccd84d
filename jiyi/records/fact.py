"""A statement about a person or thing, and when it holds."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, get_args

from jiyi.errors import InputError
from jiyi.records.checks import check_choice, check_metadata, explain_type_errors, new_id, set_utc
from jiyi.records.session import Scope

__all__ = ["Fact", "FactCategory", "FactMethod", "FactStatus", "single_valued"]

FactCategory = Literal[
    "profile", "preference", "attribute", "decision", "relation", "plan", "todo", "rule", "note"
]
"""What kind of statement it is; a rule says how the assistant should behave."""

FactMethod = Literal["patterns", "llm", "said"]
"""How it was learned: read by rules, read by a language model, or stated by the caller."""

FactStatus = Literal["active", "unsure", "superseded", "retracted", "expired"]
"""Whether it holds: yes, perhaps replaced by a newer fact, replaced, retracted, or expired."""

_CHOICES = {"category": FactCategory, "method": FactMethod, "status": FactStatus}
_ENDS_IN_BRACKETS = re.compile(r"(?:\A|\s)\([^()]*\)\Z|（[^（）]*）\Z")


@lru_cache(maxsize=1024)
def single_valued(predicate: str) -> bool:
    """Return whether a predicate has one value at a time, so that newer facts replace older ones.

    Not if it ends in brackets: the kind of value, "begin (time)", or the assistant, "port (assistant)".
    """
    return _ENDS_IN_BRACKETS.search(predicate) is None


@explain_type_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A subject, predicate and object with sources and validity; `InputError` for impossible values."""

    scope: Scope  # whose memory it belongs to
    subject: str  # whom or what it is about, as it was said
    predicate: str  # which property of it
    object: str  # the value, with its unit
    created_at: datetime  # when it was said
    id: str = field(default_factory=new_id)  # unique within the user
    category: FactCategory = "attribute"
    text: str = ""  # the clause it was read from; subject, predicate and object by default
    speaker: str | None = None  # who said it
    sources: tuple[str, ...] = ()  # ids of the messages it was read from, oldest first
    valid_from: datetime | None = None  # holds from then on; None: from when it was said
    valid_to: datetime | None = None  # holds until then; None: open
    status: FactStatus = "active"
    confidence: float = 0.6  # 0..1, higher the more often it was said
    supersedes: str | None = None  # id of the fact it replaced
    superseded_by: str | None = None  # id of the fact that replaced it, or if unsure may have
    version_of: str | None = None  # id of the fact whose earlier value this is, changed by a caller
    method: FactMethod = "patterns"
    access_count: int = 0  # how often it was recalled
    last_accessed_at: datetime | None = None
    pinned: bool = False  # never forgotten
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)  # the caller's own labels

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            check_choice(name, getattr(self, name), get_args(choices))
        if not 0 <= self.confidence <= 1:
            raise InputError(f"confidence={self.confidence!r} must be a number from 0 to 1")
        if self.metadata != {}:
            object.__setattr__(self, "metadata", check_metadata(self.metadata, InputError))
        if not self.text.strip():
            object.__setattr__(self, "text", " ".join([self.subject, self.predicate, self.object]))
        set_utc(self, "created_at", "valid_from", "valid_to", "last_accessed_at")

    @property
    def recorded_at(self) -> datetime:
        """When it was said."""
        return self.created_at

    @property
    def search_text(self) -> str:
        """What search reads: subject, predicate, object, and the text of what a caller stated.

        Nothing if the predicate is not single-valued: search finds the source message by the same words.
        """
        if not single_valued(self.predicate):
            return ""
        parts = " ".join(filter(None, [self.subject, self.predicate, self.object]))
        return parts if self.method != "said" or self.text in parts else f"{parts}\n{self.text}"

    @property
    def line(self) -> str:
        """The statement as shown, "edge-02 · port: 8443"; its text if it is not single-valued."""
        if not single_valued(self.predicate):
            return f"{self.speaker or self.subject}: {self.text}"
        return f"{self.subject} · {self.predicate}: {self.object}"
