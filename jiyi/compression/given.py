"""Checks that every compressor makes of its arguments."""

from collections.abc import Sequence

from jiyi.errors import InputError

__all__ = ["check_max_tokens", "check_query", "check_words"]


def check_max_tokens(max_tokens: object) -> None:
    """Refuse a limit that is no whole number of at least 1; None is no limit.

    Raises:
        InputError: it is none.
    """
    if max_tokens is None:
        return
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1:
        raise InputError(f"max_tokens={max_tokens!r} must be a whole number of tokens, at least 1")


def check_query(query: object) -> None:
    """Refuse a query that is neither text nor None.

    Raises:
        InputError: it is something else.
    """
    if query is not None and not isinstance(query, str):
        raise InputError(f"query must be text, not {type(query).__name__}")


def check_words(name: str, words: Sequence[str]) -> tuple[str, ...]:
    """Return a list of texts without the empty ones.

    Raises:
        InputError: it is one text, or holds something else than text.
    """
    if isinstance(words, str) or not all(isinstance(word, str) for word in words):
        raise InputError(f'{name} takes a list of texts, such as ["重要", "key"], not {words!r}')
    return tuple(word for word in words if word)
