"""Recall: finds the records that answer a question."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, tzinfo
from itertools import islice
from typing import cast

import numpy as np

from jiyi.breaker import Breaker
from jiyi.clock import Clock, utc_now
from jiyi.embeddings import Embedder
from jiyi.errors import BadQuery, EmbeddingError, IndexUnreachable
from jiyi.long_term.finding import add_surroundings
from jiyi.long_term.recall.accesses import Accesses
from jiyi.long_term.recall.asked_point import find_answers, find_asked_point, is_partly_outdated
from jiyi.long_term.recall.features import Evidence, Features, build_evidence, compute_features
from jiyi.long_term.recall.hits import (
    RecordText,
    ScoredRecord,
    TextKey,
    find_answer_rows,
    make_hits,
    mark_repeats,
    put_first,
    score_records,
    text_keys,
)
from jiyi.long_term.recall.outdated import compare_messages, rows_to_compare
from jiyi.long_term.recall.question import Question, named_speakers, parse_question, remove_names
from jiyi.long_term.recall.ranking import Ranked, rank
from jiyi.long_term.recall.unanswerable import nothing_relevant
from jiyi.one_thread import one_blas_thread
from jiyi.records import SEARCHABLE, Hit, Hits, Item, Kind, Query, Searchable
from jiyi.rerank import Reranker, rerank
from jiyi.storage import Candidates, Key, Snapshot, Store, VectorIndex

__all__ = ["Recall", "Second"]

_CANDIDATE_FACTOR = 3  # times the limit: candidates of each kind from an index, of all for the reranker
_REFETCH_FACTOR = 8  # times as many records are fetched if repeats leave too few
_MIN_CANDIDATES = 64  # of each kind from each index, since features compare neighbours and sessions
_MAX_CANDIDATES = 10_000
_RELEVANCE_DECAY = 3.0  # score below the best at which relevance has fallen to 1/e
_MAX_RERANKED = 100  # candidates a reranker is shown: each may take 10 ms and more
_MAX_AROUND = 1_000  # messages on either side of a hit
_MAX_DOUBT_IF_ANSWERED = 0.1  # highest `Hits.nothing_relevant` if a fact answers
_NO_VECTORS_NOTE = "vector search unavailable, text search only: {}"

_Limits = Mapping[Kind, int]  # the most records of each kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """A second ranking stage for the best candidates."""

    reranker: Reranker
    seconds: float = 3.0  # time limit
    breaker: Breaker = field(default_factory=Breaker)  # skips a reranker that was too slow


@dataclass(slots=True, eq=False)
class Recall:
    """Searches by words and by meaning, and ranks what both find with the structure of conversations.

    Guarantees: every statement is limited to the scope, so nothing of another user can be
    found; a record is found by its words as soon as it is stored, by meaning once it has a
    vector; if the embedder or the reranker fails, the search answers without it and its
    notes say so; searching writes nothing.
    """

    store: Store  # records and text index
    vectors: VectorIndex  # of the same records
    embedder: Embedder  # embeds the question
    _: KW_ONLY
    second: Second | None = None  # reranks the best candidates
    accesses: Accesses | None = None  # counts the returned records; closed with this
    zone: tzinfo = UTC  # of "yesterday" in a question
    clock: Clock = utc_now  # for questions without ``asked_at``

    def search(
        self,
        query: Query,
        limits: _Limits | None = None,
        *,
        around: int = 0,
        min_score: float = 0.0,
        snapshot: Snapshot | None = None,
    ) -> Hits:
        """Return the records that answer ``query.text``, best first, all kinds in one order.

        ``limits``, at most so many of each kind, take the place of the query's kinds and limit; the rest is
        as in `MemoryManager.search`. A new ``snapshot`` of the memory is searched unless one is given.
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
        if not isinstance(around, int) or isinstance(around, bool) or not 0 <= around <= _MAX_AROUND:
            raise BadQuery(f"around={around!r} must be a number of messages from 0 to {_MAX_AROUND:,}")
        question = parse_question(query.text, query.asked_at or self.clock(), self.zone)
        answers = self._find_answer_keys(query, question)
        required = [key for answer in answers for key in answer]
        snapshot = snapshot or self.store.snapshot(query.scope.user_id)
        most = max(limits.values())
        wide = query if query.limit == most else query.with_limit(most)
        table, features, notes = self.find_candidates(wide, question, snapshot, required)
        if features is None:
            return Hits((), (*notes, *self.store.notes(query.scope)), nothing_relevant=1.0)
        ranked = rank(features, table)
        found, rerank_notes, no_answer = self._select_hits(query, ranked, limits, answers, snapshot)
        hits = [hit for hit in found if (hit.relevance or 0.0) >= min_score]
        if around:
            hits = add_surroundings(self.store, query.scope, hits, around, snapshot)
        if self.accesses:
            self.accesses.note(query.scope, hits)
        all_notes = (*notes, *rerank_notes, *self.store.notes(query.scope))
        return Hits(tuple(hits), all_notes, nothing_relevant=no_answer)

    def flush_accesses(self) -> None:
        """Write the pending access counts, before something depends on them."""
        if self.accesses:
            self.accesses.flush()

    def close(self) -> None:
        """Write the pending access counts and stop counting."""
        if self.accesses:
            self.accesses.close()

    def _find_answer_keys(self, query: Query, question: Question) -> list[list[Key]]:
        """Return each fact that answers a question, followed by the message it was read from.

        If another part of the message is outdated, it is a group of its own: the fact is not in doubt.
        """
        asks_now = question.time is not None and question.time.kind == "now"
        asked = find_asked_point(query.text) if asks_now else None
        if asked is None:
            return []
        answers: list[list[Key]] = []
        for fact in find_answers(self.store, query.scope, asked, query.asked_at or self.clock()):
            keys: list[Key] = [("fact", fact.id), *(("message", id_) for id_ in fact.sources[-1:])]
            answers += [keys[:1], keys[1:]] if is_partly_outdated(self.store, fact) else [keys]
        return answers

    def find_candidates(
        self, query: Query, question: Question, snapshot: Snapshot, required: Sequence[Key] = ()
    ) -> tuple[Candidates, Features | None, tuple[str, ...]]:
        """Return the candidates for a question, ``required`` among them, with their features, and notes.

        The features are None if no candidate may be returned. The weights are learned from them.
        """
        wide = query.with_limit(min(max(_CANDIDATE_FACTOR * query.limit, _MIN_CANDIDATES), _MAX_CANDIDATES))
        try:
            table, evidence = self._search_indexes(wide, required, snapshot)
            notes: tuple[str, ...] = ()
        except (EmbeddingError, IndexUnreachable) as error:
            table, evidence = self.store.match(wide, required, snapshot=snapshot), None
            notes = (_NO_VECTORS_NOTE.format(error),)
        if not table.eligible.any():
            return table, None, notes
        # Some BLAS libraries raise the flag for invalid values for the padding of their lanes.
        with one_blas_thread(), np.errstate(invalid="ignore"):
            return table, compute_features(question, table, evidence and evidence()), notes

    def _search_indexes(
        self, wide: Query, required: Sequence[Key], snapshot: Snapshot
    ) -> tuple[Candidates, Callable[[], Evidence] | None]:
        """Return the candidates of text and vector search, and what compares their vectors, if any."""
        speakers = list(snapshot.terms.speakers)
        # The speaker is a feature of its own. In the question's vector a name would only find the
        # messages that address someone by it, which in a dialogue are the other speaker's.
        text = remove_names(wide.text, [speakers[i] for i in named_speakers(wide.text, speakers)])
        vector = self.embedder.embed([text], "query")[0]
        self.vectors.claim(self.embedder.name, snapshot=snapshot)  # others may have re-embedded the data
        near = self.vectors.nearest_rows(wide, vector, snapshot)
        if required:
            first = snapshot.terms.rows_of(required)
            near = np.concatenate([first, near[~np.isin(near, first)]])
        table = self.store.match(wide, near, snapshot=snapshot)
        parts = self.vectors.read_rows(snapshot, table.rows)
        if not len(parts.rows):
            return table, None
        return table, lambda: build_evidence(parts.rows, parts.vectors, len(table), vector)

    def _select_hits(
        self,
        query: Query,
        ranked: Ranked,
        limits: _Limits,
        answers: Sequence[Sequence[Key]],
        snapshot: Snapshot,
    ) -> tuple[list[Hit], list[str], float]:
        """Return the best candidates as hits, notes, and the probability that there is no answer."""
        table, compared_rows = ranked.table, rows_to_compare(ranked)
        required = {key for answer in answers for key in answer}
        ranked_keys = zip(ranked.rows.tolist(), table.keys_of(ranked.rows), strict=True) if required else ()
        also = [row for row, key in ranked_keys if key in required]
        records, text_key_of = self._fetch_records(query, ranked, limits, [*compared_rows, *also], snapshot)
        texts = {row: records[row][1] for row in compared_rows if row in records}
        with np.errstate(invalid="ignore"):  # as in `find_candidates`
            compared = compare_messages(ranked, texts)
        answer_rows = find_answer_rows(answers, ranked, compared) if answers else []
        scored = put_first(score_records(records, ranked, compared), answer_rows)
        no_answer = min(nothing_relevant(ranked, compared), _MAX_DOUBT_IF_ANSWERED if answer_rows else 1.0)
        # The relevance of the best is the probability that there is an answer; it falls with the score.
        relevance = {
            item.row: (1 - no_answer) * math.exp((item.score - scored[0].score) / _RELEVANCE_DECAY)
            for item in scored
        }
        notes: list[str] = []
        if self.second is not None:
            scored, notes = _rerank(self.second, query.text, scored)
        is_repeat = mark_repeats([text_key_of[item.row] for item in scored])
        ordered = [scored[place] for place in sorted(range(len(scored)), key=is_repeat.__getitem__)]
        first = _first_of_kinds(table, [item.row for item in ordered], limits)
        chosen = [ordered[place] for place in islice(first, query.limit)]
        return list(make_hits(chosen, ranked, compared, relevance)), notes, no_answer

    def _fetch_records(
        self, query: Query, ranked: Ranked, limits: _Limits, rows: Sequence[int], snapshot: Snapshot
    ) -> tuple[dict[int, RecordText], dict[int, TextKey]]:
        """Return by row the records of the best candidates and of ``rows``, and their text keys.

        It fetches more than the limits, since priors and repeats change the order, and far more if most
        of them are repeats or expired.
        """
        extra = _CANDIDATE_FACTOR - 1 if self.second else 1
        total: int | None = (1 + extra) * query.limit  # of all kinds
        table, ranked_rows = ranked.table, ranked.rows.tolist()
        while True:
            most = {kind: min(limit + extra * limit, _MAX_CANDIDATES) for kind, limit in limits.items()}
            first = islice(_first_of_kinds(table, ranked_rows, most), total)
            wanted = list(dict.fromkeys([*(ranked_rows[place] for place in first), *rows]))
            keys = table.keys_of(wanted)
            fetched = self._fetch_searchable(snapshot, keys)
            records = {row: fetched[key] for row, key in zip(wanted, keys, strict=True) if key in fetched}
            found_keys = text_keys(records.values(), query.text)
            distinct = len(set(found_keys))
            if distinct >= query.limit or extra > _CANDIDATE_FACTOR or distinct == len(wanted):
                return records, dict(zip(records, found_keys, strict=True))
            extra, total = extra * _REFETCH_FACTOR, None

    def _fetch_searchable(self, snapshot: Snapshot, keys: Sequence[Key]) -> dict[Key, RecordText]:
        """Return the records of these keys that have text and, if they are items, have not expired."""
        records = cast("dict[Key, Searchable]", self.store.find_by_keys(snapshot.user_id, keys, snapshot))
        now = self.clock()
        return {
            key: (record, text)
            for key, record in records.items()
            if (not isinstance(record, Item) or record.is_there(now)) and (text := record.search_text).strip()
        }


def _first_of_kinds(table: Candidates, rows: Sequence[int], limits: _Limits) -> Iterator[int]:
    """Yield the places of the first of each kind in ``rows``, at most its limit, ascending."""
    left = [limits.get(kind, 0) for kind in SEARCHABLE]
    for place, kind in enumerate(table.kinds[rows].tolist()):
        if left[kind]:
            left[kind] -= 1
            yield place


def _rerank(
    second: Second, question: str, scored: list[ScoredRecord]
) -> tuple[list[ScoredRecord], list[str]]:
    """Sort the first candidates by the reranker's scores; return them unchanged with a note if it fails.

    The candidates that it is not shown come after them, with scores below its lowest.
    """
    shown, rest = scored[:_MAX_RERANKED], scored[_MAX_RERANKED:]
    texts = [item.record.search_text for item in shown]
    answer = rerank(second.reranker, question, texts, time_limit=second.seconds, breaker=second.breaker)
    if answer.scores is None:
        return scored, [answer.note]
    reranked = [
        item._replace(score=score, why={"reranker": score, **item.why})
        for item, score in zip(shown, answer.scores, strict=True)
    ]
    reranked.sort(key=lambda item: -item.score)
    after = [item._replace(score=reranked[-1].score - place) for place, item in enumerate(rest, 1)]
    return reranked + after, []
