"""Word lists and patterns kept as data: TOML files next to the modules that read them."""

import re
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

__all__ = ["fill_parts", "jieba", "lexicon", "read_toml"]

_PART = re.compile(r"\{([A-Za-z]\w*)\}")


def read_toml(package: str, name: str) -> dict[str, Any]:
    """Return what the file ``name``.toml of a package holds."""
    return tomllib.loads((files(package) / f"{name}.toml").read_text("utf-8"))


def jieba() -> Any:
    """Return the module that cuts Chinese into words; its dictionary is loaded by the first call."""
    import rjieba

    return rjieba


def fill_parts(pattern: str, parts: Mapping[str, str]) -> str:
    """Return a pattern with the part of that name in place of each ``{name}``, also inside of parts."""
    while _PART.search(pattern):
        pattern = _PART.sub(lambda name: parts[name[1]], pattern)
    return pattern


def lexicon(package: str, name: str, *, flags: int = 0) -> SimpleNamespace:
    """Return what the file ``name``.toml of a package holds, under the names it has there.

    Words of its table ``lists`` come as frozensets, ``patterns`` compiled, their line breaks left
    out; all else as it stands. Callers keep what they were given.
    """
    read = read_toml(package, name)
    lists: dict[str, str] = read.pop("lists", {})
    patterns: dict[str, str] = read.pop("patterns", {})
    words = {key: frozenset(value.split()) for key, value in lists.items()}
    compiled = {key: re.compile(value.replace("\n", ""), flags) for key, value in patterns.items()}
    return SimpleNamespace(**words, **compiled, **read)
