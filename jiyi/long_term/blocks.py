"""A record as a block of context: in the words, and at the length, that a window shows."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from jiyi.compression.compressor import Compressor
from jiyi.prompts import wording
from jiyi.records import Block, Episode, Fact, Hit, Item, Knowledge, Message, Section
from jiyi.text import TokenCounter, analyse, excerpt, query_terms, sentences
from jiyi.text.excerpt import GAP

__all__ = ["BlockWriter"]

_SUCCESSOR = 80  # tokens of what stands below something outdated, at most
_GAPS = 4  # tokens of "…" before and after the sentences shown
_USUAL, _HEAD = 30, 18  # tokens of a usual message and of the line above it
_SECTIONS: Mapping[str, Section] = {
    "message": "recalled",
    "episode": "episodes",
    "knowledge": "knowledge",
    "fact": "knowledge",
    "item": "knowledge",
}


def _open(text: str, *_: str) -> str:
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockWriter:
    """Writes hits as blocks for one question.

    A longer text than ``longest`` is shown as the excerpt that serves the question best, of
    knowledge in whole sentences; the block's note says so, and the record stays whole.
    """

    question: str
    counter: TokenCounter
    language: str  # "zh" or "en"
    longest: int  # tokens a block may take
    compress: Compressor | None = None  # makes every text smaller, in place of excerpts
    secrecy: Callable[..., str] = _open  # hides what the question does not ask for; see `Secrecy`

    def __call__(self, hit: Hit) -> Block:
        """Return a hit as a block."""
        whole = self._words(hit)
        text = self.secrecy(whole, *hit.wordings)
        if self.compress is not None:
            shown, note = self._compressed(text, self.compress)
        else:
            shown, note = self._excerpt(hit, text)
        tokens = self.counter.count_text(shown)
        hidden = "" if text == whole else "secret hidden"
        message = hit.record if isinstance(hit.record, Message) else None
        said = message is not None and message.role != "tool"
        return Block(
            section=_SECTIONS[hit.kind],
            text=shown,
            tokens=tokens,
            kind=hit.kind,
            source_id=hit.id,
            sources=hit.record.sources if isinstance(hit.record, Fact) else (),
            created_at=hit.created_at,
            speaker=_speaker(hit),
            thread=(message.scope.session_id or "") if message and message.scope else "",
            place=(message.seq or 0) if message else 0,
            whole=not note,
            score=hit.score - (_bulk(tokens) if said else 0.0),
            note="; ".join(filter(None, [hidden, note])),
        )

    def short(self, hit: Hit) -> Block:
        """Return a hit as what stands below something whose place it took."""
        return replace(self, longest=min(self.longest, _SUCCESSOR), compress=None)(hit)

    def _words(self, hit: Hit) -> str:
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
                return _stated(record)
        return hit.text

    def _excerpt(self, hit: Hit, text: str) -> tuple[str, str]:
        whole = self.counter.count_text(text)
        if whole <= self.longest:
            return text, ""
        terms = query_terms(self.question)
        if hit.kind == "knowledge":
            part = self._sentences(text, frozenset(terms))
        else:
            part = excerpt(text, terms, max(self.longest, 1), self.counter.count_text)
        return part, f"excerpt, {self.counter.count_text(part)} of {whole} tokens"

    def _sentences(self, text: str, wanted: frozenset[str]) -> str:
        """Return the heading of a lesson and its best sentences, at least one, each of them whole."""
        heading, _, lesson = text.partition("\n")
        parts = sentences(lesson)
        if not parts:
            return heading
        found = [len(wanted.intersection(analyse(part))) for part in parts]
        room = self.longest - self.counter.count_text(heading) - _GAPS
        taken: list[int] = []
        for place in sorted(range(len(parts)), key=lambda place: (-found[place], place)):
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

    def _compressed(self, text: str, compress: Compressor) -> tuple[str, str]:
        made = compress(text, query=self.question)
        if made.tokens > self.longest:
            made = compress(text, max_tokens=max(self.longest, 1), query=self.question)
        if made.tokens == made.tokens_before:
            return text, ""
        return made.text, f"{made.method}, {made.tokens} of {made.tokens_before} tokens"


def _stated(fact: Fact) -> str:
    """Return the words a fact was said in, or its parts where these do not say what it is about."""
    own = fact.text.casefold()
    about = fact.subject.casefold() in own or fact.subject == fact.speaker
    parts = " ".join([fact.subject, fact.predicate, fact.object])
    return fact.text if about and fact.object.casefold() in own and fact.text != parts else fact.line


def _speaker(hit: Hit) -> str:
    """Return who said a message, or a fact about something else than its speaker."""
    match hit.record:
        case Message() as message:
            return message.speaker
        case Fact() as fact if fact.speaker != fact.subject or _stated(fact) == fact.text:
            return fact.speaker or ""
    return ""


def _bulk(tokens: int) -> float:
    """Return what a message loses for its length: half the logarithm of its tokens to those of a usual one.

    In the same room two messages of half the length may stand; Dantzig's rule for knapsacks
    would take off all of it, which leaves only short ones. What a tool gave back loses
    nothing: it is no talk that could be had in other, shorter messages.
    """
    return 0.5 * math.log((_HEAD + tokens) / (_HEAD + _HEAD + _USUAL))
