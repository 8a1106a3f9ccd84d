"""Turns ranked candidates into hits: priors, comparisons and facts change scores, and repeats are found."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from jiyi.long_term.recall.outdated import MAYBE, REORDER, SURE, Comparison
from jiyi.long_term.recall.question import asks_again
from jiyi.long_term.recall.ranking import Ranked
from jiyi.long_term.recall.weights import PRIORS
from jiyi.records import Fact, Hit, Knowledge, Message, Searchable
from jiyi.storage import Key
from jiyi.text import query_terms

RecordText = tuple[Searchable, str]
"""A record with its search text."""

TextKey = tuple[str, str | None]
"""A record's text without case, punctuation and white space, and its speaker; equal for repeats."""

_WORD = re.compile(r"\w+")
_MAX_CACHED_CHARS = 500  # of a text whose words are cached, as records are often found again
_MAX_COMPARED_CHARS = 100_000  # of a text that repeats another with other case and punctuation

_SCORE_STEP = 0.1  # between the scores of records whose order is set


def _prior_scores(record: Searchable) -> dict[str, float]:
    """Return what a record's pin, importance or confidence adds to its score for any question."""
    priors = {"pinned": PRIORS["pinned"]} if record.pinned else {}
    name = "confidence" if isinstance(record, Knowledge | Fact) else "importance"
    rating = getattr(record, name, None)
    if rating is not None and (share := PRIORS[name] * (rating - 0.5)):
        priors[name] = round(share, 4)
    return priors


class ScoredRecord(NamedTuple):
    """A candidate with its record and its score."""

    score: float
    row: int
    record: Searchable
    why: dict[str, float]  # what was added to the score of its features


def score_records(
    records: Mapping[int, RecordText], ranked: Ranked, compared: Comparison
) -> list[ScoredRecord]:
    """Return the records of candidates by row with their scores, after priors and comparisons, best first."""
    score_changes, scored = compared.score_changes, []
    scores = ranked.scores[list(records)].tolist()
    for (row, (record, _)), score in zip(records.items(), scores, strict=True):
        why = _prior_scores(record)
        if lift := score_changes.get(row, 0.0):
            why["in_force"] = round(lift, 6)
        scored.append(ScoredRecord(score + sum(why.values()), row, record, why))
    return _sort_records(scored, ranked, compared)


def _sort_records(scored: list[ScoredRecord], ranked: Ranked, compared: Comparison) -> list[ScoredRecord]:
    """Sort by score, each fact after what likely replaced its message or, if asked about now, the fact."""
    table, time = ranked.table, ranked.features.question.time
    successors = {table.key(row): table.key(later) for row, later in compared.successor_rows(REORDER).items()}
    if time and time.kind == "now":
        facts = (item.record for item in scored if isinstance(item.record, Fact))
        ended = (fact for fact in facts if fact.status == "superseded")
        successors |= {("fact", fact.id): ("fact", fact.superseded_by or "") for fact in ended}
    keys = table.keys_of([item.row for item in scored])
    scores = {key: item.score for key, item in zip(keys, scored, strict=True)}
    moved = []
    for item in scored if successors else ():
        fact = item.record if isinstance(item.record, Fact) else None
        successor = successors.get(_source_key(fact, ("fact", fact.id))) if fact else None
        if successor is not None and successor not in scores:  # it may be returned, but was not fetched
            rows = zip(ranked.rows.tolist(), table.keys_of(ranked.rows), strict=True)
            found = (float(ranked.scores[row]) for row, key in rows if key == successor)
            scores[successor] = next(found, item.score)
        lowered = item.score if successor is None else scores[successor] - _SCORE_STEP
        why = {"in_force": round(lowered - item.score, 6)} if lowered < item.score else {}
        moved.append(item._replace(score=lowered, why={**why, **item.why}) if why else item)
    return sorted(moved or scored, key=itemgetter(0), reverse=True)


def _source_key(record: Searchable, key: Key) -> Key:
    """Return the last message a fact was read from, since the fact is outdated with it; else ``key``."""
    if isinstance(record, Fact) and record.status != "superseded" and record.sources:
        return "message", record.sources[-1]
    return key


def find_answer_rows(answers: Iterable[Sequence[Key]], ranked: Ranked, compared: Comparison) -> list[int]:
    """Return the rows of the facts that answer the question, then of their messages.

    Args:
        answers: each fact, followed by the message it was read from.
        ranked: the candidates; rows that may not be returned are left out.
        compared: a fact whose message may be outdated is left out with its message.
    """
    table, doubted = ranked.table, set(compared.successor_rows(REORDER))
    row_of = {key: row for row, key in enumerate(table.keys)}
    groups = [[row for key in answer if (row := row_of.get(key)) is not None] for answer in answers]
    valid = [rows for rows in groups if not doubted.intersection(rows)]
    rows = [*(row for rows in valid for row in rows[:1]), *(row for rows in valid for row in rows[1:])]
    return [row for row in rows if table.eligible[row]]


def put_first(scored: list[ScoredRecord], rows: Sequence[int]) -> list[ScoredRecord]:
    """Put the records of these rows first, in the order of the rows; the others keep theirs."""
    if not scored or not rows:
        return scored
    raised = {row: scored[0].score + _SCORE_STEP * place for place, row in enumerate(reversed(rows), 1)}
    moved = [
        item._replace(score=score, why={"asked_point": round(score - item.score, 6), **item.why})
        if (score := raised.get(item.row)) is not None
        else item
        for item in scored
    ]
    return sorted(moved, key=itemgetter(0), reverse=True)


def make_hits(
    chosen: Sequence[ScoredRecord], ranked: Ranked, compared: Comparison, relevance: Mapping[int, float]
) -> Iterator[Hit]:
    """Yield hits of candidates, with what each feature added to the score and what replaced the record."""
    table, features = ranked.table, ranked.features
    sure = compared.successor_rows(SURE)
    doubted = {table.key(row): table.key(later)[1] for row, later in compared.successor_rows(MAYBE).items()}
    rows = [item.row for item in chosen]
    columns = zip(chosen, table.keys_of(rows), ranked.why(rows), strict=True)
    for (score, row, record, why), key, share in columns:
        certain = row in sure or "asked_point" in why  # an answer is not doubted for the rest of its message
        replaced_by = table.key(sure[row])[1] if row in sure else None
        if isinstance(record, Fact):  # as stored, not as estimated
            replaced_by = record.superseded_by if record.status == "superseded" else None
        yield Hit(
            record=record,
            kind=key[0],
            score=score,
            relevance=relevance[row],
            similarity=float(features.similarity[row]),
            why={**why, **share},
            outdated_by=replaced_by,
            maybe_outdated_by=None if certain or not doubted else doubted.get(_source_key(record, key)),
        )


def text_keys(records: Iterable[RecordText], question: str = "") -> list[TextKey]:
    """Return keys of records that are equal for repeats; see `mark_repeats`."""
    terms, keys = frozenset(query_terms(question)), list[TextKey]()
    for record, text in records:
        message = record if isinstance(record, Message) else None
        if message and asks_again(message.text if message.tool_calls else text, terms):
            keys.append(("", None))
            continue
        normalise = _normalise_text if len(text) <= _MAX_CACHED_CHARS else _normalise_text.__wrapped__
        keys.append((normalise(text), (message.name or message.role) if message else None))
    return keys


@lru_cache(maxsize=4096)
def _normalise_text(text: str) -> str:
    return (" ".join(_WORD.findall(text.casefold())) if len(text) <= _MAX_COMPARED_CHARS else "") or text


def mark_repeats(keys: Sequence[TextKey]) -> list[bool]:
    """Return for each record, given by its text key and best first, whether it repeats an earlier one.

    A repeat is a text of the same speaker that equals an earlier one apart from case, punctuation and
    white space, or a message, except the first, that only asks the question again: otherwise copies of the
    question would come before its answer. A text that only resembles another may hold the answer.
    """
    first = {key: place for place, key in reversed(list(enumerate(keys)))}
    return [first[key] != place for place, key in enumerate(keys)]
