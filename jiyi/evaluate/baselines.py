"""Simple systems to compare with: BM25, vectors, the newest, and everything."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from random import Random
from typing import cast

import numpy as np
from numpy.typing import NDArray

from jiyi.embeddings import Embedder
from jiyi.errors import BudgetTooSmall, InputError
from jiyi.evaluate.dataset import Conversation, Question
from jiyi.evaluate.systems import Ranking, Shown, System
from jiyi.records import Message
from jiyi.text import TokenCounter, analyse

__all__ = [
    "BASELINES",
    "BaselineSystem",
    "Scorer",
    "Scores",
    "bm25",
    "by_date",
    "check_baselines",
    "dense",
    "make_baseline",
    "needed_alone",
    "ranked",
]

Scores = NDArray[np.float64]
"""A number for each message, higher is better; minus infinity where it is not found."""

Scorer = Callable[[str], Scores]
"""From a question's words to a score for each message."""

_K1, _B = 1.2, 0.75
_BATCH = 16  # texts embedded between two reports of progress

BASELINES = ("bm25", "dense", "recent", "full")
"""The names of the baselines; `make_baseline` says what each does."""


def bm25(texts: Sequence[str]) -> Scorer:
    """Return BM25 over the search terms of ``texts``, k1 = 1.2 and b = 0.75.

    A text without any of the words is not found. Each distinct term of the question counts
    once. Source: Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and
    Beyond", 2009, with 1 added inside the logarithm of the idf, so that it is never negative.
    """
    counts = [Counter(analyse(text)) for text in texts]
    lengths = np.array([count.total() for count in counts], np.float64)
    norm = _K1 * (1 - _B + _B * lengths / max(float(lengths.mean()), 1.0))
    places: dict[str, list[int]] = {}
    for place, count in enumerate(counts):
        for term in count:
            places.setdefault(term, []).append(place)

    def scores(question: str) -> Scores:
        total = np.full(len(texts), -math.inf)
        for term in dict.fromkeys(analyse(question)):
            where = places.get(term)
            if where is None:
                continue
            idf = math.log(1 + (len(texts) - len(where) + 0.5) / (len(where) + 0.5))
            often = np.array([counts[place][term] for place in where], np.float64)
            gain = idf * often * (_K1 + 1) / (often + norm[where])
            total[where] = np.where(np.isinf(total[where]), 0.0, total[where]) + gain
        return total

    return scores


def dense(texts: Sequence[str], embedder: Embedder, progress: Callable[[int], None]) -> Scorer:
    """Return the cosine of the question's vector and each text's, one vector a text."""
    rows = []
    for start in range(0, len(texts), _BATCH):
        rows.append(embedder.embed(texts[start : start + _BATCH], "passage"))
        progress(min(start + _BATCH, len(texts)))
    matrix = np.concatenate(rows)

    def scores(question: str) -> Scores:
        return np.asarray(matrix @ embedder.embed([question], "query")[0], np.float64)

    return scores


def by_date(dates: Sequence[datetime], *, newest_first: bool) -> Scorer:
    """Return an order of time that no question changes."""
    moments = np.array([date.timestamp() for date in dates], np.float64)
    fixed = moments if newest_first else -moments
    return lambda _: fixed


def ranked(scores: Scores, random: Random) -> list[int]:
    """Return the places of what was found, best score first, ties in random order."""
    ties = np.array([random.random() for _ in scores])
    order = np.lexsort((ties, -scores))
    return [int(place) for place in order if scores[place] > -math.inf]


@dataclass(slots=True, eq=False)
class BaselineSystem:
    """One conversation, ranked by a scorer.

    Its window is the ranking (for "full": the newest first) packed greedily: a message that
    does not fit any more is passed over. Tokens count as in a window of jiyi.
    """

    messages: Sequence[Message]
    scorer: Scorer
    _: KW_ONLY
    counter: TokenCounter
    random: Random
    pack_backwards: bool = False
    last: tuple[Question, list[int]] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.messages = [self.counter.counted(message) for message in self.messages]

    def rank(self, question: Question, limit: int) -> Ranking:
        """Return the best messages; asked the same again, it gives the same order."""
        return Ranking(ids=tuple(self.messages[place].id for place in self._order(question)[:limit]))

    def window(self, question: Question, budget: int) -> Shown:
        """Return the part of the ranking that fits with the question."""
        room, shown = budget - needed_alone(question, budget, self.counter), set[str]()
        order = self._order(question)
        for place in reversed(order) if self.pack_backwards else order:
            message = self.messages[place]
            if (tokens := self.counter.count(message)) <= room:
                room -= tokens
                shown.add(message.id)
        return Shown(ids=frozenset(shown))

    def _order(self, question: Question) -> list[int]:
        if self.last is None or self.last[0] is not question:
            self.last = question, ranked(self.scorer(question.text), self.random)
        return self.last[1]


def needed_alone(question: Question, budget: int, counter: TokenCounter) -> int:
    """Return the tokens of a request with the question alone; `BudgetTooSmall`: more than the budget."""
    needed = counter.count_all([Message(role="user", content=question.text)])
    if needed > budget:
        raise BudgetTooSmall(
            f"the question takes {needed} of {budget} tokens; raise the budget",
            needed=needed,
            available=budget,
        )
    return needed


def check_baselines(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, each once; InputError: one of them is no baseline."""
    unknown = [name for name in names if name not in BASELINES]
    if unknown:
        raise InputError(f"no baseline {unknown[0]!r}; there are {', '.join(BASELINES)}")
    return tuple(dict.fromkeys(names))


def make_baseline(
    name: str,
    conversation: Conversation,
    *,
    embedder: Embedder,
    counter: TokenCounter,
    random: Random,
    progress: Callable[[int], None],
) -> System:
    """Return a baseline that holds ``conversation``.

    "bm25": words alone; "dense": vectors alone; "recent": the newest first; "full": everything,
    oldest first, as if it were all put before a model.
    """
    messages = conversation.messages
    texts = [message.search_text for message in messages]
    dates = [cast("datetime", message.created_at) for message in messages]
    if name == "bm25":
        scorer = bm25(texts)
    elif name == "dense":
        scorer = dense(texts, embedder, progress)
    else:
        scorer = by_date(dates, newest_first=name == "recent")
    return BaselineSystem(messages, scorer, counter=counter, random=random, pack_backwards=name == "full")
