"""Loads dictionaries and patterns before a write takes the lock that other processes wait for."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache

from jiyi.extraction import extract
from jiyi.text import analyse

__all__ = ["load_language_data"]

_LETTERS = {"en": re.compile("[A-Za-z]"), "zh": re.compile("[\u4e00-\u9fff]")}
_SAMPLES = {
    "en": (
        "My name is Ana, I moved to Lisbon in March and my sister is called Mei.",
        "Call me at 555 0100 from now on, always answer in German, the port of api is 8080 until Friday.",
        "I no longer work there; actually it's the other one. Forget that.",
        "Yes.",
    ),
    "zh": (
        "我叫小安，三月搬到了杭州，我妹妹叫小美，不吃辣。",
        "以后都用中文回答，api 的端口从今天起改到 8080，到周五为止，电话是 13800000000。",
        "不在那儿上班了；其实是另一个。刚才说的不算。",
        "九点半。",
    ),
}


def load_language_data(texts: Iterable[str]) -> None:
    """Load what reading these texts for facts needs, for each language in them, once per process."""
    for text in texts:
        for name, letter in _LETTERS.items():
            if letter.search(text):
                _load_language(name)


@cache
def _load_language(name: str) -> None:
    for text in _SAMPLES[name]:
        analyse(text)
        extract(text, speaker=None, role="user", said_at=datetime.now(UTC), zone=UTC)
