"""What recall found, as blocks of context."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import cast

from jiyi.compression.compressor import Compressor
from jiyi.long_term.recall.recall import Recall
from jiyi.records import (
    Block,
    Episode,
    Fact,
    Hit,
    Kind,
    Knowledge,
    Message,
    Query,
    Searchable,
    Section,
)
from jiyi.text import Secrecy, TokenCounter, Trait, excerpt, query_terms, traits

__all__ = ["RECALLED", "recall_blocks"]

RECALLED: Mapping[Kind, int] = {"message": 60, "episode": 5, "knowledge": 3, "fact": 5}
"""How many records of each kind a window asks for; the budget decides how many of them it shows."""

_WITH_PARTNER = 5  # best hits that bring the question they answer, or the answer to it
_PARTNER = 0.01  # by how much such a partner is worth less
_WITH_TALK = 12  # best hits that bring what was said around them
_FAR = 10  # messages on either side
_NEXT, _FURTHER = 0.03, 0.95  # what the message next to a hit has of its weight; each further one, of that
_TALK = 20  # times ``longest``: more than the tokens of a window, beyond which no talk is shown
_USUAL, _HEAD = 30, 18  # tokens of a usual message and of the line above it
_PAUSE = timedelta(hours=1)  # what is said so long after the message before it has a date of its own
_SECTIONS: Mapping[str, Section] = {
    "message": "recalled",
    "episode": "episodes",
    "knowledge": "knowledge",
    "fact": "knowledge",
}
_OUTDATED = {"zh": "已过时", "en": "outdated"}
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
    compress: Compressor | None = None,
) -> tuple[list[Block], list[str]]:
    """Search for ``query.text`` and return blocks for a window, with notes on what failed.

    Args:
        recall: searches.
        query: scope and question; kinds and limits are set here.
        without: a record id to leave out, such as the question's own.
        counter: counts tokens.
        language: "zh" or "en".
        longest: tokens a block may take; a longer text is shown as the excerpt that
            serves the question best, the block's note says so, and the record stays whole.
        zone: for the dates shown.
        compress: makes every text smaller, in place of the excerpts of long ones.

    Secrets are shown only where the question asks for them; see `jiyi.text.Secrecy`.
    """
    if not query.text.strip():
        return [], []
    found = recall.search_each(query, {kind: most + 1 for kind, most in RECALLED.items()})
    hits = _once([hit for hit in found if hit.id != without and _belongs(hit.record)])
    around = recall.with_surroundings(query.scope, hits[:_WITH_TALK], _FAR)
    hits += _answered(hits, around, without)
    found_ids = {hit.id for hit in hits}
    terms = query_terms(query.text)
    blocks: list[Block] = []
    room = _TALK * longest
    shown = _in_talk(hits, around, without)
    secrecy = Secrecy(query.text, ("\n".join(hit.wordings) for hit in shown), language)
    for hit in shown:
        if room <= 0 and hit.id not in found_ids:
            continue
        head, whole = _words(hit, language, zone)
        body = secrecy(whole, *hit.wordings)
        hidden = "" if body == whole else "secret hidden"
        if compress is None:
            body, note = _shortened(body, terms, longest, counter)
        else:
            body, note = _compressed(body, query.text, longest, compress)
        text = f"{head}\n{body}" if head else body
        note = "; ".join(filter(None, [hidden, note]))
        blocks.append(_block(hit, text=text, title=body, tokens=counter.count_text(text), note=note))
        room -= blocks[-1].tokens
    return _following(blocks), list(found.notes)


def _once(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits without facts that were read from a note which is among them."""
    facts = [hit.record for hit in hits if isinstance(hit.record, Fact)]
    notes = [fact.object for fact in facts if fact.category == "note"]
    read = {fact.id for fact in facts if fact.category != "note" and any(fact.text in note for note in notes)}
    return [hit for hit in hits if hit.id not in read]


def _answered(hits: Sequence[Hit], around: Sequence[Hit], without: str) -> list[Hit]:
    """Return the questions that the first hits answer, and the answers to those that ask.

    Each is worth a little less than its hit. What is a hit itself is there already.
    """
    known = {hit.id for hit in hits} | {without}
    more: list[Hit] = []
    for hit in around[:_WITH_PARTNER]:
        message = cast("Message", hit.record)
        for other in hit.around:
            if abs((other.seq or 0) - (message.seq or 0)) > 1:
                continue
            first, second = sorted((message, other), key=lambda m: m.seq or 0)
            talk = Trait.ASKS_LAST in traits(first.search_text) and _speaker(first) != _speaker(second)
            if talk and other.id not in known and not _is_prompt(other):
                known.add(other.id)
                more.append(Hit(record=other, kind="message", score=hit.score - _PARTNER))
    return more


def _in_talk(hits: Sequence[Hit], around: Sequence[Hit], without: str) -> list[Hit]:
    """Return the hits and what was said around the best of them, best first, with scores that count that.

    Scores are logarithms of weights: a message has its own weight, and a small part of that
    of each of the best hits near it in its session. What is talked about at length is so
    shown at length, and a hit that stands alone keeps its score. Tool calls and results are
    no talk: they gain nothing.
    """
    if not any(hit.kind == "message" for hit in around):
        return list(hits)
    top = max(hit.score for hit in hits)
    weights = {hit.id: math.exp(hit.score - top) for hit in hits}
    beside = {m.id: Hit(record=m, kind="message", score=0.0) for hit in around for m in hit.around}
    found = {id_: hit for id_, hit in beside.items() if id_ != without and not _is_prompt(hit.record)}
    found |= {hit.id: hit for hit in hits}
    said = {_place(hit.record): hit.id for hit in found.values() if _is_talk(hit.record)}
    gained = dict.fromkeys(found, 0.0)
    for hit in around:
        thread, seq = _place(hit.record)
        for apart in range(1, _FAR + 1) if thread else ():
            for other in (said.get((thread, seq - apart)), said.get((thread, seq + apart))):
                if other is not None:
                    gained[other] += weights[hit.id] * _NEXT * _FURTHER ** (apart - 1)
    scored = [
        replace(hit, score=top + math.log(weight))
        for id_, hit in found.items()
        if (weight := weights.get(id_, 0.0) + gained[id_]) > 0
    ]
    return sorted(scored, key=lambda hit: -hit.score)


def _is_talk(record: Searchable) -> bool:
    """Say whether a record is said to somebody: no tool call, no result."""
    return isinstance(record, Message) and record.role != "tool" and not record.tool_calls


def _place(record: Searchable) -> tuple[str, int]:
    """Return the session of a message and its place there; ("", 0) for other records."""
    if not isinstance(record, Message) or record.scope is None:
        return "", 0
    return record.scope.session_id or "", record.seq or 0


def _following(blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks, those of messages with what they are shown as behind the message before them."""
    said = {(block.thread, block.place): block for block in blocks if block.thread}
    out = []
    for block in blocks:
        before = said.get((block.thread, block.place - 1))
        head, _, body = block.text.partition("\n")
        if before is not None and _soon(before.created_at, block.created_at):
            speaker = head.strip("[]").partition(" · ")[2]
            block = replace(block, follows=f"[{speaker}] {body}")  # noqa: PLW2901
        out.append(block)
    return out


def _soon(first: datetime | None, second: datetime | None) -> bool:
    return first is not None and second is not None and abs(second - first) < _PAUSE


def _speaker(message: Message) -> str:
    return message.name or message.role


def _belongs(record: Searchable) -> bool:
    """Say whether a record may stand in a window: no old prompt, and no fact that holds no more."""
    return not _is_prompt(record) and not (isinstance(record, Fact) and record.status != "active")


def _is_prompt(record: Searchable) -> bool:
    return isinstance(record, Message) and record.role == "system"  # an old prompt is no memory


def _shortened(body: str, terms: list[str], longest: int, counter: TokenCounter) -> tuple[str, str]:
    whole = counter.count_text(body)
    if whole <= longest:
        return body, ""
    part = excerpt(body, terms, max(longest, 1), counter.count_text)
    return part, f"excerpt, {counter.count_text(part)} of {whole} tokens"


def _compressed(body: str, question: str, longest: int, compress: Compressor) -> tuple[str, str]:
    made = compress(body, query=question)
    if made.tokens > longest:
        made = compress(body, max_tokens=max(longest, 1), query=question)
    if made.tokens == made.tokens_before:
        return body, ""
    return made.text, f"{made.method}, {made.tokens} of {made.tokens_before} tokens"


def _block(hit: Hit, *, text: str, title: str, tokens: int, note: str) -> Block:
    message = hit.record if isinstance(hit.record, Message) else None
    return Block(
        section=_SECTIONS[hit.kind],
        thread=(message.scope.session_id or "") if message and message.scope else "",
        place=(message.seq or 0) if message else 0,
        text=text,
        title=title,
        tokens=tokens,
        kind=hit.kind,
        source_id=hit.id,
        created_at=hit.created_at,
        score=hit.score - (_bulk(tokens) if message and message.role != "tool" else 0.0),
        note=note,
    )


def _bulk(tokens: int) -> float:
    """Return what a message loses for its length: half the logarithm of its tokens to those of a usual one.

    In the same room two messages of half the length may stand; Dantzig's rule for knapsacks
    would take off all of it, which leaves only short ones. What a tool gave back loses
    nothing: it is no talk that could be had in other, shorter messages.
    """
    return 0.5 * math.log((_HEAD + tokens) / (_HEAD + _HEAD + _USUAL))


def _words(hit: Hit, language: str, zone: tzinfo) -> tuple[str, str]:
    """Return the line that says where a record is from, and its words."""
    when = _date(hit.created_at, zone)
    match hit.record:
        case Message() as record:
            old = _OUTDATED[language] if hit.outdated_by else ""
            return f"[{' · '.join(filter(None, [when, _speaker(record), old]))}]", record.search_text
        case Episode() as record:
            outcome = _OUTCOMES[language][record.outcome]
            done = record.outcome_summary or "; ".join(step.description for step in record.steps)
            return "", f"[{outcome}] {record.trigger_summary} -> {done} ({when})"
        case Knowledge() as record:
            points = "".join(f"\n- {point}" for point in record.key_points)
            return f"**{record.topic}** ({when})", record.content + points
        case Fact() as record:
            return "", f"{record.line} ({when})"


def _date(moment: datetime | None, zone: tzinfo) -> str:
    if moment is None:
        return ""
    with suppress(OverflowError):  # at the edge of year 1 or 9999: shown as it is
        moment = moment.astimezone(zone)
    return moment.strftime("%Y-%m-%d %H:%M")
