"""Records as a model reads them: short, with their marks."""

from typing import TYPE_CHECKING

from jiyi.mcp import answers

if TYPE_CHECKING:  # loaded when the memory is opened, after the handshake
    from jiyi.manager import MemoryManager
    from jiyi.records import Fact, Hit, Message
    from jiyi.text import TokenCounter

__all__ = ["fact_of", "hit_of", "lines_of"]

_MOST_TEXT = 1_000  # tokens of one text


def hit_of(hit: "Hit", query: str, memory: "MemoryManager") -> answers.Hit:
    """Return a hit; a long text becomes the part of it that has to do with the question."""
    from jiyi.records import Message
    from jiyi.text import excerpt, query_terms

    record, count = hit.record, memory.counter.count_text
    whole = hit.wordings[0]
    text = excerpt(whole, query_terms(query), _MOST_TEXT, count)
    said = record.name or record.role if isinstance(record, Message) else getattr(record, "speaker", "")
    return answers.Hit(
        id=hit.id,
        kind=hit.kind,
        text=text,
        cut=text != whole,
        at=hit.created_at,
        session=record.scope.session_id if record.scope else None,
        speaker=said or "",
        score=round(hit.score, 4),
        outdated="surely" if hit.outdated_by else "maybe" if hit.maybe_outdated_by else "",
        secrets=list(hit.secrets),
    )


def fact_of(fact: "Fact", counter: "TokenCounter") -> answers.Fact:
    """Return a fact; a long value is only its beginning."""
    value = counter.truncate(fact.object, _MOST_TEXT)
    return answers.Fact(
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


def lines_of(messages: "list[Message]", memory: "MemoryManager") -> tuple[list[str], int]:
    """Return the newest messages that fit into one answer as lines, oldest first, and how many did not."""
    room, lines = answers.MOST_TOKENS, list[str]()
    for message in reversed(messages):
        at = message.created_at
        when = at.astimezone(memory.zone).strftime("%Y-%m-%d %H:%M") if at else ""
        text = memory.counter.truncate(message.text, _MOST_TEXT)
        line = f"[{when}] {message.name or message.role}: {text}{'…' if text != message.text else ''}"
        room -= memory.counter.count_text(line)
        if room < 0:
            break
        lines.append(line)
    return lines[::-1], len(messages) - len(lines)
