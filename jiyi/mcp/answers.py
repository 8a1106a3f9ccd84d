"""The answers of the tools: at most 10,000 tokens each, with a cursor for the rest."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict

__all__ = [
    "MAX_TOKENS", "Fact", "Facts", "Forgetting", "Gone", "Hit", "Recalled", "Remembered", "Saved", "View",
    "paginate",
]  # fmt: skip

MAX_TOKENS = 9_000  # of the entries of an answer; the rest of 10,000 is for what surrounds them
_Item = TypeVar("_Item", bound=BaseModel)


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, from_attributes=True)


class Hit(_Answer):
    """One thing the memory holds."""

    id: str
    kind: str
    text: str
    cut: bool = False  # the text is an excerpt
    at: datetime | None = None
    session: str | None = None
    speaker: str | None = None
    score: float
    outdated: Literal["", "surely", "maybe"] = ""  # whether something newer has taken its place
    secrets: list[str] = []  # kinds of secrets in the text, not to be repeated


class Recalled(_Answer):
    """What a search found."""

    hits: list[Hit]
    nothing_relevant: float | None = None  # probability that the memory holds no answer
    notes: list[str] = []
    next: str | None = None  # cursor of the next page


class View(_Answer):
    """What the model should see for a question."""

    text: str
    tokens: int
    left_out: int = 0  # memories that did not fit
    nothing_relevant: float | None = None
    notes: list[str] = []


class Fact(_Answer):
    """One statement and when it held."""

    id: str
    subject: str
    predicate: str
    object: str
    cut: bool = False  # the object is only its beginning
    status: str
    said_at: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    speaker: str | None = None
    replaced_by: str | None = None  # id of the newer fact
    always: bool = False  # stands in every window


class Facts(_Answer):
    """Statements, oldest first."""

    facts: list[Fact]
    next: str | None = None  # cursor of the next page


class Remembered(_Answer):
    """What was kept."""

    id: str | None = None  # of the fact that holds all of the words
    facts: list[Fact] = []  # what was read from them, new or changed
    replaced: list[str] = []  # ids of older facts whose place was taken
    notes: list[str] = []


class Gone(_Answer):
    """One record that goes."""

    id: str
    kind: str
    why: str
    text: str = ""


class Forgetting(_Answer):
    """A plan to forget, or what was forgotten."""

    done: bool  # whether it was done; else this is the plan
    total: int
    counts: dict[str, int]  # by kind
    items: list[Gone]  # the first of them
    confirm: str | None = None  # to be sent to carry out this plan
    restore: str | None = None  # how to bring it back
    notes: list[str] = []


class Saved(_Answer):
    """What was saved of a conversation."""

    session: str
    ids: list[str]


def paginate(
    items: Iterable[_Item], count: Callable[[str], int], *, start: int = 0, limit: int | None = None
) -> tuple[list[_Item], str | None]:
    """Return the first items that fit into one answer, at least one, and the cursor of the next page.

    Args:
        items: in order, after the first ``start``; at most ``limit`` are returned.
        count: returns the tokens of a text.
    """
    remaining, page = MAX_TOKENS, list[_Item]()
    for item in items:
        if len(page) == limit:
            return page, str(start + len(page))
        remaining -= count(item.model_dump_json(exclude_defaults=True))
        if remaining < 0 and page:
            return page, str(start + len(page))
        page.append(item)
    return page, None
