"""Renders what recall found as blocks of a window, shortened and without secrets."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jiyi.compression.compressor import Compressor
from jiyi.prompts import wording
from jiyi.records import Block, Episode, Fact, Hit, Item, Knowledge, Message, ReportItem, Section
from jiyi.text import TokenCounter, analyse, excerpt, first_words, query_terms, sentences
from jiyi.text.excerpt import GAP

__all__ = ["BlockWriter", "fact_text"]

_GAP_TOKENS = 4  # of "…" before and after the sentences shown
_TYPICAL_MESSAGE_TOKENS, _HEADING_TOKENS = 30, 18  # of a message and of the line above it
_SECTIONS: Mapping[str, Section] = {"message": "recalled", "episode": "episodes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockWriter:
    """Writes hits as blocks for one question.

    A text longer than ``max_tokens`` is shown as the excerpt that matches the question best, knowledge
    in whole sentences; the block's note says so, and the record is unchanged.
    """

    question: str
    counter: TokenCounter
    language: str  # "zh" or "en"
    max_tokens: int  # of a block
    compress: Compressor | None = None  # shortens every text, in place of excerpts
    # Hides secrets that the question does not ask for; see `Secrecy`.
    secrecy: Callable[..., str] = lambda text, *_: text

    def __call__(self, hit: Hit, score: float | None = None, **more: Any) -> Block:
        """Return a hit as a block; ``score`` and ``more`` replace its own."""
        rendered = self._render(hit)
        text = self.secrecy(rendered, *hit.wordings)
        shown, tokens, shortened = self._shorten(hit, text)
        message = hit.record if isinstance(hit.record, Message) else None
        is_talk = message is not None and message.role != "tool"
        return Block(
            section=_SECTIONS.get(hit.kind, "knowledge"),
            text=shown,
            tokens=tokens,
            kind=hit.kind,
            source_id=hit.id,
            sources=hit.record.sources if isinstance(hit.record, Fact) else (),
            created_at=hit.created_at,
            speaker=_speaker(hit),
            thread=(message.scope.session_id or "") if message and message.scope else "",
            place=(message.seq or 0) if message else 0,
            whole=not shortened,
            score=(hit.score if score is None else score) - (_length_penalty(tokens) if is_talk else 0.0),
            note="; ".join(filter(None, ["" if text == rendered else "secret hidden", shortened])),
            **more,
        )

    def report_item(self, hit: Hit, reason: str) -> ReportItem:
        """Return the report's line about a hit that is left out."""
        text = self.secrecy(self._render(hit), *hit.wordings)
        return ReportItem(
            section=_SECTIONS.get(hit.kind, "knowledge"),
            kind=hit.kind,
            id=hit.id,
            tokens=min(self.counter.count_text(text), self.max_tokens),
            reason=reason,
            title=first_words(text),
            created_at=hit.created_at,
        )

    def _render(self, hit: Hit) -> str:
        match hit.record:
            case Episode() as record:
                outcome = wording("outcome", self.language)[record.outcome]
                done = record.outcome_summary or "; ".join(step.description for step in record.steps)
                return f"[{outcome}] {record.trigger_summary} -> {done}"
            case Knowledge() as record:
                points = "".join(f"\n- {point}" for point in record.key_points)
                return f"**{record.topic}**\n{record.content}{points}"
            case Item() as record:
                return f"**{record.path}**\n{record.text}"
            case Fact() as record:
                return fact_text(record)
        return hit.text

    def _shorten(self, hit: Hit, text: str) -> tuple[str, int, str]:
        tokens = self.counter.count_text(text)
        if self.compress is None and tokens <= self.max_tokens:
            return text, tokens, ""
        terms, note = query_terms(self.question), "excerpt"
        if self.compress is not None:
            part, note = self._compress(text, self.compress)
        elif hit.kind == "knowledge":
            part = self._select_sentences(text, frozenset(terms))
        else:
            part = excerpt(text, terms, max(self.max_tokens, 1), self.counter.count_text)
        left = self.counter.count_text(part)
        return part, left, f"{note}, {left} of {tokens} tokens" if note else ""

    def _select_sentences(self, text: str, wanted: frozenset[str]) -> str:
        """Return the heading of a lesson and its best sentences, at least one."""
        heading, _, lesson = text.partition("\n")
        parts = sentences(lesson)
        if not parts:
            return heading
        matches = [len(wanted.intersection(analyse(part))) for part in parts]
        room = self.max_tokens - self.counter.count_text(heading) - _GAP_TOKENS
        taken: list[int] = []
        for place in sorted(range(len(parts)), key=lambda place: (-matches[place], place)):
            cost = self.counter.count_text(parts[place]) + 2
            if cost <= room or not taken:
                taken.append(place)
                room -= cost
        shown, last = [heading], -1
        for place in [*sorted(taken), len(parts)]:
            shown += [GAP] if place > last + 1 else []
            shown += parts[place : place + 1]
            last = place
        return "\n".join(shown)

    def _compress(self, text: str, compress: Compressor) -> tuple[str, str]:
        """Return the compressed text and the method; the text itself and "" if nothing was saved."""
        result = compress(text, query=self.question)
        if result.tokens > self.max_tokens:
            result = compress(text, max_tokens=max(self.max_tokens, 1), query=self.question)
        return (text, "") if result.tokens == result.tokens_before else (result.text, result.method)


def fact_text(fact: Fact) -> str:
    """Return a fact in its original words, or as subject, predicate and object if these lack context."""
    text = fact.text.casefold()
    has_subject = fact.subject.casefold() in text or fact.subject == fact.speaker
    parts = " ".join([fact.subject, fact.predicate, fact.object])
    return fact.text if has_subject and fact.object.casefold() in text and fact.text != parts else fact.line


def _speaker(hit: Hit) -> str:
    """Return who said a message or a fact; "" for a fact about its speaker that is not in original words."""
    match hit.record:
        case Message() as message:
            return message.speaker
        case Fact() as fact if fact.speaker != fact.subject or fact_text(fact) == fact.text:
            return fact.speaker or ""
    return ""


def _length_penalty(tokens: int) -> float:
    """Return what a message's score loses: half the logarithm of its tokens relative to a typical message.

    Two messages of half the length fit in the same space; Dantzig's rule for knapsacks would subtract
    all of the logarithm, which leaves only short ones. Tool outputs lose nothing: no shorter messages
    could replace them.
    """
    typical = _HEADING_TOKENS + _TYPICAL_MESSAGE_TOKENS
    return 0.5 * math.log((_HEADING_TOKENS + tokens) / (_HEADING_TOKENS + typical))
