"""What recall found, as blocks of context."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, tzinfo

from jiyi.long_term.recall import Recall
from jiyi.records import Block, Episode, Hit, Kind, Knowledge, Message, Query, Role, Section
from jiyi.text import TokenCounter, excerpt, query_terms

__all__ = ["RECALLED", "SPOKEN", "recall_blocks"]

RECALLED: Mapping[Kind, int] = {"message": 20, "episode": 5, "knowledge": 3}
"""How many records of each kind a window asks for."""

SPOKEN: tuple[Role, ...] = ("user", "assistant", "tool")
"""Roles whose messages are recalled: an old system prompt is no memory."""

_SECTIONS: Mapping[str, Section] = {"message": "recalled", "episode": "episodes", "knowledge": "knowledge"}
_OUTCOMES = {
    "zh": {"success": "成功", "partial": "部分成功", "failed": "失败"},
    "en": {"success": "success", "partial": "partial", "failed": "failed"},
}


def recall_blocks(
    recall: Recall,
    query: Query,
    *,
    without: str = "",
    counter: TokenCounter,
    language: str,
    longest: int,
    zone: tzinfo = UTC,
) -> tuple[list[Block], list[str]]:
    """Search each kind for ``query.text`` and return blocks for a window, with notes on what failed.

    Args:
        recall: searches.
        query: scope and question; kinds and limits are set here.
        without: a record id to leave out, such as the question's own.
        counter: counts tokens.
        language: "zh" or "en".
        longest: tokens a block may take; a longer text is shown as the excerpt that
            serves the question best, the block's note says so, and the record stays whole.
        zone: for the dates shown.
    """
    if not query.text.strip():
        return [], []
    terms = query_terms(query.text)
    blocks: list[Block] = []
    notes: dict[str, None] = {}
    for kind, limit in RECALLED.items():
        roles = SPOKEN if kind == "message" else None
        hits = recall.search(replace(query, kinds=(kind,), roles=roles, limit=limit + 1))
        notes |= dict.fromkeys(hits.notes)
        for hit in [hit for hit in hits if hit.id != without][:limit]:
            head, body = _words(hit.record, language, zone)
            body, note = _shortened(body, terms, longest, counter)
            text = f"{head}\n{body}" if head else body
            tokens = counter.count_text(text)
            blocks.append(_block(hit, text=text, title=body, tokens=tokens, note=note))
    return blocks, list(notes)


def _shortened(body: str, terms: list[str], longest: int, counter: TokenCounter) -> tuple[str, str]:
    whole = counter.count_text(body)
    if whole <= longest:
        return body, ""
    part = excerpt(body, terms, max(longest, 1), counter.count_text)
    return part, f"excerpt, {counter.count_text(part)} of {whole} tokens"


def _block(hit: Hit, *, text: str, title: str, tokens: int, note: str) -> Block:
    return Block(
        section=_SECTIONS[hit.kind],
        text=text,
        title=title,
        tokens=tokens,
        kind=hit.kind,
        source_id=hit.id,
        created_at=hit.created_at,
        score=hit.score,
        note=note,
    )


def _words(record: Message | Episode | Knowledge, language: str, zone: tzinfo) -> tuple[str, str]:
    """Return the line that says where a record is from, and its words."""
    when = _date(record.created_at, zone)
    match record:
        case Message():
            who = f"{record.role} {record.name}" if record.name else record.role
            session = record.scope.session_id if record.scope else None
            return f"[{' · '.join(filter(None, [when, who, session]))}]", record.search_text
        case Episode():
            outcome = _OUTCOMES[language][record.outcome]
            done = record.outcome_summary or "; ".join(step.description for step in record.steps)
            return "", f"[{outcome}] {record.trigger_summary} -> {done} ({when})"
        case Knowledge():
            points = "".join(f"\n- {point}" for point in record.key_points)
            return f"**{record.topic}** ({when})", record.content + points


def _date(moment: datetime | None, zone: tzinfo) -> str:
    if moment is None:
        return ""
    with suppress(OverflowError):  # at the edge of year 1 or 9999: shown as it is
        moment = moment.astimezone(zone)
    return moment.strftime("%Y-%m-%d %H:%M")
