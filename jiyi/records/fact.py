"""A statement about somebody or something, and when it held."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, get_args

from jiyi.errors import InputError
from jiyi.records.checks import check_metadata, new_id, set_utc
from jiyi.records.fits import checked
from jiyi.records.session import Scope

__all__ = ["Fact", "FactCategory", "FactMethod", "FactStatus", "names_point"]

FactCategory = Literal[
    "profile", "preference", "attribute", "decision", "relation", "plan", "todo", "rule", "note"
]
"""What kind of thing it says; a rule says how the assistant is to behave."""

FactMethod = Literal["patterns", "llm", "said"]
"""How it was learned: read without a language model, by one, or told by the caller."""

FactStatus = Literal["active", "unsure", "superseded", "retracted", "expired"]
"""Whether it holds: yes, a newer one may have taken its place, has taken it, taken back, time over."""

_NAMED = (
    *(("category", get_args(FactCategory)), ("method", get_args(FactMethod))),
    ("status", get_args(FactStatus)),
)
_IN_BRACKETS = re.compile(r"(?:\A|\s)\([^()]*\)\Z|（[^（）]*）\Z")


@lru_cache(maxsize=1024)
def names_point(predicate: str) -> bool:
    """Return whether a predicate names a point that has one value at a time.

    One that ends in brackets does not: it only tells the kind of value, "begin (time)", or that an
    assistant says it, "port (assistant)". Such facts do not replace each other.
    """
    return _IN_BRACKETS.search(predicate) is None


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One point of one subject, with its value, its sources and its time.

    Raises:
        InputError: a category, method, status or confidence that there is not, or unusable metadata.
    """

    scope: Scope  # whose memory it belongs to
    subject: str  # whom or what it is about, as it was said
    predicate: str  # which point of it
    object: str  # the value, with its unit
    created_at: datetime  # when it was said
    id: str = field(default_factory=new_id)  # unique within the user
    category: FactCategory = "attribute"
    text: str = ""  # the clause it was read from; its three parts where it was read from none
    speaker: str | None = None  # who said it
    sources: tuple[str, ...] = ()  # ids of the messages it rests on, oldest first
    valid_from: datetime | None = None  # holds from then on; None: from when it was said
    valid_to: datetime | None = None  # holds until then; None: open
    status: FactStatus = "active"
    confidence: float = 0.6  # 0..1, higher the more often it was said
    supersedes: str | None = None  # id of the fact it took the place of
    superseded_by: str | None = None  # id of the fact that took its place; where unsure, that may have
    method: FactMethod = "patterns"
    access_count: int = 0  # how often it was recalled
    last_accessed_at: datetime | None = None
    pinned: bool = False  # never forgotten
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)  # the caller's own labels

    def __post_init__(self) -> None:
        for name, known in _NAMED:
            if getattr(self, name) not in known:
                raise InputError(f"{name} {getattr(self, name)!r} is not one of {', '.join(known)}")
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
        """What search reads: subject, predicate, object; of what a caller said its words, too.

        Nothing of a fact that names no point: the message it was read from is found by the same words.
        """
        if not names_point(self.predicate):
            return ""
        parts = " ".join(filter(None, [self.subject, self.predicate, self.object]))
        return parts if self.method != "said" or self.text in parts else f"{parts}\n{self.text}"

    @property
    def line(self) -> str:
        """The statement as it is shown: "edge-02 · port: 8443"; without a named point its words."""
        if not names_point(self.predicate):
            return f"{self.speaker or self.subject}: {self.text}"
        return f"{self.subject} · {self.predicate}: {self.object}"
