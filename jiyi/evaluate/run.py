"""The evaluation itself: fill, ask, measure; one conversation after another."""

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from jiyi import wiring
from jiyi.embeddings import CachedEmbedder, Embedder, TextKind, Vectors32
from jiyi.errors import BudgetTooSmall
from jiyi.evaluate.baselines import check_baselines, make_baseline
from jiyi.evaluate.dataset import Conversation, Dataset, Question, hide_ids
from jiyi.evaluate.metrics import (
    DEPTH,
    SESSIONS,
    Evaluation,
    Ingest,
    Latency,
    Outcome,
    Run,
    Scores,
    measure,
    share_found,
)
from jiyi.evaluate.systems import SQLITE, MemorySystem, Opener, System, open_sqlite
from jiyi.records import Budget
from jiyi.settings import load_settings
from jiyi.storage.database import grouped
from jiyi.text import TokenCounter, analyse, counter_for

__all__ = ["JIYI", "MeasuredEmbedder", "Progress", "evaluate"]

JIYI = "jiyi"
"""The name of the system that is no baseline."""

Progress = Callable[[str, int, int], None]
"""Called with what is being done ("messages" or "questions"), how many are done, and of how many."""

_VECTOR_SYSTEMS = (JIYI, "dense")
_DEEPER_LIMITS = (50, 200, 1000)  # how many messages are asked for until there are enough sessions


def evaluate(
    dataset: Dataset,
    *,
    open: Opener | Mapping[str, Opener] = open_sqlite,
    backend: str = SQLITE,
    embedder: Embedder | None = None,
    budgets: Sequence[int] = (),
    baselines: Sequence[str] = (),
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Fill a fresh memory with each conversation, ask its questions, and say what was found.

    Ids are replaced by random ones first. A conversation is loaded whole before its first question. The same
    seed gives the same metrics.

    Args:
        dataset: see `load_dataset`.
        open: opens an empty memory; or several that do, by what results call the places where those memories
            live: jiyi then runs on each of them with the same conversations.
        backend: what results call the place, where there is one.
        embedder: the one the settings name where it is left out.
        budgets: sizes of the windows to build for each question, in tokens.
        baselines: names of `BASELINES` to run on the same conversations.
        seed: of the random ids, and of the order of what a baseline finds equally good.
        progress: see `Progress`.

    Raises InputError (an unknown baseline, an invalid budget), EmbeddingError and StorageError.
    """
    sizes = tuple(dict.fromkeys(Budget(max_input_tokens=size).max_input_tokens for size in budgets))
    places = {backend: open} if callable(open) else dict(open)
    tallies = [_Tally(JIYI, place, opener) for place, opener in places.items()]
    tallies += [_Tally(name) for name in check_baselines(baselines)]
    counter = counter_for(load_settings().model)
    counter.count_text(" ".join(analyse("预热 warm")))  # loads dictionaries that a search would wait for
    with ExitStack() as stack:
        if embedder is None:
            embedder = wiring.embedder_for(load_settings())
            stack.callback(getattr(embedder, "close", _do_nothing))
        runner = _Runner(
            embedder=MeasuredEmbedder(embedder),
            counter=counter,
            budgets=sizes,
            report=progress or _do_nothing,
            messages=dataset.messages * sum(tally.system in _VECTOR_SYSTEMS for tally in tallies),
            questions=len(dataset.questions) * len(tallies),
        )
        for i, conversation in enumerate(dataset.conversations):
            # One generator each, so that no system changes the random numbers of another.
            anonymous = hide_ids(conversation, Random(f"{seed}/{i}"))
            for tally in tallies:
                runner.run(tally, anonymous, Random(f"{seed}/{i}/{tally.system}"))
    name = runner.embedder.name
    runs = [tally.as_run(dataset, sizes, name, first=tally is tallies[0]) for tally in tallies]
    return Evaluation(runs=tuple(runs))


class MeasuredEmbedder(CachedEmbedder):
    """A cache without a limit that knows what it took: several systems are measured for the price of one."""

    def __init__(self, inner: Embedder) -> None:
        super().__init__(inner, size=sys.maxsize)
        self._seconds_of: dict[str, float] = {}  # by query
        self._seconds = self._query_seconds = 0.0

    def read(self) -> NDArray[np.float64]:
        """Return the seconds in `embed` so far, and those that embedding the queries took, at each use."""
        return np.array([self._seconds, self._query_seconds])

    def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors32:
        """As `CachedEmbedder.embed`."""
        started = time.perf_counter()
        matrix = super().embed(texts, kind)
        with self._lock:
            self._seconds += time.perf_counter() - started
            self._query_seconds += sum(map(self._seconds_of.__getitem__, texts)) if kind == "query" else 0.0
        return matrix

    def _embed_with_inner(self, texts: list[str], kind: TextKind) -> list[NDArray[np.float32]]:
        started = time.perf_counter()
        rows = super()._embed_with_inner(texts, kind)
        if kind == "query":
            self._seconds_of |= dict.fromkeys(texts, (time.perf_counter() - started) / len(texts))
        return rows


@dataclass(slots=True, eq=False)
class _Tally:
    system: str
    backend: str | None = None  # None: a baseline
    open: Opener | None = None
    outcomes: list[Outcome] = field(default_factory=list)
    in_context: dict[int, list[float]] = field(default_factory=dict)  # shares, by budget
    times: Mapping[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # see `Latency.of`
    seconds_text: float = 0.0
    seconds_vectors: float = 0.0
    too_large: dict[int, int] = field(default_factory=dict)  # questions larger than the budget, by budget
    notes: dict[str, None] = field(default_factory=dict)

    def as_run(self, dataset: Dataset, budgets: Sequence[int], embedder: str, *, first: bool) -> Run:
        """Return the results as a run; only the first system embeds the messages."""
        groups = grouped((outcome.question.category, outcome) for outcome in self.outcomes)
        shares = self.in_context
        means = {size: fmean(shares[size]) if size in shares else None for size in budgets}
        vectors = self.seconds_vectors if first else None
        unseen = "no window was made for them, and their evidence counts as not shown"
        counts = self.too_large.items()
        few = [f"{size} tokens are too few for {n} of the questions alone: {unseen}" for size, n in counts]
        return Run(
            file=dataset.file,
            language=dataset.language,
            system=self.system,
            backend=self.backend,
            embedder=embedder if self.system in _VECTOR_SYSTEMS else None,
            scores=_score(self.outcomes),
            by_category={name: _score(of_it) for name, of_it in sorted(groups.items())},
            evidence_in_context=means,
            latency=Latency.of(self.times),
            ingest=Ingest(messages=dataset.messages, seconds_text=self.seconds_text, seconds_vectors=vectors),
            notes=(*self.notes, *few),
        )


@dataclass(slots=True)
class _Runner:
    embedder: MeasuredEmbedder
    counter: TokenCounter
    budgets: tuple[int, ...]
    report: Progress
    messages: int  # to be loaded where vectors are made
    questions: int  # to be asked
    loaded: int = 0
    asked: int = 0

    def run(self, tally: _Tally, conversation: Conversation, random: Random) -> None:
        session_ids = {m.id: session.id for session in conversation.sessions for m in session.messages}
        with self._fill(tally, conversation, random) as system:
            for question in conversation.questions:
                self._ask(system, question, session_ids, tally)
                self.asked += 1
                self.report("questions", self.asked, self.questions)

    @contextmanager
    def _fill(self, tally: _Tally, conversation: Conversation, random: Random) -> Iterator[System]:
        before, count = self.embedder.read(), len(conversation.messages)

        def advance(done: int) -> None:  # facts learned from the messages are embedded too, and not counted
            self.report("messages", self.loaded + min(done, count), self.messages)

        with ExitStack() as stack:
            if tally.open is None:
                started = time.perf_counter()
                system: System = make_baseline(
                    tally.system,
                    conversation,
                    embedder=self.embedder,
                    counter=self.counter,
                    random=random,
                    progress=advance,
                )
                seconds, _ = map(float, self.embedder.read() - before)
                tally.seconds_text += time.perf_counter() - started - seconds
            else:
                memory = stack.enter_context(tally.open(self.embedder))
                started = time.perf_counter()
                system = MemorySystem(memory, random)
                system.load(conversation)
                tally.seconds_text += time.perf_counter() - started
                system.finish(advance)
                tally.seconds_vectors += time.perf_counter() - started
            if tally.system in _VECTOR_SYSTEMS:
                self.loaded += count
                self.report("messages", self.loaded, self.messages)
            yield system

    def _ask(self, system: System, question: Question, session_ids: dict[str, str], tally: _Tally) -> None:
        before, started = self.embedder.read(), time.perf_counter()
        ranking = system.rank(question, DEPTH)
        seconds = time.perf_counter() - started
        embedding, query_seconds = map(float, self.embedder.read() - before)
        if ranking.ranked:
            tally.times["search"].append(1000 * (seconds - embedding))
        if query_seconds:
            tally.times["embed"].append(1000 * query_seconds)
            tally.times["with_embedding"].append(1000 * (seconds - embedding + query_seconds))
        tally.notes |= dict.fromkeys(ranking.notes)
        outcome = Outcome(
            question=question,
            ranking=ranking.ids[:DEPTH],
            sessions=_find_sessions(system, question, ranking.ids, session_ids),
            evidence_sessions=_unique(session_ids[id_] for id_ in question.evidence),
            nothing_relevant=ranking.nothing_relevant,
            ranked=ranking.ranked,
        )
        tally.outcomes.append(outcome)
        if question.answerable:
            for budget in self.budgets:
                self._build_window(system, question, budget, tally)

    def _build_window(self, system: System, question: Question, budget: int, tally: _Tally) -> None:
        before, started = self.embedder.read(), time.perf_counter()
        try:
            window = system.window(question, budget)
        except BudgetTooSmall:
            tally.too_large[budget] = tally.too_large.get(budget, 0) + 1
            shown = frozenset[str]()
        else:
            (embedding, _), shown = map(float, self.embedder.read() - before), window.ids
            if window.is_new:
                tally.times["context"].append(1000 * (time.perf_counter() - started - embedding))
        share = share_found(shown, question.evidence, one_is_enough=question.one_is_enough)
        tally.in_context.setdefault(budget, []).append(share)


def _do_nothing(*_: object) -> None:
    pass


def _find_sessions(
    system: System, question: Question, ids: tuple[str, ...], session_ids: dict[str, str]
) -> tuple[str, ...]:
    """Return the first distinct sessions of the ranking, asking for more of it while there are too few."""
    needed = min(SESSIONS, len(set(session_ids.values())))
    limit = DEPTH
    for deeper in _DEEPER_LIMITS:
        if len(ids) < limit or len(_unique(session_ids[id_] for id_ in ids)) >= needed:
            break
        ids, limit = system.rank(question, deeper).ids, deeper
    return _unique(session_ids[id_] for id_ in ids)[:SESSIONS]


def _unique(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ids))


def _score(outcomes: Sequence[Outcome]) -> Scores:
    return Scores(questions=len(outcomes), metrics=measure(outcomes))
