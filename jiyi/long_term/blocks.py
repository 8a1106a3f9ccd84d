"""Blocks of context: what recall finds for a question, worded and shortened for a window."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, cast

from jiyi.compression.compressor import Compressor
from jiyi.long_term.recall.recall import Recall
from jiyi.long_term.recall.surroundings import add_surroundings
from jiyi.long_term.recall.weights import PLAIN, WEIGHTS
from jiyi.prompts import wording
from jiyi.records import (
    Block,
    Episode,
    Fact,
    Hit,
    Hits,
    Item,
    Kind,
    Knowledge,
    Message,
    Query,
    Searchable,
    Section,
)
from jiyi.storage import Store, kind_of
from jiyi.text import Secrecy, TokenCounter, analyse, excerpt, query_terms, sentences
from jiyi.text.excerpt import GAP
from jiyi.text.traits import asks_last

__all__ = ["RECALLED", "BlockWriter", "Recalled", "recall_blocks", "relevant"]

RECALLED: Mapping[Kind, int] = {"message": 60, "episode": 5, "knowledge": 3, "fact": 5, "item": 5}
"""How many records of each kind a window asks for; the budget decides how many of them it shows."""

_WITH_PARTNER, _PARTNER = 5, 0.01  # best hits that bring their question or answer, worth so much less
_WITH_TALK = 12  # best hits that bring what was said around them
_FAR = 10  # messages on either side
_NEXT, _FURTHER = 0.03, 0.95  # what the message next to a hit has of its weight; each further one, of that
_TALK = 20  # times the longest block: more than the tokens of a window, beyond which no talk is shown

_WORDS = 0.6  # of a hit that has a word of the question; with all of them 1; unless nothing seems to answer
_NEAR = 1.75  # deviations above the mean nearness in meaning from which on meaning alone is enough
_NEARBY, _MANY = 0.5, 30  # the same of a message, where there are so many hits to compare it with
_BEHIND = 6.0  # points below the best hit up to which a message is part of an answer that is there
_STEEP = 4.0  # of the probability around these

_SUCCESSOR = 80  # tokens of what stands below something outdated, at most
_REPLACING: tuple[Kind, ...] = ("fact", "message")  # kinds of what takes the place of another record
_GAPS = 4  # tokens of "…" before and after the sentences shown
_USUAL, _HEAD = 30, 18  # tokens of a usual message and of the line above it
_SECTIONS: Mapping[str, Section] = {"message": "recalled", "episode": "episodes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockWriter:
    """Writes hits as blocks for one question.

    A text longer than ``longest`` is shown as the excerpt that matches the question best, knowledge
    in whole sentences; the block's note says so, and the record is unchanged.
    """

    question: str
    counter: TokenCounter
    language: str  # "zh" or "en"
    longest: int  # tokens a block may take
    compress: Compressor | None = None  # makes every text smaller, in place of excerpts
    # Hides what the question does not ask for; see `Secrecy`.
    secrecy: Callable[..., str] = lambda text, *_: text

    def __call__(self, hit: Hit, score: float | None = None, *, note: str = "", **more: Any) -> Block:
        """Return a hit as a block; ``score``, ``note`` and ``more`` in place of its own."""
        whole = self._words(hit)
        text = self.secrecy(whole, *hit.wordings)
        shown, shortened = self._shortened(hit, text)
        tokens = self.counter.count_text(shown)
        message = hit.record if isinstance(hit.record, Message) else None
        said = message is not None and message.role != "tool"
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
            score=(hit.score if score is None else score) - (_bulk(tokens) if said else 0.0),
            note=note or "; ".join(filter(None, ["" if text == whole else "secret hidden", shortened])),
            **more,
        )

    def short(self, hit: Hit) -> Block:
        """Return a hit in few words, to be shown below what it replaced."""
        return replace(self, longest=min(self.longest, _SUCCESSOR), compress=None)(hit, 0.0)

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

    def _shortened(self, hit: Hit, text: str) -> tuple[str, str]:
        if self.compress is not None:
            return self._compressed(text, self.compress)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What the memory has for a window."""

    blocks: tuple[Block, ...] = ()  # best first
    below: tuple[Block, ...] = ()  # what was found and is below the floor
    nothing_relevant: float | None = None  # probability that the memory holds no answer
    notes: tuple[str, ...] = ()  # what was not as it should be


def recall_blocks(
    recall: Recall,
    store: Store,
    query: Query,
    write: BlockWriter,
    *,
    without: str = "",
    floor: float = 0.0,
    before: Collection[str] = (),
    most: Mapping[Kind, int] = RECALLED,
) -> Recalled:
    """Search for ``query.text`` and return blocks for a window.

    Args:
        recall, store, write: for search, for what replaced hits, and for wording records.
        query: scope and question; kinds and limits are set here.
        without: a record id to leave out, such as the question's own.
        floor: hits less likely than this to help are left out; see `relevant`.
        before: ids of what was said just before the question; exempt from the floor ("and now?").
        most: how many records of each kind to ask for.

    Secrets are shown only if the question asks for them; see `jiyi.text.Secrecy`.
    """
    if not query.text.strip():
        return Recalled()
    snapshot = store.snapshot(query.scope.user_id)
    found = recall.search(replace(query, without=(without,)), most, snapshot=snapshot)
    chances = zip(found, relevant(found, query.text), strict=True)
    possible = [(hit, 1.0 if hit.id in before else p) for hit, p in chances if _belongs(hit.record)]
    hits = _without_repeated_facts([hit for hit, p in possible if p >= floor])
    around = add_surroundings(store, query.scope, hits[:_WITH_TALK], _FAR, snapshot)
    hits += _answered(hits, around, without)
    found_ids = {hit.id for hit in hits}
    shown = _in_talk(hits, around, without)
    newer = _successors(found, store, query)
    texts = ("\n".join(hit.wordings) for hit in [*(hit for _, hit in shown), *newer.values()])
    write = replace(write, secrecy=Secrecy(query.text, texts, write.language))
    blocks: list[Block] = []
    room = _TALK * write.longest
    for score, hit in shown:
        if room > 0 or hit.id in found_ids:
            mark: dict[str, Any] = {}
            if hit.id in newer:
                # Of a fact it is known; of a message it is judged, and a wrong judgement must hide nothing.
                sure = hit.kind == "fact" and hit.outdated_by is not None
                mark = {"outdated": "surely" if sure else "maybe", "successor": write.short(newer[hit.id])}
            blocks.append(write(hit, score, **mark))
            room -= blocks[-1].tokens
    shown_ids = {hit.id for _, hit in shown}
    below = [(hit, p) for hit, p in possible if p < floor and hit.id not in shown_ids]
    return Recalled(
        blocks=tuple(blocks),
        below=tuple(write(hit, note=f"relevance {p:.2f}") for hit, p in below),
        nothing_relevant=found.nothing_relevant,
        notes=found.notes,
    )


def relevant(hits: Hits, question: str) -> list[float]:
    """Return for each hit the probability, 0 to 1, that it helps with the question.

    A hit with content words of the question may help, the more the likelier; without any it
    must be nearer in meaning than the other candidates. Messages are also ranked by what was
    said around them: if the memory probably has an answer, those not far below the best hit
    may be part of it. If it probably has none, a hit must have half of the words, or be far
    nearer than the others.
    """
    wanted = frozenset(query_terms(question))
    best = max((hit.score for hit in hits), default=0.0)
    near, some = (_NEAR, 0.0) if hits.doubtful else (_NEARBY if len(hits) >= _MANY else _NEAR, _WORDS)
    return [
        max(
            _by_words(hit, wanted, some),
            _above(_nearness(hit) - (near if hit.kind == "message" else _NEAR)),
            _above(hit.score - best + _BEHIND) if hit.kind == "message" and not hits.doubtful else 0.0,
        )
        for hit in hits
    ]


def _nearness(hit: Hit) -> float:
    """Return how many deviations above the mean a hit is near in meaning; notes have another sign of it."""
    for name, weights in (("apart", WEIGHTS), ("meaning", PLAIN)):
        if name in hit.why:
            return hit.why[name] / weights[name]
    return 0.0


def _by_words(hit: Hit, wanted: frozenset[str], some: float) -> float:
    """Return the share of the words that a hit has, from ``some`` for one of them to 1 for all."""
    said = f"{hit.text} {hit.record.text}" if isinstance(hit.record, Fact) else hit.text
    found = len(wanted.intersection(analyse(said)))
    return some + (1 - some) * found / len(wanted) if found else 0.0


def _above(points: float) -> float:
    return 1 / (1 + math.exp(-_STEEP * max(-50.0, points)))


def _without_repeated_facts(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits without facts that a note among them holds, or that show the words of one before."""
    facts = [hit.record for hit in hits if isinstance(hit.record, Fact)]
    notes = [fact.object for fact in facts if fact.category == "note"]
    first = {(_stated(fact), fact.sources): fact.id for fact in reversed(facts)}
    again = {
        fact.id
        for fact in facts
        if first[_stated(fact), fact.sources] != fact.id
        or (fact.category != "note" and any(fact.text in note for note in notes))
    }
    return [hit for hit in hits if hit.id not in again]


def _answered(hits: Sequence[Hit], around: Sequence[Hit], without: str) -> list[Hit]:
    """Return the questions that the first hits answer, and the answers to those that ask.

    Each is worth a little less than its hit. What is a hit itself is there already.
    """
    known = {hit.id for hit in hits} | {without}
    more: list[Hit] = []
    for hit in around[:_WITH_PARTNER]:
        message = cast("Message", hit.record)
        for other in hit.around:
            first, second = sorted((message, other), key=lambda m: m.seq or 0)
            beside = (second.seq or 0) - (first.seq or 0) <= 1 and first.speaker != second.speaker
            fresh = other.id not in known and not _is_prompt(other)
            if beside and fresh and asks_last(first.search_text):
                known.add(other.id)
                more.append(Hit(record=other, kind="message", score=hit.score - _PARTNER))
    return more


def _in_talk(hits: Sequence[Hit], around: Sequence[Hit], without: str) -> list[tuple[float, Hit]]:
    """Return the hits and what was said around the best of them, best first, after scores that count that.

    Scores are logarithms of weights: a message has its own weight, and a small part of that
    of each of the best hits near it in its session. What is talked about at length is so
    shown at length, and a hit that stands alone keeps its score. Tool calls and results are
    no talk: they gain nothing.
    """
    if not any(hit.kind == "message" for hit in around):
        return [(hit.score, hit) for hit in hits]
    top = max(hit.score for hit in hits)
    known = {hit.id: hit for hit in hits}
    weights = {id_: math.exp(hit.score - top) for id_, hit in known.items()}
    near = {m.id: m for hit in around for m in hit.around if m.id != without and not _is_prompt(m)}
    found: dict[str, Searchable] = {**near, **{id_: hit.record for id_, hit in known.items()}}
    said = {
        _place(record): id_
        for id_, record in found.items()
        if isinstance(record, Message) and record.role != "tool" and not record.tool_calls
    }
    gained = dict.fromkeys(found, 0.0)
    for hit in around:
        thread, seq = _place(hit.record)
        for apart in range(1, _FAR + 1) if thread else ():
            for other in (said.get((thread, seq - apart)), said.get((thread, seq + apart))):
                if other is not None:
                    gained[other] += weights[hit.id] * _NEXT * _FURTHER ** (apart - 1)
    scored = [
        (top + math.log(weight), known.get(id_) or Hit(record=record, kind="message", score=0.0))
        for id_, record in found.items()
        if (weight := weights.get(id_, 0.0) + gained[id_]) > 0
    ]
    return sorted(scored, key=itemgetter(0), reverse=True)


def _place(record: Searchable) -> tuple[str, int]:
    """Return the session of a message and its place there; ("", 0) for other records."""
    if not isinstance(record, Message) or record.scope is None:
        return "", 0
    return record.scope.session_id or "", record.seq or 0


def _successors(found: Hits, store: Store, query: Query) -> dict[str, Hit]:
    """Return by the id of a hit what took its place, or may have, in the end."""
    sure = {hit.id: hit.outdated_by for hit in found if hit.outdated_by}
    newer = {hit.id: hit.outdated_by or hit.maybe_outdated_by for hit in found}
    last = {id_: _last(by, sure) for id_, by in newer.items() if by}
    if not last:
        return {}
    there = {hit.id: hit for hit in found if hit.kind in _REPLACING}
    if missing := tuple({*last.values()} - there.keys()):
        user = replace(query.scope, session_id=None)
        wanted = Query(scope=user, kinds=_REPLACING, ids=missing, limit=len(missing))
        records = cast("list[Searchable]", store.find(wanted))
        there |= {one.id: Hit(record=one, kind=kind_of(one), score=0.0) for one in records}
    return {id_: there[by] for id_, by in last.items() if by in there}


def _last(id_: str, newer: Mapping[str, str]) -> str:
    seen = {id_}
    while (after := newer.get(id_)) and after not in seen:
        seen.add(id_ := after)
    return id_


def _belongs(record: Searchable) -> bool:
    return not _is_prompt(record) and not (isinstance(record, Fact) and record.status != "active")


def _is_prompt(record: Searchable) -> bool:
    return isinstance(record, Message) and record.role == "system"  # an old prompt is no memory
