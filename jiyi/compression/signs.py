"""Turns of phrase by which outputs and messages are judged."""

from functools import cache
from types import SimpleNamespace

from jiyi.text.lexicon import lexicon

__all__ = ["signs"]


@cache
def signs() -> SimpleNamespace:
    """Return the patterns of `signs.toml`."""
    return SimpleNamespace(**lexicon(__package__, "signs"))
