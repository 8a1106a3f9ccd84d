"""What recall found for a question and may serve it, with what was said around it, as blocks of context."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from jiyi.long_term.blocks import BlockWriter
from jiyi.long_term.recall.recall import Recall
from jiyi.long_term.recall.weights import PLAIN, WEIGHTS
from jiyi.records import Block, Fact, Hit, Hits, Kind, Message, Query, Searchable
from jiyi.storage import Store, kind_of
from jiyi.text import Secrecy, Trait, analyse, query_terms, traits

__all__ = ["RECALLED", "Recalled", "recall_blocks", "relevant"]

RECALLED: Mapping[Kind, int] = {"message": 60, "episode": 5, "knowledge": 3, "fact": 5, "item": 5}
"""How many records of each kind a window asks for; the budget decides how many of them it shows."""

_WITH_PARTNER = 5  # best hits that bring the question they answer, or the answer to it
_PARTNER = 0.01  # by how much such a partner is worth less
_WITH_TALK = 12  # best hits that bring what was said around them
_FAR = 10  # messages on either side
_NEXT, _FURTHER = 0.03, 0.95  # what the message next to a hit has of its weight; each further one, of that
_TALK = 20  # times the longest block: more than the tokens of a window, beyond which no talk is shown

_WORDS = 0.6  # of a hit that has a word of the question; with all of them 1
_NEAR = 1.75  # deviations above the mean nearness in meaning from which on meaning alone is enough
_NEARBY, _MANY = 0.5, 30  # the same of a message, where there are so many hits to compare it with
_BEHIND = 6.0  # points behind the best hit up to which a message is part of an answer that is there
_STEEP = 4.0  # of the probability around these


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
        recall: searches.
        store: has what took the place of hits.
        query: scope and question; kinds and limits are set here.
        write: puts records into words.
        without: a record id to leave out, such as the question's own.
        floor: probability below which a hit does not serve the question; see `relevant`.
        before: ids of what was said just before the question. It has no floor: "and now?" is about it.
        most: how many records of each kind to ask for.

    Secrets are shown only where the question asks for them; see `jiyi.text.Secrecy`.
    """
    if not query.text.strip():
        return Recalled()
    found = recall.search_each(replace(query, without=(without,)), most)
    chances = zip(found, relevant(found, query.text), strict=True)
    possible = [(hit, 1.0 if hit.id in before else p) for hit, p in chances if _belongs(hit.record)]
    hits = _once([hit for hit, p in possible if p >= floor])
    around = recall.with_surroundings(query.scope, hits[:_WITH_TALK], _FAR)
    hits += _answered(hits, around, without)
    found_ids = {hit.id for hit in hits}
    shown = _in_talk(hits, around, without)
    newer = _successors(found, store, query)
    texts = ("\n".join(hit.wordings) for hit in (*shown, *newer.values()))
    write = replace(write, secrecy=Secrecy(query.text, texts, write.language))
    blocks: list[Block] = []
    room = _TALK * write.longest
    for hit in shown:
        if room > 0 or hit.id in found_ids:
            block = write(hit)
            if hit.id in newer:
                # Of a fact it is known; of a message it is judged, and a wrong judgement must hide nothing.
                sure = hit.kind == "fact" and hit.outdated_by is not None
                after = write.short(newer[hit.id])
                block = replace(block, outdated="surely" if sure else "maybe", successor=after)
            blocks.append(block)
            room -= block.tokens
    below = [replace(write(hit), note=f"relevance {p:.2f}") for hit, p in possible if p < floor]
    return Recalled(
        blocks=tuple(blocks),
        below=tuple(block for block in below if block.source_id not in {one.id for one in shown}),
        nothing_relevant=found.nothing_relevant,
        notes=found.notes,
    )


def relevant(hits: Hits, question: str) -> list[float]:
    """Return for each hit the probability, 0 to 1, that it serves the question.

    What has a content word of the question may serve it, the more of them the likelier; what
    has none must be near it in meaning, as compared with the other candidates. Messages are
    ranked by what was said around them, too: where an answer is likely to be there, those
    not far behind the best hit may be part of it.
    """
    wanted = frozenset(query_terms(question))
    best = max((hit.score for hit in hits), default=0.0)
    near = _NEARBY if len(hits) >= _MANY else _NEAR
    return [
        max(
            _by_words(hit, wanted),
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


def _by_words(hit: Hit, wanted: frozenset[str]) -> float:
    said = f"{hit.text} {hit.record.text}" if isinstance(hit.record, Fact) else hit.text
    found = len(wanted.intersection(analyse(said)))
    return _WORDS + (1 - _WORDS) * found / len(wanted) if found else 0.0


def _above(points: float) -> float:
    return 1 / (1 + math.exp(-_STEEP * max(-50.0, points)))


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
            talk = Trait.ASKS_LAST in traits(first.search_text) and first.speaker != second.speaker
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
    near = {m.id: Hit(record=m, kind="message", score=0.0) for hit in around for m in hit.around}
    found = {id_: hit for id_, hit in near.items() if id_ != without and not _is_prompt(hit.record)}
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


def _successors(found: Hits, store: Store, query: Query) -> dict[str, Hit]:
    """Return by the id of a hit what took its place, or may have, in the end."""
    sure = {hit.id: hit.outdated_by for hit in found if hit.outdated_by}
    newer = {hit.id: hit.outdated_by or hit.maybe_outdated_by for hit in found}
    last = {id_: _last(by, sure) for id_, by in newer.items() if by}
    if not last:
        return {}
    user = replace(query.scope, session_id=None)
    wanted = Query(scope=user, ids=tuple(last.values()), limit=len(last))
    records = {record.id: record for record in cast("list[Searchable]", store.find(wanted))}
    hits = {id_: Hit(record=one, kind=kind_of(one), score=0.0) for id_, one in records.items()}
    return {id_: hits[by] for id_, by in last.items() if by in hits}


def _last(id_: str, newer: Mapping[str, str]) -> str:
    """Return what is at the end of a chain of successors."""
    seen = {id_}
    while (after := newer.get(id_)) and after not in seen:
        seen.add(id_ := after)
    return id_


def _belongs(record: Searchable) -> bool:
    """Say whether a record may stand in a window: no old prompt, and no fact that holds no more."""
    return not _is_prompt(record) and not (isinstance(record, Fact) and record.status != "active")


def _is_prompt(record: Searchable) -> bool:
    return isinstance(record, Message) and record.role == "system"  # an old prompt is no memory
