"""What the tools say to the model, in Chinese and English."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["Words", "words_of"]


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one language."""

    language: str
    table: Mapping[str, Any]

    @property
    def instructions(self) -> str:
        """When to use the memory, for a model that just met it."""
        return str(self.table["instructions"])

    def title(self, name: str) -> str:
        """Return what people read of a tool, a resource or a prompt."""
        return str(self.table["titles"][name])

    def about(self, name: str) -> str:
        """Return what the model reads of a tool, a resource or a prompt."""
        return str(self.table["about"][name])

    def argument(self, tool: str, name: str) -> str:
        """Return what an argument means, "" where its name says it."""
        arguments = self.table["arguments"]
        return str(arguments.get(f"{tool}.{name}", arguments.get(name, "")))

    def raw_note(self, name: str) -> str:
        """Return a sentence of an answer with its places to be filled."""
        return str(self.table["notes"][name])

    def note(self, name: str, **parts: object) -> str:
        """Return a sentence of an answer."""
        return self.raw_note(name).format(**parts)


@cache
def words_of(language: str) -> Words:
    """Return the words of a language, "zh" or "en"."""
    every = tomllib.loads(files("jiyi.mcp").joinpath("words.toml").read_text("utf-8"))
    return Words(language, every[language])
