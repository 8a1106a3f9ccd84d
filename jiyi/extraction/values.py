"""Finds values in a text: numbers with their units, times, dates, money, addresses, codes, what is quoted."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["kind_of_value", "patterns", "table", "values"]

_START = re.compile(
    r"[A-Za-z0-9_£$€¥￥₹+~][\w.:/@'’+\\-]*|[零〇一二两俩仨三四五六七八九十百千万亿半每隔逢周星礼早晚上中下凌半夜第农阳公腊正初廿今明天清大深傍晌双工]"
    r"|[“「『《\"`/.]"
)
_SIGNED = re.compile(r"[0-9./:@_£$€¥￥₹\\]|[A-Za-z]-[A-Za-z0-9]")


@cache
def table(name: str, package: str = "jiyi.extraction") -> Mapping[str, Any]:
    """Return a package's table of words or patterns, NAME.toml; ``{part}`` in it is filled in."""
    read = tomllib.loads(files(package).joinpath(f"{name}.toml").read_text("utf-8"))
    parts: dict[str, str] = read.pop("parts", {})

    def fill(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: fill(one) for key, one in value.items()}
        if isinstance(value, list):
            return [fill(one) for one in value]
        while isinstance(value, str) and value != (
            filled := re.sub(r"\{([a-z_]+)\}", lambda part: f"(?:{parts[part[1]]})", value)
        ):
            value = filled
        return value

    filled: dict[str, Any] = fill(read)
    return filled


@cache
def patterns(name: str, section: str, package: str = "jiyi.extraction") -> Mapping[str, re.Pattern[str]]:
    """Return the patterns of a section of NAME.toml, compiled; ``a.b`` is a section inside of one."""
    read = table(name, package)
    for part in section.split("."):
        read = read[part]
    return {key: re.compile(text) for key, text in read.items() if isinstance(text, str)}


def values(text: str) -> Iterator[re.Match[str]]:
    """Give the values of a text in their order, none over another; ``lastgroup`` is the kind."""
    pattern, first = _kinds()
    end = 0
    for start in _START.finditer(text):
        if start.start() < end and start.end() <= end:
            continue
        word = start[0]
        at = max(start.start(), end)
        if word[0].isascii() and len(word) > 1 and not _SIGNED.search(word) and word.lower() not in first:
            continue
        found = pattern.match(text, at)
        if found:
            end = found.end()
            yield found


def kind_of_value(value: str) -> str:
    """Return what kind of value a text is, "name" where it is none."""
    plain = value.strip('「」“”"` ')
    found = _kinds()[0].match(plain)
    return found.lastgroup or "name" if found else "name"


@cache
def _kinds() -> tuple[re.Pattern[str], frozenset[str]]:
    read = table("values")
    kinds = "|".join(f"(?P<{kind['name']}>{kind['pattern']})" for kind in read["kind"])
    return re.compile(kinds), frozenset(read["first"].split())
