"""Simple systems to compare with: BM25, vectors, newest first, everything, and short-term policies."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from random import Random
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from jiyi.compression import Compressed, Given, as_messages
from jiyi.compression.relevance import Relevance
from jiyi.compression.summarize import Summarize
from jiyi.compression.summarize_points import find_points
from jiyi.embeddings import Embedder
from jiyi.errors import BudgetTooSmall, InputError
from jiyi.evaluate.dataset import Conversation, Question
from jiyi.evaluate.systems import InWindow, Ranking, System
from jiyi.records import Message
from jiyi.short_term import ImportanceSampling, RunningSummary, TokenBudget
from jiyi.text import TokenCounter, analyse
from jiyi.text import language as language_of

__all__ = [
    "BASELINES", "POLICIES", "BaselineSystem", "PolicySystem", "bm25", "by_date", "by_importance",
    "by_relevance", "by_running_summary", "by_token_budget", "check_baselines", "dense", "make_baseline",
    "rank_places",
]  # fmt: skip

_Scores = NDArray[np.float64]  # one a message, higher is better; minus infinity where it is not found
_Scorer = Callable[[str], _Scores]  # from a question's words
# From a conversation and a number of tokens to the ids of the messages that a policy keeps.
_Select = Callable[[Sequence[Message], int, TokenCounter], frozenset[str]]

_K1, _B = 1.2, 0.75
_SUMMARY_SHARE = 0.5  # the most of a window that the summary may take
_BATCH_SIZE = 16  # texts embedded between two reports of progress


def bm25(texts: Sequence[str]) -> _Scorer:
    """Return BM25 over the search terms of ``texts``, k1 = 1.2 and b = 0.75.

    A text without any of the words is not found; each distinct term of the question counts once. Source:
    Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, with 1 added inside
    the logarithm of the idf, so that it is never negative.
    """
    counts = [Counter(analyse(text)) for text in texts]
    lengths = np.array([count.total() for count in counts], np.float64)
    norm = _K1 * (1 - _B + _B * lengths / max(float(lengths.mean()), 1.0))
    postings: dict[str, list[int]] = {}
    for place, count in enumerate(counts):
        for term in count:
            postings.setdefault(term, []).append(place)

    def scores(question: str) -> _Scores:
        total = np.full(len(texts), -math.inf)
        for term in dict.fromkeys(analyse(question)):
            matches = postings.get(term, [])
            idf = math.log(1 + (len(texts) - len(matches) + 0.5) / (len(matches) + 0.5))
            frequencies = np.array([counts[place][term] for place in matches], np.float64)
            gain = idf * frequencies * (_K1 + 1) / (frequencies + norm[matches])
            total[matches] = np.where(np.isinf(total[matches]), 0.0, total[matches]) + gain
        return total

    return scores


def dense(texts: Sequence[str], embedder: Embedder, progress: Callable[[int], None]) -> _Scorer:
    """Return the cosine of the question's vector and each text's, one vector a text."""
    rows = []
    for start in range(0, len(texts), _BATCH_SIZE):
        rows.append(embedder.embed(texts[start : start + _BATCH_SIZE], "passage"))
        progress(min(start + _BATCH_SIZE, len(texts)))
    matrix = np.concatenate(rows)

    return lambda question: np.asarray(matrix @ embedder.embed([question], "query")[0], np.float64)


def by_date(dates: Sequence[datetime], *, newest_first: bool) -> _Scorer:
    """Return a scorer by time, the same for every question."""
    moments = np.array([date.timestamp() for date in dates], np.float64)
    scores = moments if newest_first else -moments
    return lambda _: scores


def rank_places(scores: _Scores, random: Random) -> list[int]:
    """Return the places of the found messages, best score first, ties in random order."""
    ties = np.array([random.random() for _ in scores])
    order = np.lexsort((ties, -scores))
    return [int(place) for place in order if scores[place] > -math.inf]


@dataclass(slots=True, eq=False)
class BaselineSystem:
    """One conversation, ranked by a scorer; its window is the ranking ("full": backwards) as it fits."""

    messages: Sequence[Message]
    scorer: _Scorer
    _: KW_ONLY
    counter: TokenCounter
    random: Random
    pack_backwards: bool = False
    last: tuple[Question, list[int]] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.messages = [self.counter.counted(message) for message in self.messages]

    def rank(self, question: Question, limit: int) -> Ranking:
        """Return the best messages; asked again, it gives the same order."""
        return Ranking(ids=tuple(self.messages[place].id for place in self._rank_all(question)[:limit]))

    def window(self, question: Question, budget: int) -> InWindow:
        """Return the part of the ranking that fits with the question."""
        room, shown = budget - _count_question(question, budget, self.counter), set[str]()
        order = self._rank_all(question)
        for place in reversed(order) if self.pack_backwards else order:
            message = self.messages[place]
            if (tokens := self.counter.count(message)) <= room:
                room -= tokens
                shown.add(message.id)
        return InWindow(ids=frozenset(shown))

    def _rank_all(self, question: Question) -> list[int]:
        if self.last is None or self.last[0] is not question:
            self.last = question, rank_places(self.scorer(question.text), self.random)
        return self.last[1]


def by_token_budget(messages: Sequence[Message], room: int, counter: TokenCounter) -> frozenset[str]:
    """Return the newest stretch of messages that fits; see `TokenBudget`."""
    return _ids_of(TokenBudget(room, counter, keep_last=False)(messages).kept)


def by_importance(messages: Sequence[Message], room: int, counter: TokenCounter) -> frozenset[str]:
    """Return the most important messages, whatever is asked; see `ImportanceSampling`."""
    return _ids_of(ImportanceSampling(room, counter=counter, keep_last=False)(messages).kept)


def by_running_summary(messages: Sequence[Message], room: int, counter: TokenCounter) -> frozenset[str]:
    """Return the messages of which a sentence is in the running summary at the end, and the newest after it.

    The conversation is folded whenever `RunningSummary` says so; `Summarize` may use half of the window.
    """
    policy = RunningSummary(room, counter=counter)
    writer = _SummaryWriter(Summarize(max_tokens=max(1, int(_SUMMARY_SHARE * room)), counter=counter))
    unfolded: list[Message] = []
    summary = None
    for message in messages:
        unfolded.append(message)
        folded = policy.fold(unfolded, summary, writer)
        if folded.changed:
            unfolded, summary = list(folded.kept), folded.summary
    if summary is None:
        return by_token_budget(unfolded, room, counter)
    remaining = room - counter.count(Message(role="system", content=summary.text))
    if remaining < counter.count_all([]):  # the summary alone is too large
        return by_token_budget(messages, room, counter)
    return by_token_budget(unfolded, remaining, counter) | frozenset(writer.source_ids)


def by_relevance(
    messages: Sequence[Message], question: str, room: int, counter: TokenCounter
) -> frozenset[str]:
    """Return the messages that the relevance filter keeps, even in part; see `Relevance`."""
    remaining = room - counter.count_all([Message(role="user", content="")])
    if remaining < 1:
        return frozenset()
    return frozenset(Relevance(counter=counter)(messages, max_tokens=remaining, query=question).sources)


POLICIES: Mapping[str, _Select | None] = {
    "token-budget": by_token_budget,
    "importance": by_importance,
    "summary": by_running_summary,
    "relevance": None,
}
"""The policies by name; None for the one that reads the question."""

BASELINES = ("bm25", "dense", "recent", "full", *POLICIES)
"""The names of the baselines; `make_baseline` says what each does."""


class PolicySystem:
    """One conversation as one history, and what a policy keeps of it.

    A policy that does not read the question decides once a budget, with room for the longest that fits it.
    """

    def __init__(
        self, name: str, messages: Sequence[Message], questions: Sequence[Question], *, counter: TokenCounter
    ) -> None:
        self._select = POLICIES[name]
        self._messages = [counter.counted(message) for message in messages]
        self._question_tokens = [counter.count(Message(role="user", content=q.text)) for q in questions]
        self._counter = counter
        self._selected: dict[int, frozenset[str]] = {}

    def rank(self, question: Question, limit: int) -> Ranking:  # noqa: ARG002
        """Return nothing: a policy does not rank."""
        return Ranking(ids=(), ranked=False)

    def window(self, question: Question, budget: int) -> InWindow:
        """Return what the policy keeps next to the question."""
        opening = self._counter.count_all([])  # the reply's opening, which a policy counts itself
        needed = _count_question(question, budget, self._counter) - opening
        if self._select is None:
            return InWindow(ids=by_relevance(self._messages, question.text, budget - needed, self._counter))
        if budget in self._selected:
            return InWindow(ids=self._selected[budget], is_new=False)
        longest = max(size for size in [*self._question_tokens, needed] if size + opening <= budget)
        self._selected[budget] = self._select(self._messages, budget - longest, self._counter)
        return InWindow(ids=self._selected[budget])


class _SummaryWriter:
    def __init__(self, write: Summarize) -> None:
        self._write = write
        self._points: dict[str, list[str]] = {}
        self.source_ids: list[str] = []

    def __call__(self, given: Given, **options: Any) -> Compressed:
        summary = self._write(given, **options)
        for point in find_points(as_messages(given), language_of(summary.text)):
            for source in point.sources:
                self._points.setdefault(source, []).append(point.words)
        earlier = [id for id in self.source_ids if any(point in summary.text for point in self._points[id])]
        self.source_ids = list(dict.fromkeys([*earlier, *summary.sources]))
        return summary


def _ids_of(messages: Sequence[Message]) -> frozenset[str]:
    return frozenset(message.id for message in messages)


def _count_question(question: Question, budget: int, counter: TokenCounter) -> int:
    """Return the tokens of a request with the question alone; raise where it is larger than the budget."""
    needed = counter.count_all([Message(role="user", content=question.text)])
    if needed > budget:
        reason = f"the question takes {needed} of {budget} tokens; raise the budget"
        raise BudgetTooSmall(reason, needed=needed, available=budget)
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

    "bm25": words alone; "dense": vectors alone; "recent": the newest first; "full": everything, oldest first,
    as if a model read it all; one of `POLICIES`: what that policy keeps.
    """
    messages = conversation.messages
    if name in POLICIES:
        answerable = [question for question in conversation.questions if question.answerable]
        return PolicySystem(name, messages, answerable, counter=counter)
    texts = [message.search_text for message in messages]
    if name == "bm25":
        scorer = bm25(texts)
    elif name == "dense":
        scorer = dense(texts, embedder, progress)
    else:
        dates = [cast("datetime", message.created_at) for message in messages]
        scorer = by_date(dates, newest_first=name == "recent")
    return BaselineSystem(messages, scorer, counter=counter, random=random, pack_backwards=name == "full")
