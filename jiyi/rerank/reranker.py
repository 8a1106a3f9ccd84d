"""The protocol every reranker follows, and how one is run so that a search never fails for it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Protocol, runtime_checkable

from jiyi.breaker import Breaker
from jiyi.embeddings.embedder import check_texts, clean_text
from jiyi.errors import InputError, JiyiError, RerankError

__all__ = ["Reranked", "Reranker", "check_query", "rerank"]


@runtime_checkable
class Reranker(Protocol):
    """Says how well each text answers a query, by reading both together.

    Guarantees: one score per text, in the order of the texts, finite; higher is better;
    scores of one call compare with each other, those of different calls need not; any text
    is accepted, empty, huge or malformed, of a long one only the beginning may be read;
    safe to call from several threads. It may be slow: `jiyi.rerank.rerank` bounds the wait.
    """

    @property
    def name(self) -> str:
        """Kind and model, for reports: "endpoint:BAAI/bge-reranker-v2-m3"."""

    def score(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return a score for each of ``texts``, none for none; no partial answer is given.

        InputError: ``texts`` is a bare string or holds something else than text. RerankError: the model
        failed.
        """


def check_query(query: str, texts: Sequence[str], limit: int) -> tuple[str, list[str]]:
    """Return the query and the texts, up to `limit` characters and encodable; raises as `Reranker.score`."""
    items = check_texts(texts, "score(query, [text])") + check_texts([query], "score(query, [text])")
    *ready, question = (clean_text(item, limit) for item in items)
    return question, ready


@dataclass(frozen=True, slots=True, kw_only=True)
class Reranked:
    """The result of reranking: scores, or why there are none."""

    scores: tuple[float, ...] | None  # one per text, higher is better; None: keep the order there was
    note: str = ""  # why there are no scores, for the report; "" if there are


def rerank(
    reranker: Reranker, query: str, texts: Sequence[str], *, time_limit: float, breaker: Breaker | None = None
) -> Reranked:
    """Return the reranker's scores, or a note, after at most `time_limit` seconds.

    - A reranker that is too slow, raises, or answers with nonsense gives a note instead of scores.
    - A call that takes too long goes on in a daemon thread, which keeps no process from ending. With a
      `breaker`, the same at each call, one that was too slow is skipped for a while: the note comes at once,
      and a call in the background finds out when it is fast enough again.

    InputError: `texts` is a bare string or holds something else than text.
    """
    items = check_texts(texts, "rerank(r, query, [text], ...)")
    if not items:
        return Reranked(scores=())
    name = type(reranker).__name__
    breaker = breaker or Breaker()

    def score(probing: bool) -> list[float]:
        started = time.monotonic()
        scores = [float(score) for score in reranker.score(query, items)]
        breaker.record_answer(time.monotonic() - started, time_limit, probing=probing)
        return scores

    try:
        name = reranker.name
        scores = breaker.run(
            score, time_limit, late=lambda why: RerankError(f"it gave no answer in time: {why}")
        )
    except InputError:
        raise
    except JiyiError as error:
        problem = f"failed: {error}"
    except Exception as error:  # a reranker of the caller may raise anything: the order before holds
        problem = f"failed: {type(error).__name__}: {error}"
    else:
        problem = "answered with nonsense: a score is no finite number"
        if len(scores) != len(items):
            problem = f"answered with nonsense: {len(items)} texts were given, {len(scores)} scores came back"
        elif all(map(isfinite, scores)):
            return Reranked(scores=tuple(scores))
    return Reranked(scores=None, note=f"not reranked, {name} {problem}")
