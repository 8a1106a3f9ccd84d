"""Reranking that never fails: scores within a time limit, or the reason why there are none."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from jiyi.errors import InputError, JiyiError
from jiyi.rerank.reranker import Reranker
from jiyi.time_limit import OutOfTime, run_within

__all__ = ["Reranked", "rerank"]

_MOST_LATE = 2  # calls of a reranker that may still be going after nobody waits for them


@dataclass(frozen=True, slots=True, kw_only=True)
class Reranked:
    """What came of reranking: scores, or why there are none."""

    scores: tuple[float, ...] | None  # one per text, higher is better; None: keep the order there was
    note: str = ""  # why there are no scores, for whoever reads the report; "" where there are


def rerank(reranker: Reranker, query: str, texts: Sequence[str], *, time_limit: float) -> Reranked:
    """Return the reranker's scores, or a note, after at most `time_limit` seconds.

    - A reranker that is too slow, raises, or answers with nonsense (another number of
      scores than of texts, not finite numbers) gives a note instead of scores.
    - A call that takes too long goes on in a daemon thread, which does not keep the
      process from ending. While two calls of one reranker are stuck like that, no third is
      begun: the note comes at once.

    Raises:
        InputError: `texts` is a bare string or holds something else than text.
    """
    if isinstance(texts, str):
        raise InputError(
            "rerank() takes a list of texts, not one string: write rerank(r, query, [text], ...)"
        )
    items = list(texts)
    if not items:
        return Reranked(scores=())
    name = type(reranker).__name__
    try:
        name = reranker.name
        scores = run_within(
            lambda: [float(score) for score in reranker.score(query, items)],
            time_limit,
            owner=reranker,
            most_late=_MOST_LATE,
        )
    except InputError:
        raise
    except OutOfTime as late:
        return Reranked(scores=None, note=f"not reranked, {name} gave no answer in time: {late}")
    except JiyiError as error:
        return Reranked(scores=None, note=f"not reranked, {name} failed: {error}")
    except Exception as error:  # whatever another's reranker raises, the order from before holds
        return Reranked(scores=None, note=f"not reranked, {name} failed: {type(error).__name__}: {error}")
    if len(scores) != len(items):
        reason = f"{len(items)} texts were given, {len(scores)} scores came back"
        return Reranked(scores=None, note=f"not reranked, {name} answered with nonsense: {reason}")
    if not all(map(isfinite, scores)):
        return Reranked(
            scores=None, note=f"not reranked, {name} answered with nonsense: a score is no finite number"
        )
    return Reranked(scores=tuple(scores))
