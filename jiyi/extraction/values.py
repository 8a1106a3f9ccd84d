"""Finds values in a text: numbers with their units, times, dates, money, addresses, codes, what is quoted."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

from jiyi.text.lexicon import fill_parts, read_toml

__all__ = ["find_values", "kind_of_value", "last_like", "load_patterns", "load_table"]

_VALUE_START = re.compile(
    r"[A-Za-z0-9_£$€¥￥₹+~][\w.:/@'’+\\-]*|[零〇一二两俩仨三四五六七八九十百千万亿半每隔逢周星礼早晚上中下凌半夜第农阳公腊正初廿今明天清大深傍晌双工]|[京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼](?=[A-Z])"
    r"|[“「『《\"`/.]"
)
_VALUE_MARK = re.compile(r"[0-9/:@_£$€¥￥₹\\]|\.[^.]|[A-Za-z]-\w|.(?:stra[ßs]s?e|allee|platz|weg)$")
_ALIKE = ("clock", "date", "weekday"), ("number", "money", "amount")
_THE = ("the", "The", "THE")
_DAY_AFTER_THE = re.compile(r"the (?:first |last |second |\d)", re.I)


@cache
def load_table(name: str, package: str = "jiyi.extraction") -> Mapping[str, Any]:
    """Return a package's NAME.toml with each ``{part}`` replaced by that entry of its ``[parts]``."""
    data = read_toml(package, name)
    parts = {part: f"(?:{pattern})" for part, pattern in data.pop("parts", {}).items()}

    def fill(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: fill(item) for key, item in value.items()}
        if isinstance(value, list):
            return [fill(item) for item in value]
        return fill_parts(value, parts) if isinstance(value, str) else value

    filled: dict[str, Any] = fill(data)
    return filled


@cache
def load_patterns(name: str, section: str, package: str = "jiyi.extraction") -> Mapping[str, re.Pattern[str]]:
    """Return the compiled patterns of a section of NAME.toml; ``a.b`` is a nested section."""
    section_rows = load_table(name, package)
    for part in section.split("."):
        section_rows = section_rows[part]
    return {key: re.compile(text) for key, text in section_rows.items() if isinstance(text, str)}


def find_values(text: str) -> Iterator[re.Match[str]]:
    """Yield the values of a text in order, without overlaps; ``lastgroup`` is the kind."""
    pattern, _ = _value_pattern()
    end = 0
    for candidate in _VALUE_START.finditer(text):
        word, start = candidate[0], max(candidate.start(), end)
        is_article = word in _THE and not _DAY_AFTER_THE.match(text, start)
        if is_article or not _can_begin(word) or candidate.end() <= end:
            continue
        if match := pattern.match(text, start):
            end = match.end()
            yield match


@lru_cache(maxsize=1 << 15)  # most words of a text are common ones
def _can_begin(word: str) -> bool:
    """Return whether a value can begin with this word; a full stop at its end is no sign of one."""
    if not word[0].isascii() or len(word) == 1 or _VALUE_MARK.search(word):
        return True
    return word.rstrip(".").lower() in _value_pattern()[1]


def kind_of_value(value: str) -> str:
    """Return what kind of value a text is, "name" if no other kind fits."""
    plain = value.strip('「」“”"` ')
    match = _value_pattern()[0].match(plain)
    return match.lastgroup or "name" if match else "name"


def last_like(value: str, texts: Iterable[str]) -> str:
    """Return the last value in texts, the newest first, whose place a value may take: "9090" for "9091"."""
    kind = kind_of_value(value)
    kinds = next((kinds for kinds in _ALIKE if kind in kinds), (kind,))
    found = (match for text in texts for match in reversed([*find_values(text)]))
    return next((match[0] for match in found if match.lastgroup in kinds and match[0] != value), "")


@cache
def _value_pattern() -> tuple[re.Pattern[str], frozenset[str]]:
    data = load_table("values")
    kinds = "|".join(f"(?P<{kind['name']}>{kind['pattern']})" for kind in data["kind"])
    return re.compile(kinds), frozenset(data["first"].split())
