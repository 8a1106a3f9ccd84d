"""Chooses what a window shows of what recall found, with the talk around it, and writes it as blocks."""

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from typing import Any, cast

from jiyi.compression.compressor import Compressor
from jiyi.long_term.facts.lookup import find_replaced_sources
from jiyi.long_term.facts.slots import NOTE
from jiyi.long_term.finding import add_surroundings
from jiyi.long_term.recall.recall import Recall
from jiyi.long_term.relevance import relevant
from jiyi.prompts import wording
from jiyi.records import Block, Episode, Fact, Hit, Hits, Item, Kind, Knowledge, Message, Query, ReportItem
from jiyi.records.budget import Section
from jiyi.records.query import Searchable
from jiyi.storage import Store, kind_of
from jiyi.text import Secrecy, TokenCounter, Trait, analyse, excerpt, first_words, query_terms, sentences
from jiyi.text.excerpt import GAP
from jiyi.text.traits import asks_last, traits

__all__ = ["RECALLED", "BlockWriter", "Recalled", "recall_blocks"]

RECALLED: Mapping[Kind, int] = {"message": 60, "episode": 5, "knowledge": 3, "fact": 5, "item": 5}
"""How many records of each kind a window searches for; the budget decides how many of them it shows."""

_PAIRED_HITS, _PARTNER_PENALTY = 5, 0.01  # best hits shown with their question or answer, which score less
_EXPANDED_HITS = 12  # best hits that are shown with the talk around them
_MIN_EXPANDED = 0.8  # relevance of those if the memory probably has no answer
_MAX_DISTANCE = 10  # messages on either side
_NEIGHBOUR_WEIGHT, _DISTANCE_DECAY = 0.03, 0.95  # of the hit's: of the next message, and per message further
_MIN_TALK_WEIGHT = math.exp(-8)  # of the best hit's: of a message that is only shown for the talk around
_TALK_BLOCKS = 20  # times the tokens of a block, more than a window has, after which no talk is added

_WIDE_TOKENS = 150  # up to which excerpts fill free room
_FRAME_TOKENS, _LINE_TOKENS = 60, 8  # of opening and headings; of a message's mark
_MAX_SUCCESSOR_TOKENS = 80  # of the successor shown below an outdated block
_SUCCESSOR_KINDS: tuple[Kind, ...] = ("fact", "message")

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

    def widened(self, hits: Sequence[Hit], room: int) -> "BlockWriter":
        """Return a writer with the most tokens of a block, up to 150, with which all fit into ``room``."""
        room, left = room - _FRAME_TOKENS, len(hits)
        for size in sorted(_LINE_TOKENS + self.counter.count_text(self._render(hit)) for hit in hits):
            if size * left > room:
                break
            room, left = room - size, left - 1
        fitting = room // left - _LINE_TOKENS if left else _WIDE_TOKENS
        return replace(self, max_tokens=max(self.max_tokens, min(fitting, _WIDE_TOKENS)))

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
                return _fact_text(record)
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
            part = excerpt(_records_by_line(text), terms, max(self.max_tokens, 1), self.counter.count_text)
        left = self.counter.count_text(part)
        return part, left, f"{note}, {left} of {tokens} tokens" if note else ""

    def _select_sentences(self, text: str, wanted: frozenset[str]) -> str:
        """Return the heading of a lesson and its best sentences, at least one."""
        heading, _, lesson = text.partition("\n")
        parts = sentences(lesson)
        matches = [len(wanted.intersection(analyse(part))) for part in parts]
        room = self.max_tokens - self.counter.count_text(heading) - _GAP_TOKENS
        taken: list[int] = []
        for place in sorted(range(len(parts)), key=lambda place: (-matches[place], place)):
            cost = self.counter.count_text(parts[place]) + 2
            if cost <= room or not taken:
                taken.append(place)
                room -= cost
        shown = [heading]
        for last, place in pairwise([-1, *sorted(taken), len(parts)]):
            shown += [GAP] if place > last + 1 else []
            shown += parts[place : place + 1]
        return "\n".join(shown)

    def _compress(self, text: str, compress: Compressor) -> tuple[str, str]:
        """Return the compressed text and the method; the text itself and "" if nothing was saved."""
        result = compress(text, query=self.question)
        if result.tokens > self.max_tokens:
            result = compress(text, max_tokens=max(self.max_tokens, 1), query=self.question)
        return (text, "") if result.tokens == result.tokens_before else (result.text, result.method)


def _records_by_line(text: str) -> str:
    """Return a JSON text with each record of its lists on a line of its own, other texts as they are."""
    with suppress(ValueError, RecursionError):
        value = json.loads(text if text.lstrip()[:1] in ("{", "[") else "")
        lists = (value if isinstance(value, dict) else {"": value}).items()
        rows = [(name, row) for name, of in lists for row in (of if isinstance(of, list) else [of])]
        return "\n".join(f"{name} {json.dumps(row, ensure_ascii=False)}".lstrip() for name, row in rows)
    return text


def _fact_text(fact: Fact) -> str:
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
        case Fact() as fact if fact.speaker != fact.subject or _fact_text(fact) == fact.text:
            return fact.speaker or ""
    return ""


def _length_penalty(tokens: int) -> float:
    """Return what a message's score loses: half the logarithm of its tokens relative to a typical message.

    All of it, by Dantzig's rule for knapsacks, leaves only short ones. Tool outputs lose nothing: no shorter
    messages could replace them.
    """
    return 0.5 * math.log((_HEADING_TOKENS + tokens) / (2 * _HEADING_TOKENS + _TYPICAL_MESSAGE_TOKENS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What recall found for a window."""

    blocks: tuple[Block, ...] = ()  # best first
    below: tuple[ReportItem, ...] = ()  # hits below the floor
    nothing_relevant: float | None = None  # probability that the memory holds no answer
    notes: tuple[str, ...] = ()  # degradations, such as an embedder that failed


def recall_blocks(
    recall: Recall,
    query: Query,
    write: BlockWriter,
    *,
    without: str = "",
    floor: float = 0.0,
    before: Collection[str] = (),
    most: Mapping[Kind, int] = RECALLED,
    room: int = 0,
) -> Recalled:
    """Search for ``query.text`` and return blocks for a window.

    ``query`` has scope and question; kinds and limits are those of ``most``. Left out are the record
    ``without``, such as the question's own, and hits that help with less probability than ``floor``, see
    `relevant`, except for the messages ``before`` the question ("and now?"). Secrets are shown only if the
    question asks for them; see `jiyi.text.Secrecy`. A greeting or thanks asks for nothing. Excerpts fill
    ``room``, the tokens that are free for blocks.
    """
    signs = traits(query.text)
    if not query.text.strip() or (Trait.GREETING in signs and Trait.QUESTION not in signs):
        return Recalled()
    snapshot = recall.store.snapshot(query.scope.user_id)
    found = recall.search(replace(query, without=(without,)) if without else query, most, snapshot=snapshot)
    chances = zip(found, relevant(found, query.text), strict=True)
    possible = [(hit, 1.0 if hit.id in before else p) for hit, p in chances if _may_be_shown(hit.record)]
    hits = _drop_repeated_facts([hit for hit, p in possible if p >= floor])
    weak = {hit.id for hit, p in possible if p < _MIN_EXPANDED} if found.doubtful else set()
    expanded = [hit for hit in hits if hit.id not in weak][:_EXPANDED_HITS]
    around = add_surroundings(recall.store, query.scope, expanded, _MAX_DISTANCE, snapshot)
    hits += _find_partners(hits, around, without)
    hit_ids = {hit.id for hit in hits}
    shown = _add_talk(hits, around, without)
    shown_ids = {hit.id for _, hit in shown}
    successors = _find_successors(found, shown_ids, recall.store, query)
    texts = ("\n".join(hit.wordings) for hit in [*(hit for _, hit in shown), *successors.values()])
    talk_room, write = _TALK_BLOCKS * write.max_tokens, write.widened([hit for _, hit in shown], room)
    write = replace(write, secrecy=Secrecy(query.text, texts, write.language))
    write_short = replace(write, max_tokens=min(write.max_tokens, _MAX_SUCCESSOR_TOKENS), compress=None)
    blocks: list[Block] = []
    for score, hit in shown:
        if talk_room > 0 or hit.id in hit_ids:
            mark: dict[str, Any] = {}
            if successor := successors.get(hit.id):
                # It is known for a fact but judged for a message, where a wrong judgement must hide nothing.
                sure = hit.kind == "fact" and hit.outdated_by is not None
                mark = {"outdated": "surely" if sure else "maybe", "successor": write_short(successor, 0.0)}
            blocks.append(write(hit, score, **mark))
            talk_room -= blocks[-1].tokens
    below = [(hit, p) for hit, p in possible if p < floor and hit.id not in shown_ids]
    return Recalled(
        blocks=tuple(blocks),
        below=tuple(write.report_item(hit, f"below the threshold; relevance {p:.2f}") for hit, p in below),
        nothing_relevant=found.nothing_relevant,
        notes=found.notes,
    )


def _drop_repeated_facts(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits without facts that a note among them contains or that repeat an earlier one's words."""
    facts = [hit.record for hit in hits if isinstance(hit.record, Fact)]
    notes = [fact.object for fact in facts if fact.predicate == NOTE]
    first = {(_fact_text(fact), fact.sources): fact.id for fact in reversed(facts)}
    again = {
        fact.id
        for fact in facts
        if first[_fact_text(fact), fact.sources] != fact.id
        or (fact.predicate != NOTE and any(fact.text in note for note in notes))
    }
    return [hit for hit in hits if hit.id not in again]


def _find_partners(hits: Sequence[Hit], around: Sequence[Hit], without: str) -> list[Hit]:
    """Return the messages, no hits themselves, that the best hits answer or that answer them."""
    known = {hit.id for hit in hits} | {without}
    more: list[Hit] = []
    for hit in around[:_PAIRED_HITS]:
        message = cast("Message", hit.record)
        for other in hit.around:
            first, second = sorted((message, other), key=lambda m: m.seq or 0)
            adjacent = (second.seq or 0) - (first.seq or 0) <= 1 and first.speaker != second.speaker
            fresh = other.id not in known and _may_be_shown(other)
            if adjacent and fresh and asks_last(first.search_text):
                known.add(other.id)
                more.append(Hit(record=other, kind="message", score=hit.score - _PARTNER_PENALTY))
    return more


def _add_talk(hits: Sequence[Hit], around: Sequence[Hit], without: str) -> list[tuple[float, Hit]]:
    """Return the hits and the messages around the best of them with new scores, best first.

    Scores are logarithms of weights: a message has its own weight and a small part of the weight of
    each of the best hits near it in its session. So a long discussion of the question is shown
    at length, and an isolated hit keeps its score. Tools gain nothing; what gains too little is left out.
    """
    if not any(hit.kind == "message" for hit in around):
        return [(hit.score, hit) for hit in hits]
    top = max(hit.score for hit in hits)
    known = {hit.id: hit for hit in hits}
    weights = {id_: math.exp(hit.score - top) for id_, hit in known.items()}
    near = {m.id: m for hit in around for m in hit.around if m.id != without and _may_be_shown(m)}
    records: dict[str, Searchable] = {**near, **{id_: hit.record for id_, hit in known.items()}}
    talk = {
        _position(record): id_
        for id_, record in records.items()
        if isinstance(record, Message) and record.role != "tool" and not record.tool_calls
    }
    gained = dict.fromkeys(records, 0.0)
    for hit in around:
        session_id, seq = _position(hit.record)
        for distance in range(1, _MAX_DISTANCE + 1) if session_id else ():
            for other in (talk.get((session_id, seq - distance)), talk.get((session_id, seq + distance))):
                if other is not None:
                    gained[other] += weights[hit.id] * _NEIGHBOUR_WEIGHT * _DISTANCE_DECAY ** (distance - 1)
    scored = [
        (top + math.log(weight), known.get(id_) or Hit(record=record, kind="message", score=0.0))
        for id_, record in records.items()
        if (weight := weights.get(id_, 0.0) + gained[id_]) > (0 if id_ in known else _MIN_TALK_WEIGHT)
    ]
    return sorted(scored, key=itemgetter(0), reverse=True)


def _position(record: Searchable) -> tuple[str, int]:
    """Return the session and sequence number of a message; ("", 0) for other records."""
    if not isinstance(record, Message) or record.scope is None:
        return "", 0
    return record.scope.session_id or "", record.seq or 0


def _find_successors(found: Hits, shown: Set[str], store: Store, query: Query) -> dict[str, Hit]:
    """Return by the id of a hit the last record that replaced it or may have; ``shown`` are ids of hits."""
    sure = {hit.id: hit.outdated_by for hit in found if hit.outdated_by}
    newer = {hit.id: hit.outdated_by or hit.maybe_outdated_by for hit in found}
    unmarked = [hit.id for hit in found if hit.kind == "message" and hit.id in shown and not newer[hit.id]]
    newer |= find_replaced_sources(store, query.scope, unmarked)
    last = {id_: _last_successor(by, sure) for id_, by in newer.items() if by}
    by_id = {hit.id: hit for hit in found if hit.kind in _SUCCESSOR_KINDS}
    if missing := tuple({*last.values()} - by_id.keys()):
        user = replace(query.scope, session_id=None)
        wanted = Query(scope=user, kinds=_SUCCESSOR_KINDS, ids=missing, limit=len(missing))
        records = cast("list[Searchable]", store.find(wanted))
        by_id |= {record.id: Hit(record=record, kind=kind_of(record), score=0.0) for record in records}
    return {id_: by_id[by] for id_, by in last.items() if by in by_id}


def _last_successor(id_: str, newer: Mapping[str, str]) -> str:
    seen = {id_}
    while (after := newer.get(id_)) and after not in seen:
        seen.add(id_ := after)
    return id_


def _may_be_shown(record: Searchable) -> bool:
    system_prompt = isinstance(record, Message) and record.role == "system"
    return not system_prompt and not (isinstance(record, Fact) and record.status != "active")
