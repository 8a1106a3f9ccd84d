"""Texts of the tools for people and models, in Chinese and English."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["Words", "load_words"]


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of one language."""

    language: str
    table: Mapping[str, Any]

    @property
    def instructions(self) -> str:
        """Instructions for the model: when to use the memory."""
        return str(self.table["instructions"])

    def title(self, name: str) -> str:
        """Return the title of a tool, a resource or a prompt, for people."""
        return str(self.table["titles"][name])

    def description(self, name: str) -> str:
        """Return the description of a tool, a resource or a prompt, for the model."""
        return str(self.table["about"][name])

    def argument(self, tool: str, name: str) -> str:
        """Return the description of an argument, "" if its name says enough."""
        arguments = self.table["arguments"]
        return str(arguments.get(f"{tool}.{name}", arguments.get(name, "")))

    def note_template(self, name: str) -> str:
        """Return a sentence of an answer as a format string."""
        return str(self.table["notes"][name])

    def note(self, name: str, **parts: object) -> str:
        """Return a sentence of an answer, with its parts filled in."""
        return self.note_template(name).format(**parts)


@cache
def load_words(language: str) -> Words:
    """Load the texts of a language, "zh" or "en"."""
    tables = tomllib.loads(files("jiyi.mcp").joinpath("words.toml").read_text("utf-8"))
    return Words(language, tables[language])
