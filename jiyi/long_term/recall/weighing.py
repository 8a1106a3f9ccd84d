"""From ranked candidates to hits: what records, judgement and known facts add to the order."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from jiyi.long_term.recall.outdated import LIFTED, MAYBE, SURE, Judged
from jiyi.long_term.recall.ranking import Ranked, Worded
from jiyi.long_term.recall.weights import PRIORS
from jiyi.records import Fact, Hit, Knowledge, Searchable
from jiyi.storage import Candidates, Key

__all__ = ["Weighed", "answering", "as_hits", "told_first", "weighed"]

_STEP = 0.1  # points of score between records that are put in an order


def _prior(record: Searchable) -> dict[str, float]:
    """Return what a record is worth whatever is asked: kept by hand, rated as important, certain."""
    prior = {"pinned": PRIORS["pinned"]} if record.pinned else {}
    rated = "confidence" if isinstance(record, Knowledge | Fact) else "importance"
    rate = getattr(record, rated, None)
    if rate is not None and (share := PRIORS[rated] * (rate - 0.5)):
        prior[rated] = round(share, 4)
    return prior


class Weighed(NamedTuple):
    """A candidate with its record and its score."""

    score: float
    row: int
    record: Searchable
    why: dict[str, float]  # what moved it, apart from its features


def weighed(records: Mapping[int, Worded], ranked: Ranked, judged: Judged) -> list[Weighed]:
    """Return candidates, given by row, with what records and judgement add to their scores, best first."""
    lifts, found = judged.lifts, []
    scores = ranked.scores[list(records)].tolist()
    for (row, (record, _)), score in zip(records.items(), scores, strict=True):
        why = _prior(record)
        if lift := lifts.get(row, 0.0):
            why["in_force"] = round(lift, 6)
        found.append(Weighed(score + sum(why.values()), row, record, why))
    return _after_successors(found, ranked, judged)


def _after_successors(found: list[Weighed], ranked: Ranked, judged: Judged) -> list[Weighed]:
    """Order by score, a fact after what likely replaced its message, or, asked of now, itself."""
    table, time = ranked.table, ranked.features.question.time
    later = {table.key(row): table.key(successor) for row, successor in judged.marked(LIFTED).items()}
    if time and time.kind == "now":
        facts = (one.record for one in found if isinstance(one.record, Fact))
        ended = (fact for fact in facts if fact.status == "superseded")
        later |= {("fact", fact.id): ("fact", fact.superseded_by or "") for fact in ended}
    scores = {table.key(one.row): one.score for one in found} if later else {}
    moved = []
    for one in found if later else ():
        fact = one.record if isinstance(one.record, Fact) else None
        after = later.get(_source(fact, ("fact", fact.id))) if fact else None
        if after is not None and after not in scores:
            scores[after] = _score_of(after, ranked, one.score)
        lower = one.score if after is None else scores[after] - _STEP
        why = {"in_force": round(lower - one.score, 6)} if lower < one.score else {}
        moved.append(one._replace(score=lower, why={**why, **one.why}) if why else one)
    return sorted(moved or found, key=itemgetter(0), reverse=True)


def _score_of(key: Key, ranked: Ranked, default: float) -> float:
    """Return the score of a record that may be returned but was not fetched."""
    rows = ranked.rows.tolist()
    return next((float(ranked.scores[row]) for row in rows if ranked.table.key(row) == key), default)


def _source(record: Searchable, key: Key) -> Key:
    """Return the message that a fact was read from last: where that may be outdated, so may the fact."""
    if isinstance(record, Fact) and record.status != "superseded" and record.sources:
        return "message", record.sources[-1]
    return key


def answering(answers: Iterable[Sequence[Key]], ranked: Ranked, judged: Judged) -> list[int]:
    """Return the rows of facts that answer the question, then of their messages.

    Args:
        answers: each fact, followed by the message it was read from.
        ranked: the candidates; what may not be returned is left out.
        judged: where a message may be outdated, so may the fact read from it: both are left out.
    """
    table, doubted = ranked.table, set(judged.marked(LIFTED))
    places = {key: row for row, key in enumerate(table.keys)}
    found = [[row for key in answer if (row := places.get(key)) is not None] for answer in answers]
    firm = [rows for rows in found if not doubted.intersection(rows)]
    rows = [*(row for rows in firm for row in rows[:1]), *(row for rows in firm for row in rows[1:])]
    return [row for row in rows if table.eligible[row]]


def told_first(found: list[Weighed], rows: Sequence[int]) -> list[Weighed]:
    """Put the rows that say what is asked for first, in their order; the others keep theirs."""
    if not found or not rows:
        return found
    target = {row: found[0].score + _STEP * place for place, row in enumerate(reversed(rows), 1)}
    moved = [
        one._replace(score=high, why={"asked_point": round(high - one.score, 6), **one.why})
        if (high := target.get(one.row)) is not None
        else one
        for one in found
    ]
    return sorted(moved, key=itemgetter(0), reverse=True)


def as_hits(
    chosen: Sequence[Weighed], ranked: Ranked, judged: Judged, relevance: Mapping[int, float]
) -> Iterator[Hit]:
    """Give candidates as hits, with what their features gave them and what took their place."""
    table, features = ranked.table, ranked.features
    sure = judged.marked(SURE)
    doubted = {table.key(row): table.key(later)[1] for row, later in judged.marked(MAYBE).items()}
    shares = ranked.why([one.row for one in chosen])
    for (score, row, record, why), share in zip(chosen, shares, strict=True):
        firm = row in sure or "asked_point" in why  # what answers is not doubted for the rest of its message
        yield Hit(
            record=record,
            kind=table.key(row)[0],
            score=score,
            relevance=relevance[row],
            similarity=float(features.similarity[row]),
            why={**why, **share},
            outdated_by=_successor(record, table, sure.get(row)),
            maybe_outdated_by=None if firm else doubted.get(_source(record, table.key(row))),
        )


def _successor(record: Searchable, table: Candidates, row: int | None) -> str | None:
    """Return the id of what took a record's place: known of a fact, judged of a message."""
    if isinstance(record, Fact):
        return record.superseded_by if record.status == "superseded" else None
    return None if row is None else table.key(row)[1]
