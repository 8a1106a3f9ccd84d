"""The answers of the tools: at most 10,000 tokens each, with a cursor for the rest."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:  # loaded when the memory is opened, after the handshake
    from jiyi import records
    from jiyi.manager import MemoryManager
    from jiyi.text import TokenCounter

_MAX_TOKENS = 9_000  # of the entries of an answer; the rest of 10,000 is for what surrounds them
_MAX_TEXT_TOKENS = 1_000  # of one text
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
    remaining, page = _MAX_TOKENS, list[_Item]()
    for item in items:
        if len(page) == limit:
            return page, str(start + len(page))
        remaining -= count(item.model_dump_json(exclude_defaults=True))
        if remaining < 0 and page:
            return page, str(start + len(page))
        page.append(item)
    return page, None


def hit_answer(hit: "records.Hit", query: str, memory: "MemoryManager") -> Hit:
    """Return a hit as an answer; a long text becomes an excerpt for the query."""
    from jiyi.records import Message
    from jiyi.text import excerpt, query_terms

    record, count = hit.record, memory.counter.count_text
    full_text = hit.wordings[0]
    text = excerpt(full_text, query_terms(query), _MAX_TEXT_TOKENS, count)
    speaker = record.name or record.role if isinstance(record, Message) else getattr(record, "speaker", "")
    return Hit(
        id=hit.id,
        kind=hit.kind,
        text=text,
        cut=text != full_text,
        at=hit.created_at,
        session=record.scope.session_id if record.scope else None,
        speaker=speaker or "",
        score=round(hit.score, 4),
        outdated="surely" if hit.outdated_by else "maybe" if hit.maybe_outdated_by else "",
        secrets=list(hit.secrets),
    )


def fact_answer(fact: "records.Fact", counter: "TokenCounter") -> Fact:
    """Return a fact as an answer; a long object is cut."""
    value = counter.truncate(fact.object, _MAX_TEXT_TOKENS)
    return Fact(
        id=fact.id,
        subject=fact.subject,
        predicate=fact.predicate,
        object=value,
        cut=value != fact.object,
        status=fact.status,
        said_at=fact.created_at,
        valid_from=fact.valid_from,
        valid_to=fact.valid_to,
        speaker=fact.speaker,
        replaced_by=fact.superseded_by,
        always=fact.pinned,
    )


def message_lines(messages: "list[records.Message]", memory: "MemoryManager") -> tuple[list[str], int]:
    """Return lines of the newest messages that fit into one answer, oldest first, and how many did not."""
    remaining, lines = _MAX_TOKENS, list[str]()
    for message in reversed(messages):
        created_at = message.created_at
        time = created_at.astimezone(memory.zone).strftime("%Y-%m-%d %H:%M") if created_at else ""
        text = memory.counter.truncate(message.text, _MAX_TEXT_TOKENS)
        line = f"[{time}] {message.name or message.role}: {text}{'…' if text != message.text else ''}"
        remaining -= memory.counter.count_text(line)
        if remaining < 0:
            break
        lines.append(line)
    return lines[::-1], len(messages) - len(lines)
