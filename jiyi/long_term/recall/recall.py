"""Recall: from a question to the records that answer it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, tzinfo
from typing import TypeVar, cast

import numpy as np

from jiyi.breaker import Breaker
from jiyi.clock import Clock, utc_now
from jiyi.embeddings import Embedder
from jiyi.errors import BadQuery, EmbeddingError, IndexUnreachable
from jiyi.long_term.recall.accesses import Accesses
from jiyi.long_term.recall.asked_point import asked_point, holding, is_in_part
from jiyi.long_term.recall.features import Evidence, Features, evidence_of, measure
from jiyi.long_term.recall.outdated import judge, judged_rows
from jiyi.long_term.recall.question import named_speakers, read_question, without_names
from jiyi.long_term.recall.ranking import Ranked, Worded, Wording, rank, repeats, wordings
from jiyi.long_term.recall.surroundings import with_surroundings
from jiyi.long_term.recall.unanswerable import nothing_relevant
from jiyi.long_term.recall.weighing import Weighed, answering, as_hits, told_first, weighed
from jiyi.one_thread import one_blas_thread
from jiyi.records import SEARCHABLE, Hit, Hits, Item, Kind, Query, Searchable
from jiyi.rerank import Reranker, rerank
from jiyi.storage import Candidates, Key, Snapshot, Store, VectorIndex

__all__ = ["Recall", "Second"]

_CANDIDATES = 3  # times the limit, of each kind, from each index and for the reranker
_DEEPER = 8  # times as many are fetched where repeats leave too few
_FEWEST = 200  # candidates of each kind from each index: neighbours and sessions need company
_MOST = 10_000
_FALL = 3.0  # points of score below the best for which relevance falls to 1/e
_READ_AGAIN = 100  # candidates a reranker is shown at most: it may take 10 ms and more for each
_FURTHEST = 1_000  # messages on either side of a hit
_ANSWERED = 0.1  # the highest doubt where a fact says what is asked for
_WITHOUT = "vector search unavailable, text search only: {}"

_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """A second look at the first candidates."""

    reranker: Reranker
    seconds: float = 3.0  # how long it is waited for
    breaker: Breaker = field(default_factory=Breaker)  # remembers that it was too slow


@dataclass(slots=True, eq=False)
class Recall:
    """Searches by words and by meaning, and ranks what both find by the structure of conversation.

    Guarantees: the scope is part of every statement, nothing of another user can be
    found; a record is found by its words as soon as it is stored, by meaning once its
    vector is there; if the embedder or the reranker fails, the search answers without it
    and its notes say so; searching writes nothing.
    """

    store: Store  # rows and words
    vectors: VectorIndex  # of the same records
    embedder: Embedder  # makes the question's vector
    _: KW_ONLY
    second: Second | None = None  # a reranker that looks at the best candidates
    accesses: Accesses | None = None  # counts which records were returned; closed with this
    zone: tzinfo = UTC  # what "yesterday" in a question means
    clock: Clock = utc_now  # when a question is asked that does not say so

    def search(
        self,
        query: Query,
        limits: Mapping[Kind, int] | None = None,
        *,
        around: int = 0,
        min_score: float = 0.0,
        seen: Snapshot | None = None,
    ) -> Hits:
        """Return the records that answer ``query.text``, best first, all kinds in one order.

        Args:
            query: what is asked; ``limit`` says how many.
            limits: how many of each kind at most, in place of the query's kinds and limit.
            around: how many messages before and after a message to return with it as
                ``Hit.around``; none is shown with two hits.
            min_score: the lowest ``Hit.relevance`` of a hit.
            seen: the memory to search, as of a moment just gone by; by default as it is now.

        Raises:
            BadQuery: the text is empty, a kind cannot be searched, or ``around`` or ``min_score`` is
                out of range.
        """
        number = isinstance(min_score, int | float) and not isinstance(min_score, bool)
        if not number or not 0 <= min_score <= 1:
            raise BadQuery(f"min_score={min_score!r} must be a number from 0 to 1")
        if limits is not None:
            query = replace(query, kinds=tuple(limits), limit=sum(limits.values()))
        limits = limits or dict.fromkeys(query.kinds, query.limit)
        if not query.text.strip():
            raise BadQuery("the query is empty; say what to look for")
        if not set(query.kinds) <= set(SEARCHABLE):
            raise BadQuery(f"only {', '.join(SEARCHABLE)} can be searched, not {', '.join(query.kinds)}")
        if not isinstance(around, int) or isinstance(around, bool) or not 0 <= around <= _FURTHEST:
            raise BadQuery(f"around={around!r} must be a number of messages from 0 to {_FURTHEST:,}")
        answers = self._answers(query)
        sought = [key for answer in answers for key in answer]
        seen = seen or self.store.snapshot(query.scope.user_id)
        table, features, notes = self.examine(replace(query, limit=max(limits.values())), sought, seen)
        if features is None:
            return Hits((), (*notes, *self.store.notes(query.scope)), nothing_relevant=1.0)
        ranked = rank(features, table)
        found, more, nothing = self._hits(query, ranked, limits, answers, seen)
        chosen = [hit for hit in found if (hit.relevance or 0.0) >= min_score]
        if around:
            chosen = with_surroundings(self.store, query.scope, chosen, around, seen)
        if self.accesses:
            self.accesses.note(query.scope, chosen)
        told = (*notes, *more, *self.store.notes(query.scope))
        return Hits(tuple(chosen), told, nothing_relevant=nothing)

    def flush_accesses(self) -> None:
        """Write the pending access counts now, before something is decided by them."""
        if self.accesses:
            self.accesses.flush()

    def close(self) -> None:
        """Write the access counts that still wait."""
        if self.accesses:
            self.accesses.close()

    def _answers(self, query: Query) -> list[list[Key]]:
        """Return each fact that says what a question asks for, followed by the message it was read from.

        A message of which another part is outdated stands alone: the doubt is not about the fact.
        """
        asked = asked_point(query.text)
        now = query.asked_at or self.clock()
        time = read_question(query.text, now, self.zone).time if asked else None
        if asked is None or time is None or time.kind != "now":
            return []
        found: list[list[Key]] = []
        for fact in holding(self.store, query.scope, asked, now):
            said: list[Key] = [("fact", fact.id), *(("message", id_) for id_ in fact.sources[-1:])]
            found += [said[:1], said[1:]] if is_in_part(self.store, fact) else [said]
        return found

    def examine(
        self, query: Query, sought: Sequence[Key] = (), seen: Snapshot | None = None
    ) -> tuple[Candidates, Features | None, tuple[str, ...]]:
        """Return the candidates of a question, ``sought`` among them, with their features, and notes.

        The features are None where no candidate may be returned. What weights are learned from.
        """
        wide = replace(query, limit=min(max(_CANDIDATES * query.limit, _FEWEST), _MOST))
        seen = seen or self.store.snapshot(query.scope.user_id)
        try:
            table, evidence = self._candidates(wide, sought, seen)
            notes: tuple[str, ...] = ()
        except (EmbeddingError, IndexUnreachable) as error:
            table, evidence = self.store.match(wide, sought, seen=seen), None
            notes = (_WITHOUT.format(error),)
        if not table.eligible.any():
            return table, None, notes
        asked = read_question(query.text, query.asked_at or self.clock(), self.zone)
        # Some BLAS libraries raise the flag for invalid values where none is: in lanes they only pad.
        with one_blas_thread(), np.errstate(invalid="ignore"):
            return table, measure(asked, table, evidence), notes

    def _candidates(
        self, wide: Query, sought: Sequence[Key], seen: Snapshot
    ) -> tuple[Candidates, Evidence | None]:
        """Ask both indexes."""
        speakers = seen.terms.speakers.names
        # Who speaks is a feature of its own. In the question's vector a name would only find
        # the messages that call someone by it: in a dialogue, the other one's.
        asked = without_names(wide.text, [speakers[i] for i in named_speakers(wide.text, speakers)])
        vector = self.embedder.embed([asked], "query")[0]
        self.vectors.claim(self.embedder.name, seen=seen)  # another process may have re-embedded the data
        near = self.vectors.near(wide, vector, seen)
        if sought:
            first = seen.terms.rows_of(sought)
            near = np.concatenate([first, near[~np.isin(near, first)]])
        table = self.store.match(wide, near, seen=seen)
        parts = self.vectors.parts(seen, table.rows)
        if not len(parts.rows):
            return table, None
        return table, evidence_of(parts.rows, parts.vectors, len(table), vector)

    def _hits(
        self,
        query: Query,
        ranked: Ranked,
        limits: Mapping[Kind, int],
        answers: Sequence[Sequence[Key]],
        seen: Snapshot,
    ) -> tuple[list[Hit], list[str], float]:
        """Fetch the first candidates of each kind, judge them, and return the best, notes, and the doubt."""
        table, best = ranked.table, judged_rows(ranked)
        sought = {key for answer in answers for key in answer}
        also = [row for row in ranked.rows.tolist() if table.keys[row] in sought] if sought else []
        records, said = self._fetched(query, ranked, limits, [*best, *also], seen)
        texts = {row: records[row][1] for row in best if row in records}
        with np.errstate(invalid="ignore"):  # as in `examine`
            judged = judge(ranked, texts)
        told = answering(answers, ranked, judged) if answers else []
        found = told_first(weighed(records, ranked, judged), told)
        nothing = min(nothing_relevant(ranked, judged), _ANSWERED if told else 1.0)
        # The best has the probability that there is an answer at all; the others less, the further below.
        relevance = {one.row: (1 - nothing) * math.exp((one.score - found[0].score) / _FALL) for one in found}
        notes: list[str] = []
        if self.second is not None:
            found, notes = _reranked(self.second, query.text, found)
        again = repeats([said[one.row] for one in found])
        best_first = [found[place] for place in sorted(range(len(found)), key=again.__getitem__)]
        chosen = _first(best_first, [table.keys[one.row][0] for one in best_first], limits)[: query.limit]
        return list(as_hits(chosen, ranked, judged, relevance)), notes, nothing

    def _fetched(
        self, query: Query, ranked: Ranked, limits: Mapping[Kind, int], best: Sequence[int], seen: Snapshot
    ) -> tuple[dict[int, Worded], dict[int, Wording]]:
        """Fetch more of the first candidates than are asked for; far more where most of them are repeats.

        Return by row those that are there still, and what they say.
        """
        more = _CANDIDATES - 1 if self.second else 1  # priors and repeats may change places
        keys, order = ranked.table.keys, ranked.rows.tolist()
        kinds = [keys[row][0] for row in order]
        while True:
            most = {kind: min(limit + more * limit, _MOST) for kind, limit in limits.items()}
            rows = list(dict.fromkeys([*_first(order, kinds, most), *best]))
            there = self._there(seen, [keys[row] for row in rows])
            found = {row: there[keys[row]] for row in rows if keys[row] in there}
            said = wordings(found.values(), query.text)
            told = len(set(said))
            if told >= query.limit or more > _CANDIDATES or told == len(found):
                return found, dict(zip(found, said, strict=True))
            more *= _DEEPER

    def _there(self, seen: Snapshot, keys: Sequence[Key]) -> dict[Key, Worded]:
        """Fetch records, and return those that can be hits: their time is not over, and they have words."""
        named, now = cast("dict[Key, Searchable]", self.store.named(seen.user_id, keys, seen)), self.clock()
        return {
            key: (record, text)
            for key, record in named.items()
            if (not isinstance(record, Item) or record.is_there(now)) and (text := record.search_text).strip()
        }


def _first(found: Iterable[_Row], kinds: Iterable[Kind], most: Mapping[Kind, int]) -> list[_Row]:
    """Return the first of each kind, at most so many, in their order."""
    left, chosen = dict(most), []
    for one, kind in zip(found, kinds, strict=True):
        if left.get(kind, 0) > 0:
            left[kind] -= 1
            chosen.append(one)
    return chosen


def _reranked(second: Second, question: str, found: list[Weighed]) -> tuple[list[Weighed], list[str]]:
    """Let the reranker order the first candidates by its own scores; the fused order where it cannot.

    Those after the ones it is shown stay after them, with scores below the lowest of its own.
    """
    read, rest = found[:_READ_AGAIN], found[_READ_AGAIN:]
    texts = [one.record.search_text for one in read]
    answer = rerank(second.reranker, question, texts, time_limit=second.seconds, breaker=second.breaker)
    if answer.scores is None:
        return found, [answer.note]
    scored = [
        one._replace(score=score, why={"reranker": score, **one.why})
        for one, score in zip(read, answer.scores, strict=True)
    ]
    scored.sort(key=lambda one: -one.score)
    after = [one._replace(score=scored[-1].score - place) for place, one in enumerate(rest, 1)]
    return scored + after, []
