"""Loads dictionaries and patterns before a write takes the lock that other processes wait for."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache

from jiyi.extraction import extract
from jiyi.text import analyse
from jiyi.text.lexicon import read_toml

__all__ = ["load_language_data"]

_LETTERS = {"en": re.compile("[A-Za-z]"), "zh": re.compile("[\u4e00-\u9fff]")}


def load_language_data(texts: Iterable[str]) -> None:
    """Load what reading these texts for facts needs, for each language in them, once per process."""
    for text in texts:
        for name, letter in _LETTERS.items():
            if letter.search(text):
                _load_language(name)


@cache
def _load_language(name: str) -> None:
    for text in read_toml("jiyi.verbs", "samples")[name]:
        analyse(text)
        extract(text, speaker=None, role="user", said_at=datetime.now(UTC), zone=UTC)
