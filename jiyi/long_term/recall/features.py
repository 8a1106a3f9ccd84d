"""Computes the features of each candidate.

Scores of the indexes are normalised to mean 0 and standard deviation 1 over the candidates, so that
they do not depend on the embedder or the size of the memory. A feature of something that a
memory does not have (sessions, several speakers, dates) is 0 in all rows and has no effect.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from jiyi.long_term.recall.question import DAY, Question, named_speakers
from jiyi.storage import ROLES, Candidates
from jiyi.text import Trait, analyse

Column = NDArray[np.float32]
"""One number for each row of the candidates."""

Feature = str
"""The name of a feature; docs/long_term.md describes each."""

FEATURE_NAMES: tuple[Feature, ...] = (
    *("words", "window", "cover", "first_by_words", "meaning", "apart", "first_by_meaning"),
    *("before", "after", "before_last", "session", "like_the_best", "like_its_peers"),
    *("speaker", "you_said", "i_did", "length", "small_talk", "asks", "tells_number", "tells_time"),
    *("entities", "in_time", "later", "recent", "said_again"),
)
"""The features in the order of the columns."""

_SIMILARITY: tuple[Feature, ...] = ("apart", "like_the_best", "like_its_peers")
_BEST_ROWS = 5  # that represent the answer, or their session
_PEER_ROWS = 64  # best rows with which each row is compared
_NEAREST_PEERS = 6  # the most similar of them, which count
_LONG_QUESTION = 10  # terms of a question above which each single word counts less
_MAX_LENGTH = 60  # terms of a message above which its length makes no difference
_MIN_DISTANCE = 1e-3  # of a vector from the mean of all; below, its direction is a rounding error
_BORROWED_SHARES = ((0.7, 0.4), (0.5, 0.3))  # of a word, from 1 and 2 rows before, and from after
_MAX_BORROWED = 0.7  # of a word's BM25 part: about two occurrences


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """The similarities of the candidates by their vectors."""

    question: NDArray[np.float32]  # (dims,): the question's vector, length 1
    vectors: NDArray[np.float32]  # (n, dims): each row's vector, length 1; zeros where it has none yet
    similarity: Column  # cosine of each row's best part with the question


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Features:
    """The features of the candidates of a question, and what the steps after the ranking need."""

    matrix: NDArray[np.float32]  # (n, `FEATURE_NAMES`)
    cover: Column  # share of the idf of the question's words that a row has, 0..1
    similarity: Column  # cosine with the question, 0 without vectors
    vectors: NDArray[np.float32]  # (n, dims): minus the mean of all, length 1; zeros without a vector
    vector_count: int  # number of vectors that differ from the mean
    nearness: Column  # cosine of these vectors with the question's vector minus the same mean, -1..1
    distance: float  # of the question's vector from the mean
    is_dialogue: bool  # speakers take turns in some session
    names_speaker: bool  # the question names exactly one speaker
    question: Question

    def column(self, name: Feature) -> Column:
        """Return a feature of all rows."""
        return np.asarray(self.matrix[:, FEATURE_NAMES.index(name)])


def compute_features(question: Question, table: Candidates, evidence: Evidence | None) -> Features:
    """Return the features of all rows of a table with at least one row."""
    is_tool = table.roles == ROLES.index("tool")
    named = named_speakers(question.text, table.speakers)
    words, terms, idf = _drop_names(table, named)
    if is_tool.any():
        words, evidence = _read_with_calls(table, is_tool, words, evidence)
    nothing = np.zeros(len(table), np.float32)
    dialogue = turn_taking(table)
    has: NDArray[np.bool_] = words > 0
    text = words @ idf
    cover = has @ idf / max(float(idf.sum()), 1e-9)
    window = standardise(borrow_words(words, table, dialogue) @ idf)
    entity_idf = idf * np.array([term in question.entities for term in terms], np.float32)
    text_scores = standardise(text)
    meaning = standardise(evidence.similarity) if evidence else nothing
    best = text_scores + meaning
    top = np.argsort(-best, kind="stable")[:_PEER_ROWS]
    vectors, nearness, distance, vector_count = _centre_vectors(evidence, len(table))
    similar = _similarities(best, top, vectors, nearness) if evidence else dict.fromkeys(_SIMILARITY, nothing)
    before = neighbour_values(meaning, table.previous)
    columns: dict[Feature, Column] = {
        "words": text_scores,
        "window": window,
        "cover": cover / max(float(cover.max()), 1e-9),
        "first_by_words": _reciprocal_rank(text, text > 0) * min(1.0, _LONG_QUESTION / max(len(terms), 1)),
        "meaning": meaning,
        "first_by_meaning": _reciprocal_rank(meaning, np.full(len(table), evidence is not None)),
        "before": dialogue * before,
        "after": dialogue * neighbour_values(meaning, table.following),
        "before_last": dialogue * neighbour_values(before, table.previous),
        "session": (dialogue > 0) * standardise(session_scores(best, table)),
        "entities": has @ entity_idf / max(float(entity_idf.sum()), 1e-9),
        "said_again": _repeated_later(table, has * idf, top),
        **similar,
        **_speaker_features(question, table, named),
        **_content_features(question, table, dialogue),
        **_time_features(question, table),
    }
    matrix = np.empty((len(table), len(FEATURE_NAMES)), np.float32)
    for place, name in enumerate(FEATURE_NAMES):
        matrix[:, place] = columns[name]
    return Features(
        matrix=matrix,
        cover=cover,
        similarity=evidence.similarity if evidence else nothing,
        vectors=vectors,
        vector_count=vector_count,
        nearness=nearness,
        distance=distance,
        is_dialogue=bool(dialogue.any()),
        names_speaker=len(named) == 1,
        question=question,
    )


def build_evidence(
    rows: NDArray[np.intp], parts: NDArray[np.float32], size: int, question: NDArray[np.float32]
) -> Evidence:
    """Return the evidence for ``size`` rows from the vectors of their parts; ``rows`` has each part's row.

    A row has the similarity of its best part and the mean vector of its parts. A row without parts has
    the lowest similarity of all.
    """
    cosines = parts @ question
    if np.array_equal(rows, np.arange(size)):  # each has one part, as in most memories
        return Evidence(question=question, vectors=parts, similarity=cosines)
    order = np.lexsort((cosines, rows))  # the best part of a row comes last
    owners, cosines = rows[order], cosines[order]
    last = np.flatnonzero(np.append(owners[1:] != owners[:-1], True))
    similarity = np.full(size, cosines.min(), np.float32)
    similarity[owners[last]] = cosines[last]
    vectors = np.zeros((size, parts.shape[1]), np.float32)
    if len(last) == len(owners):
        vectors[rows] = parts
    else:
        sums = np.add.reduceat(parts[order], np.append(0, last[:-1] + 1))
        vectors[owners[last]] = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
    return Evidence(question=question, vectors=vectors, similarity=similarity)


def standardise(values: Column) -> Column:
    """Return the values with mean 0 and standard deviation 1; zeros if all are equal."""
    # In single precision the mean of equal values would differ from them.
    exact = values.astype(np.float64)
    mean = float(exact.sum()) / len(exact)
    exact -= mean
    deviation = (float(exact @ exact) / len(exact)) ** 0.5
    alike = deviation <= 1e-6 * max(1.0, abs(mean))
    return np.zeros_like(values) if alike else (exact / deviation).astype(np.float32)


def _reciprocal_rank(values: Column, counted: NDArray[np.bool_]) -> Column:
    """Return 1 / (5 + rank) by descending value, the same for equal values; 0 for rows not counted."""
    falling = -values
    ranks = np.searchsorted(np.sort(falling), falling).astype(np.float32)
    return np.where(counted, 1 / (5 + ranks), np.float32(0))


def _drop_names(table: Candidates, named: list[int]) -> tuple[NDArray[np.float32], tuple[str, ...], Column]:
    """Return the BM25 part of each term in each row, the terms and their idf, without names of speakers.

    In a dialogue, a message mostly names the other speaker; who spoke is a feature of its own.
    """
    names = {term for place in named for term in analyse(table.speakers[place])}
    keep = [place for place, term in enumerate(table.terms) if term not in names]
    if len(keep) in (0, len(table.terms)):
        return table.words, table.terms, table.idf
    return table.words[:, keep], tuple(table.terms[place] for place in keep), table.idf[keep]


def _read_with_calls(
    table: Candidates, is_tool: NDArray[np.bool_], words: NDArray[np.float32], evidence: Evidence | None
) -> tuple[NDArray[np.float32], Evidence | None]:
    """Return words and evidence in which a tool's output also has the words and the nearness of its call.

    An output seldom says what it is about: which host, which file. The call that asked for it does.
    """
    calls = np.where(is_tool, table.previous, -1)
    while (between := (calls >= 0) & is_tool[calls]).any():  # outputs of one message with several calls
        calls = np.where(between, table.previous[calls], calls)
    outputs = np.flatnonzero((calls >= 0) & (table.roles[calls] == ROLES.index("assistant")))
    words = words.copy()
    words[outputs] = np.maximum(words[outputs], words[calls[outputs]])
    if evidence is None:
        return words, None
    similarity = evidence.similarity.copy()
    similarity[outputs] = np.maximum(similarity[outputs], similarity[calls[outputs]])
    return words, replace(evidence, similarity=similarity)


def _centre_vectors(evidence: Evidence | None, size: int) -> tuple[NDArray[np.float32], Column, float, int]:
    """Return the vectors minus their mean, their nearness to the question, its distance, and their number.

    Embedders put all texts of a memory into a narrow cone; minus their mean, the vectors differ more
    (Mu & Viswanath 2018, "All-but-the-Top"). Vectors equal to the mean are not counted.
    """
    if evidence is None:
        return np.zeros((size, 1), np.float32), np.zeros(size, np.float32), 0.0, 0
    has_vector = np.einsum("ij,ij->i", evidence.vectors, evidence.vectors) > 0
    mean = evidence.vectors.sum(0) / max(int(has_vector.sum()), 1)
    vectors = evidence.vectors - mean
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    vectors *= (has_vector / np.maximum(lengths, _MIN_DISTANCE))[:, None].astype(np.float32)
    question = evidence.question - mean
    distance = float(question @ question) ** 0.5
    vector_count = int(np.count_nonzero(has_vector & (lengths > 0)))
    return vectors, vectors @ question / max(distance, 1e-9), distance, vector_count


def _similarities(
    best: Column, top: NDArray[np.intp], vectors: NDArray[np.float32], nearness: Column
) -> dict[Feature, Column]:
    """Compare rows with the question and with the best rows.

    Similarity to the best rows is pseudo-relevance feedback: Rocchio, in Salton, "The SMART Retrieval
    System", 1971.
    """
    similar = vectors @ vectors[top].T
    like_the_best = similar[:, :_BEST_ROWS].mean(1)
    np.maximum(similar, 0, out=similar)
    similar[top, np.arange(len(top))] = 0
    if len(top) > _NEAREST_PEERS:
        similar *= similar >= np.partition(similar, -_NEAREST_PEERS, axis=1)[:, -_NEAREST_PEERS, None]
    return {
        "apart": standardise(nearness),
        "like_the_best": like_the_best,
        "like_its_peers": standardise(similar @ best[top] / (similar.sum(1) + 0.5)),
    }


def _repeated_later(table: Candidates, rarity: NDArray[np.float32], top: NDArray[np.intp]) -> Column:
    """Return the share of each row's question words that a later row repeats, by idf, 0 to 1."""
    out = np.zeros(len(table), np.float32)
    totals = rarity[top].sum(1)
    shared = (rarity[top] > 0).astype(np.float32) @ rarity[top].T  # (later, earlier)
    moments = table.created_at[top]
    out[top] = np.where(moments[:, None] > moments[None, :], shared / np.maximum(totals, 1e-9), 0).max(axis=0)
    return out


def _speaker_features(question: Question, table: Candidates, named: list[int]) -> dict[Feature, Column]:
    """Return 1 for rows of the speaker that the question is about, -1 for rows of others."""
    side = sides = nothing = np.zeros(len(table), np.float32)
    if len(named) == 1:
        side = np.where(table.speaker == named[0], np.float32(1), -(table.speaker >= 0).astype(np.float32))
    assistant, user = (table.roles == ROLES.index(role) for role in ("assistant", "user"))
    if not named and assistant.any() and user.any():
        sides = assistant.astype(np.float32) - user
    you_said = question.you_said and not question.i_said
    return {
        "speaker": side,
        "you_said": sides if you_said else nothing,
        "i_did": -sides if question.own and not you_said else nothing,
    }


def _content_features(question: Question, table: Candidates, dialogue: Column) -> dict[Feature, Column]:
    def has(trait: Trait) -> Column:
        return np.asarray((table.traits & trait.value) != 0, np.float32)

    nothing = np.zeros(len(table), np.float32)
    return {
        "length": dialogue * np.log1p(np.minimum(table.length, _MAX_LENGTH), dtype=np.float32),
        "small_talk": np.maximum(has(Trait.GREETING), table.length <= 3),
        "asks": dialogue * has(Trait.ASKS_LAST),
        "tells_number": has(Trait.NUMBER) if question.how_many else nothing,
        "tells_time": has(Trait.DATE) if question.when else nothing,
    }


def _time_features(question: Question, table: Candidates) -> dict[Feature, Column]:
    inside = np.zeros(len(table), np.bool_)
    for start, end in question.ranges:
        inside |= (table.created_at >= start) & (table.created_at < end + DAY)  # often reported a day later
    age = np.empty(len(table), np.float32)
    age[np.argsort(table.created_at, kind="stable")] = np.arange(len(table), dtype=np.float32)
    return {
        "in_time": inside.astype(np.float32),
        "later": (table.created_at > question.asked_at + DAY).astype(np.float32),
        "recent": age / np.float32(len(table)),
    }


def neighbour_values(values: Column, neighbours: NDArray[np.int32]) -> Column:
    """Return the value of each row's neighbour; 0 for rows without one."""
    return np.where(neighbours >= 0, values[neighbours], np.float32(0))


def turn_taking(table: Candidates) -> Column:
    """Return for each row the share of its neighbours in the session spoken by somebody else, 0 to 1.

    It is near 1 in a dialogue and 0 in one person's notes, where neighbours are unrelated. Features
    of neighbours are multiplied by it.
    """
    out = np.zeros(len(table), np.float32)
    joined = table.previous >= 0
    if not joined.any():
        return out
    turned = joined & (table.speaker != table.speaker[table.previous])
    pairs = np.bincount(table.session[joined], minlength=int(table.session.max()) + 1)
    turns = np.bincount(table.session[turned], minlength=len(pairs))
    share = (turns / np.maximum(pairs, 1)).astype(np.float32)
    inside = table.session >= 0
    out[inside] = share[table.session[inside]]
    return out


def borrow_words(words: NDArray[np.float32], table: Candidates, dialogue: Column) -> NDArray[np.float32]:
    """Return the BM25 part of each term in each row, with words borrowed from the turns around the row.

    An answer often uses other words than its question. A row gets the highest value of each term: its
    own, or a share of a neighbour's, which is smaller for the further one.
    """
    capped = np.minimum(words, _MAX_BORROWED)
    best = capped.copy()
    lendable = np.concatenate([capped, np.zeros_like(capped[:1])])  # the last row is for -1: no neighbour
    for links, shares in zip((table.previous, table.following), _BORROWED_SHARES, strict=True):
        link = neighbour = np.concatenate([links, [-1]])
        for share in shares:
            np.maximum(best, lendable[neighbour[:-1]] * (share * dialogue)[:, None], out=best)
            neighbour = link[neighbour]
    return best


def session_scores(scores: Column, table: Candidates) -> Column:
    """Return the mean of the five best scores of each row's session, 0 outside of sessions.

    In a session with fewer rows the missing scores count as 0.
    """
    out = np.zeros(len(scores), np.float32)
    inside = np.flatnonzero(table.session >= 0)
    if not len(inside):
        return out
    order = inside[np.lexsort((-scores[inside], table.session[inside]))]
    sessions = table.session[order]
    first = np.ones(len(order), np.bool_)
    first[_BEST_ROWS:] = sessions[_BEST_ROWS:] != sessions[:-_BEST_ROWS]
    sums = np.bincount(sessions[first], weights=scores[order[first]], minlength=int(sessions.max()) + 1)
    out[inside] = (sums / _BEST_ROWS)[table.session[inside]]
    return out
