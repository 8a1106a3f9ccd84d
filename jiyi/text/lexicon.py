"""Word lists and patterns kept as data: TOML files next to the modules that read them."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

HAN = r"\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"  # inside []
HAN_CHAR = re.compile(rf"[{HAN}]")
_PART = re.compile(r"\{([A-Za-z]\w*)\}")


def read_toml(package: str, name: str) -> dict[str, Any]:
    """Return the content of the file ``name``.toml of a package."""
    return tomllib.loads((files(package) / f"{name}.toml").read_text("utf-8"))


def jieba() -> Any:
    """Return the module that splits Chinese into words; the first call loads its dictionary."""
    import rjieba

    return rjieba


def fill_parts(pattern: str, parts: Mapping[str, str]) -> str:
    """Return a pattern with each ``{name}`` replaced by that part, also inside parts."""
    while _PART.search(pattern):
        pattern = _PART.sub(lambda name: parts[name[1]], pattern)
    return pattern


class Hints:
    """Selects the patterns that can match a text: those one of whose ``hints`` it contains."""

    def __init__(self, hints: Iterable[Iterable[str]]) -> None:
        places: dict[str, list[int]] = {}
        for place, hint in ((place, hint) for place, some in enumerate(hints) for hint in some):
            places.setdefault(hint, []).append(place)
        self._all = tuple(places.items())
        self._ascii = tuple((hint, some) for hint, some in self._all if hint.isascii())

    def places(self, text: str) -> list[int]:
        """Return the places of the patterns that may match, ascending."""
        table = self._ascii if text.isascii() else self._all
        found = [places for hint, places in table if hint in text]
        return sorted(set().union(*found)) if found else []


def lexicon(package: str, name: str, *, flags: int = 0) -> SimpleNamespace:
    """Return the content of the file ``name``.toml of a package as attributes, for callers that cache it.

    The values of its table ``lists`` become frozensets of words, those of ``patterns`` compiled patterns
    without line breaks; all others are unchanged.
    """
    data = read_toml(package, name)
    words = {key: frozenset(listed.split()) for key, listed in data.pop("lists", {}).items()}
    patterns = data.pop("patterns", {}).items()
    compiled = {key: re.compile(pattern.replace("\n", ""), flags) for key, pattern in patterns}
    return SimpleNamespace(**words, **compiled, **data)
