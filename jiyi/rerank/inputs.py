"""What every reranker does to its input first."""

from collections.abc import Sequence

from jiyi.embeddings.inputs import clean_text
from jiyi.errors import InputError

__all__ = ["check_texts"]


def check_texts(query: str, texts: Sequence[str], limit: int) -> tuple[str, list[str]]:
    """Return the query and the texts, each up to `limit` characters and encodable.

    Raises:
        InputError: the query is no text, `texts` is one string instead of a sequence of
            them, or holds something that is not text.
    """
    if isinstance(texts, str):
        raise InputError("score() takes a list of texts, not one string: write score(query, [text])")
    items = [query, *texts]
    for item in items:
        if not isinstance(item, str):
            raise InputError(f"score() takes texts, not {type(item).__name__}")
    ready = [clean_text(item, limit) for item in items]
    return ready[0], ready[1:]
