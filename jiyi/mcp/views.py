"""Records as answers of the tools: short, with their warnings."""

from typing import TYPE_CHECKING

from jiyi.mcp import answers

if TYPE_CHECKING:  # loaded when the memory is opened, after the handshake
    from jiyi.manager import MemoryManager
    from jiyi.records import Fact, Hit, Message
    from jiyi.text import TokenCounter

__all__ = ["fact_answer", "hit_answer", "message_lines"]

_MAX_TEXT_TOKENS = 1_000  # of one text


def hit_answer(hit: "Hit", query: str, memory: "MemoryManager") -> answers.Hit:
    """Return a hit as an answer; a long text becomes an excerpt for the query."""
    from jiyi.records import Message
    from jiyi.text import excerpt, query_terms

    record, count = hit.record, memory.counter.count_text
    full_text = hit.wordings[0]
    text = excerpt(full_text, query_terms(query), _MAX_TEXT_TOKENS, count)
    speaker = record.name or record.role if isinstance(record, Message) else getattr(record, "speaker", "")
    return answers.Hit(
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


def fact_answer(fact: "Fact", counter: "TokenCounter") -> answers.Fact:
    """Return a fact as an answer; a long object is cut."""
    value = counter.truncate(fact.object, _MAX_TEXT_TOKENS)
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


def message_lines(messages: "list[Message]", memory: "MemoryManager") -> tuple[list[str], int]:
    """Return lines of the newest messages that fit into one answer, oldest first, and how many did not."""
    remaining, lines = answers.MAX_TOKENS, list[str]()
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
