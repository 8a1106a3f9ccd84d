"""What every embedder does to its input first: check it, shorten it, make it encodable."""

from collections.abc import Sequence

from jiyi.errors import InputError

__all__ = ["check_inputs", "clean_text"]


def check_inputs(texts: Sequence[str], kind: str) -> list[str]:
    """Return `texts` as a list.

    Raises:
        InputError: `texts` is one string instead of a sequence of them, holds something
            that is not text, or `kind` is neither "query" nor "passage".
    """
    if isinstance(texts, str):
        raise InputError("embed() takes a list of texts, not one string: write embed([text], kind)")
    if kind not in ("query", "passage"):
        raise InputError(f'kind must be "query" or "passage", not {kind!r}')
    items = list(texts)
    for item in items:
        if not isinstance(item, str):
            raise InputError(f"embed() takes texts, not {type(item).__name__}")
    return items


def clean_text(text: str, limit: int) -> str:
    """Return the first `limit` characters of `text` in a form that C and UTF-8 can carry.

    NUL, which ends a C string, becomes a space. Two surrogates that make a character are
    joined into it, a lone one becomes U+FFFD.
    """
    text = text[:limit].replace("\0", " ")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
