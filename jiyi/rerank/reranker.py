"""Query and texts to scores: the protocol every reranker follows."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

__all__ = ["Reranker"]


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
        ...

    def score(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return a score for each of ``texts``; none for none.

        Raises:
            InputError: ``texts`` is a bare string or holds something else than text.
            RerankError: the model failed; no partial answer is given.
        """
        ...
